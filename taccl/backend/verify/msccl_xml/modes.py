"""In which routes each runtime calls a file: in place, out of place, both or neither."""

from __future__ import annotations

from collections.abc import Sequence

from taccl.backend.program import Program
from taccl.backend.verify.msccl_xml.limits import MSCCL, Runtime
from taccl.backend.verify.msccl_xml.unfold import Mode

MODES: tuple[Mode, ...] = ("in place", "out of place")


def modes_of(program: Program, runtime: Runtime) -> tuple[Mode, ...]:
    """The calls that a runtime would give to a program, by where their output goes.

    microsoft/msccl compares the place of a call with `inplace` and never looks at `outofplace`; and it
    refuses calls of alltoall in place by itself, whatever the file says.
    """
    if "outofplace" not in runtime.looks_at:
        mode: Mode = "in place" if program.in_place else "out of place"
        return () if is_alltoall_in_place(program, runtime) else (mode,)
    claimed = (program.in_place, program.out_of_place)
    return tuple(mode for mode, claims in zip(MODES, claimed, strict=True) if claims)


def is_alltoall_in_place(program: Program, runtime: Runtime) -> bool:
    """Whether a program is for calls that its runtime refuses before it looks for a program."""
    return runtime is MSCCL and program.collective == "alltoall" and program.in_place


def callers(program: Program, mode: Mode, runtimes: Sequence[Runtime]) -> tuple[str, ...]:
    """Names of the runtimes that call a program so."""
    return tuple(runtime.name for runtime in runtimes if mode in modes_of(program, runtime))
