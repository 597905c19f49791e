"""What a file that is to be simulated says: a program, its collective, and the schedule if it is one."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from pathlib import Path

from taccl.backend.lower import lower
from taccl.backend.lower.instances import cut_in_place
from taccl.backend.targets.registry import unfold_leniently
from taccl.backend.two_sided import TwoSided
from taccl.backend.unfolded import Unfolded
from taccl.errors import CollectiveError
from taccl.model.collective import Collective
from taccl.model.collectives import COLLECTIVES, make_collective, plain_name
from taccl.model.schedule import SavedSchedule
from taccl.synthesis.collective_file import load_collective

_ROOTED = ("broadcast", "reduce", "gather", "scatter")


@dataclass(frozen=True)
class Subject:
    """A program and what it is for.

    `cut`: the collective's chunks in one of the program's. Above 1 where the program's chunks are too few for
    equal parts of all ranks; bounds for finer chunks hold for it too.
    """

    file: Unfolded
    collective: Collective
    cut: int
    saved: SavedSchedule | None = None

    @property
    def default_size(self) -> int | None:
        """The size that a schedule, or a file that says so, was made for."""
        return self.file.made_for_bytes if self.saved is None else self.saved.schedule.problem.size_bytes

    @property
    def num_chunks(self) -> int:
        """The program's chunks in a size."""
        return self.collective.chunks_per_size // self.cut


def of_schedule(saved: SavedSchedule) -> Subject:
    """The program that a schedule is lowered to."""
    program = lower(saved.schedule)[0].program
    return Subject(TwoSided.of(program), saved.schedule.problem.collective, 1, saved)


def of_file(path: str | Path, content: bytes, custom: str | Path | None, root: int | None) -> Subject:
    """The program in a file; `custom` is a file that describes its collective.

    Raises
    ------
    FileError, CollectiveError : it cannot be read, or does not say what its size means.
    TacclError : its target's files spell no program.
    VerificationError : no runtime would execute it.
    """
    file = unfold_leniently(path, content, "simulated")
    ranks, chunks = file.num_ranks, file.chunks
    collective = None if custom is None else load_collective(custom, ranks)
    file.check(collective, root)
    if file.computed is not None:  # which `check` has held against the collective that is given
        return Subject(file, file.computed, 1)
    name = _known_name(file, custom, path)
    if collective is not None:
        return Subject(file, _cut_finer(chunks, collective, path), 1)
    if name in _ROOTED:
        found = file.root() if root is None else root
        return Subject(file, make_collective(name, ranks, chunks, found), 1)
    return Subject(file, *_cut_by_ranks(name, ranks, chunks, root))


def _known_name(file: Unfolded, custom: str | Path | None, path: str | Path) -> str:
    name = file.collective
    plain = plain_name(name)
    if custom is None and plain not in COLLECTIVES:
        raise CollectiveError(
            f"{file.coll_key} is {name!r}, which does not say what size and bound mean",
            path=path,
            hint="--collective FILE.yaml describes it",
        )
    return plain


def _cut_by_ranks(name: str, ranks: int, chunks: int, root: int | None) -> tuple[Collective, int]:
    """A collective whose chunks are equal parts for all ranks, and how many of them are one of the file's."""
    whole = lcm(chunks, ranks)
    return make_collective(name, ranks, whole // ranks, root), whole // chunks


def _cut_finer(chunks: int, collective: Collective, path: str | Path) -> Collective:
    """A custom collective, cut into the chunks of a file."""
    pieces, rest = divmod(chunks, collective.chunks_per_size)
    if rest or not pieces:
        raise CollectiveError(
            f"the file cuts a call into {chunks} chunks, which is no multiple of the "
            f"{collective.chunks_per_size} chunks of {collective.name}",
            path=path,
        )
    return cut_in_place(collective, pieces)
