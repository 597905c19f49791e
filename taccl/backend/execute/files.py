"""Running a program in each way that it claims to be called."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.requested import RunRequested
from taccl.backend.execute.run import execute
from taccl.backend.program import Program
from taccl.errors import TacclError


def run_program(program: Program, requested: RunRequested) -> Iterator[Execution]:
    """An outcome for each way of calling a program.

    Raises
    ------
    TacclError : the call does not fit the program; as `execute`.
    """
    if requested.calls not in (None, 1):
        raise TacclError(
            "several calls in a row are for one-sided plans; a call of a program leaves nothing behind",
            hint="leave --calls out",
        )
    for in_place in modes_of(program, requested.in_place):
        yield execute(
            program,
            in_place=in_place,
            size_bytes=requested.size_bytes,
            dtype=requested.dtype,
            op=requested.op,
            collective=requested.collective,
            root=requested.root,
            ranks_as=requested.ranks_as,
            slots=requested.slots,
            piece_bytes=requested.piece_bytes,
            seed=requested.seed,
            check=requested.check,
            deadline=requested.deadline,
        )


def modes_of(program: Program, requested: bool | None) -> list[bool]:
    """In place or not: what is requested, or else each that the program claims."""
    if requested is not None:
        return [requested]
    claims = [mode for mode, claimed in ((False, program.out_of_place), (True, program.in_place)) if claimed]
    return claims or [False]
