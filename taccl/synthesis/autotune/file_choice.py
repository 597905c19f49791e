"""What a search under the costs of one configuration came to, and the file that is chosen of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from taccl.model.schedule import Schedule
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

    def distinct(self, most: int) -> list[Schedule]:
        """At most so many of its schedules, the fastest by its costs, without what is there twice."""
        seen: dict[tuple[int, float, int], Schedule] = {}
        for _, found in self.all_found:
            schedule = found.schedule
            chunks = schedule.problem.collective.chunks_per_rank
            seen.setdefault((chunks, schedule.makespan_us, len(schedule)), schedule)
        return sorted(seen.values(), key=lambda each: each.makespan_us)[:most]

    def of_chunks(self, formulated: Formulated) -> tuple[str, tuple[ChunksTried, ...]]:
        """What is reported of the number of chunks, where it was open and predictions choose another."""
        number = formulated.problem.collective.chunks_per_rank
        before = self.formulated.problem.collective.chunks_per_rank
        if number == before or not self.tried:
            return self.chunks_note, self.tried
        tried = []
        for each in self.tried:
            if each.chunks == number:
                tried.append(replace(each, remark="chosen: its file is predicted fastest"))
            elif each.chunks == before:
                tried.append(replace(each, remark="fastest by these costs, but not its file"))
            else:
                tried.append(each)
        return f"chunks per rank: {number}, by the predicted time of the file", tuple(tried)


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
