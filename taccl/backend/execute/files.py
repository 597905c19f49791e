"""Running a program in each way that it claims to be called; how a file spells it it must not know."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.backend.execute.asked import RunAsked
from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.run import execute
from taccl.backend.program import Program
from taccl.errors import TacclError


def run_program(program: Program, asked: RunAsked) -> Iterator[Execution]:
    """An outcome for each way of calling a program.

    Raises
    ------
    TacclError : the call does not fit the program; as `execute`.
    """
    if asked.calls not in (None, 1):
        raise TacclError(
            "several calls in a row are for one-sided plans; a call of a program leaves nothing behind",
            hint="leave --calls out",
        )
    for in_place in modes_of(program, asked.in_place):
        yield execute(
            program,
            in_place=in_place,
            size_bytes=asked.size_bytes,
            dtype=asked.dtype,
            op=asked.op,
            collective=asked.collective,
            root=asked.root,
            ranks_as=asked.ranks_as,
            slots=asked.slots,
            piece_bytes=asked.piece_bytes,
            seed=asked.seed,
            check=asked.check,
            deadline=asked.deadline,
        )


def modes_of(program: Program, asked: bool | None) -> list[bool]:
    """In place or not: what is asked, or else each that the program claims."""
    if asked is not None:
        return [asked]
    claims = [mode for mode, claimed in ((False, program.out_of_place), (True, program.in_place)) if claimed]
    return claims or [False]
