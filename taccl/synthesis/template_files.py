"""Files of templates: small ones like any other, and large ones rank by rank, which are never there whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict

from taccl.backend.target import AnyTarget, Lowered, LoweringOptions
from taccl.errors import CollectiveError, FileError
from taccl.model.collectives import make_collective
from taccl.model.template import Template
from taccl.model.units import format_size
from taccl.support.arguments import shown
from taccl.support.files import write_pieces
from taccl.support.size_limits import has_too_many_places
from taccl.synthesis.autotune.tuning import TEMPLATES_MOST_VERIFIED
from taccl.synthesis.lowering import OutputFile


@dataclass(frozen=True)
class FileByRank:
    """What the ranks of a template do, as a file of a target: never there as a whole.

    `text_of` is the text of some ranks, or of all, in pieces.
    """

    template: Template
    text_of: Callable[[range | None], Iterator[str]]

    def write(self, path: str | Path, ranks: range | None = None) -> tuple[Path, ...]:
        """Write these ranks, one after another; None: all. A file that cannot be ended is taken away.

        Raises
        ------
        CollectiveError : ranks that there are not, or none.
        FileError : the file cannot be written, or there is no room for it.
        """
        template, last = self.template, self.template.num_ranks - 1
        if ranks is not None and not (ranks and ranks.step == 1 and 0 <= ranks[0] and ranks[-1] <= last):
            raise CollectiveError(f"ranks are consecutive ones of 0 .. {last}, and not {_named(ranks)}")
        path, many = Path(path), template.num_ranks if ranks is None else len(ranks)
        if many > template.gpus and path.absolute().parent.is_dir():
            first = 0 if ranks is None else ranks[0]
            size = many * sum(len(piece) for piece in self.text_of(range(first, first + 1)))
            free = shutil.disk_usage(path.absolute().parent).free
            if size > free:
                raise FileError(
                    f"{many} ranks take about {format_size(size)}, and {format_size(free)} are free",
                    path=path,
                    hint=f"--ranks 0-{template.gpus - 1}: those of one node",
                )
        write_pieces(path, (piece.encode() for piece in self.text_of(ranks)))
        return (path,)


def _named(ranks: range) -> str:
    """`8-99`, as the option has them, where they are consecutive."""
    return f"{ranks[0]}-{ranks[-1]}" if ranks and ranks.step == 1 else shown(ranks)


class TemplateFiles(TypedDict):
    """What a result says of the files of its template."""

    files: tuple[OutputFile, ...]
    file_requested: bool
    by_rank: FileByRank


def files_of_template(template: Template, target: AnyTarget, options: LoweringOptions) -> TemplateFiles:
    """Its verified file where that is small, and the text of its ranks.

    Raises
    ------
    VerificationError : the file is wrong.
    """
    assert target.of_ranks is not None  # or the request was refused
    by_rank = FileByRank(template, partial(target.of_ranks, template, options))
    pieces = template.part.problem.collective.chunks_per_rank
    is_large = has_too_many_places(template.collective, template.num_ranks, pieces)
    if is_large or template.num_transfers > TEMPLATES_MOST_VERIFIED or target.parse is None:
        return TemplateFiles(files=(), file_requested=False, by_rank=by_rank)
    program = target.parse("".join(by_rank.text_of(None)).encode(), None, lambda: None)
    collective = make_collective(template.collective, template.num_ranks, pieces)
    text = target.verified_text(Lowered(program, target.runtimes), collective)
    file = OutputFile(text, program, target.runtimes, target)
    return TemplateFiles(files=(file,), file_requested=True, by_rank=by_rank)
