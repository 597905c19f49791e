"""Which runtimes of MSCCL-XML know a collective, by which word, and which files that takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taccl.errors import CollectiveError
from taccl.model.collectives import COLLECTIVES

_COMMON = {name: name for name in ("allgather", "allreduce", "alltoall", "broadcast", "reduce")}
_EXECUTOR = {**_COMMON, "reducescatter": "reducescatter", "gather": "gather", "scatter": "scatter"}

#: Per runtime, its word for each collective. `custom` stands for every collective of the user's own.
SPELLINGS: dict[str, dict[str, str]] = {
    "msccl": {**_COMMON, "reducescatter": "reduce_scatter", "custom": "custom"},
    "executor": _EXECUTOR,
    "rccl": _EXECUTOR,
}

#: Runtimes that take the fused steps rcs, rrs, rrc and rrcs.
FUSING_RUNTIMES = frozenset({"msccl", "executor"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """One file to make: the word for the collective, and the runtimes that read it."""

    spelling: str
    readers: tuple[str, ...]


def runtimes_named(runtimes: str | Iterable[str]) -> tuple[str, ...]:
    """The runtimes meant: `all`, one name, or several.

    Raises
    ------
    CollectiveError : a name that is no runtime.
    """
    if runtimes == "all":
        return tuple(SPELLINGS)
    names = (runtimes,) if isinstance(runtimes, str) else tuple(runtimes)
    for name in names:
        if name not in SPELLINGS:
            raise CollectiveError(f"unknown runtime {name!r}", hint="one of all, " + ", ".join(SPELLINGS))
    return names


def dialects(collective: str, runtimes: str | Iterable[str]) -> tuple[Dialect, ...]:
    """The files that some runtimes take: one for each spelling that they use.

    Raises
    ------
    CollectiveError : an unknown runtime, or none of them knows the collective.
    """
    kind = collective if collective in COLLECTIVES else "custom"
    names = runtimes_named(runtimes)
    readers_of: dict[str, list[str]] = {}
    for runtime in names:
        if kind in SPELLINGS[runtime]:
            readers_of.setdefault(SPELLINGS[runtime][kind], []).append(runtime)
    if not readers_of:
        knowing = [runtime for runtime, words in SPELLINGS.items() if kind in words]
        what = "collectives of one's own" if kind == "custom" else kind
        raise CollectiveError(f"{' and '.join(names)} has no {what}", hint="--target " + " or ".join(knowing))
    return tuple(Dialect(word, tuple(readers)) for word, readers in readers_of.items())
