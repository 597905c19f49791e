"""Which runtimes know a collective, by which word, and which files a target asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from taccl.collectives import COLLECTIVES
from taccl.errors import CollectiveError

Target = Literal["all", "msccl", "executor", "rccl"]

_COMMON = {name: name for name in ("allgather", "allreduce", "alltoall", "broadcast", "reduce")}
_EXECUTOR = {**_COMMON, "reducescatter": "reducescatter", "gather": "gather", "scatter": "scatter"}

#: Per runtime, its word for each collective. `custom` stands for every collective of the user's own.
SPELLINGS: dict[str, dict[str, str]] = {
    "msccl": {**_COMMON, "reducescatter": "reduce_scatter", "custom": "custom"},
    "executor": _EXECUTOR,
    "rccl": _EXECUTOR,
}

#: Targets whose runtimes take the fused steps rcs, rrs, rrc and rrcs.
FUSING_TARGETS = ("msccl", "executor")


@dataclass(frozen=True, slots=True)
class Dialect:
    """One file to make: the word for the collective, and the runtimes that read it."""

    spelling: str
    readers: tuple[str, ...]


def dialects(collective: str, target: Target) -> tuple[Dialect, ...]:
    """The files that a target asks for: one for each spelling that its runtimes use.

    Raises
    ------
    CollectiveError : an unknown target, or a runtime that does not know the collective.
    """
    if target not in get_args(Target):
        raise CollectiveError(f"unknown target {target!r}", hint="one of " + ", ".join(get_args(Target)))
    kind = collective if collective in COLLECTIVES else "custom"
    runtimes = tuple(SPELLINGS) if target == "all" else (target,)
    readers_of: dict[str, list[str]] = {}
    for runtime in runtimes:
        if kind in SPELLINGS[runtime]:
            readers_of.setdefault(SPELLINGS[runtime][kind], []).append(runtime)
    if not readers_of:
        knowing = [runtime for runtime, words in SPELLINGS.items() if kind in words]
        what = "collectives of one's own" if kind == "custom" else kind
        raise CollectiveError(f"{target} has no {what}", hint="--target " + " or ".join(knowing))
    return tuple(Dialect(word, tuple(readers)) for word, readers in readers_of.items())
