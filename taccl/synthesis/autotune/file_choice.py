"""What a search under the costs of one configuration came to, and the file that is chosen of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from taccl.synthesis.autotune.files_tried import FileTried
from taccl.synthesis.autotune.trials import ChunksTried
from taccl.synthesis.configurations import Configuration
from taccl.synthesis.formulated import Formulated
from taccl.synthesis.predicted import PredictedCall
from taccl.synthesis.search import Found

#: How deep a search goes: list scheduling alone; what engines build at once, of several numbers of chunks; or
#: as was requested.
Depth = Literal["listed", "built", "searched"]


@dataclass(frozen=True, eq=False)
class Searched:
    """What a search under the costs of one configuration came to.

    `found` : what is best by those costs. `all_found` : that, the best for other numbers of chunks, and
    others whose files may be faster.
    `tried`, `notes`, `chunks_note` : what is reported of that number, where it was open.
    `depth` : of the search.
    """

    configuration: Configuration
    formulated: Formulated
    found: Found
    all_found: tuple[tuple[Formulated, Found], ...]
    tried: tuple[ChunksTried, ...] = ()
    notes: tuple[str, ...] = ()
    chunks_note: str = ""
    depth: Depth = "searched"


@dataclass(frozen=True, eq=False)
class FileChoice:
    """The configuration that is chosen, the schedule for it, and all that was tried.

    `execution`, `blocks_per_gpu` : of the file, where there is a prediction.
    """

    configuration: Configuration
    formulated: Formulated
    found: Found
    notes: tuple[str, ...]
    chunks_tried: tuple[ChunksTried, ...]
    execution: PredictedCall | None = None
    blocks_per_gpu: int | None = None
    files_tried: tuple[FileTried, ...] = ()


def unpredicted(searched: Searched, *notes: str) -> FileChoice:
    """What a search found best by the costs that it was given, where no file is predicted."""
    reported = (*searched.notes, *searched.formulated.notes, *reported_notes((searched.chunks_note,)), *notes)
    return FileChoice(searched.configuration, searched.formulated, searched.found, reported, searched.tried)


def reported_notes(notes: Iterable[str]) -> Iterator[str]:
    """Those that say something."""
    return (note for note in notes if note)
