"""The releases of MSCCL++ that read these plans, and what each can do.

From the sources of the releases (v0.8.0 of 2025-10-10, v0.9.0 of 2026-04-08, v0.10.0 of 2026-07-21). All read
the same fields; the older ones know fewer operations and take fewer operands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taccl.backend.machine.readers import chosen_readers
from taccl.backend.plan import OpName

_SINCE_0_9 = frozenset({OpName.REDUCE_COPY_PACKETS, OpName.REDUCE_COPY_SEND_PACKETS})
_SINCE_0_10 = frozenset({OpName.SWITCH_STORE, OpName.SWITCH_STORE_PACKETS})


@dataclass(frozen=True, slots=True)
class Version:
    """A release.

    Parameters
    ----------
    name : as findings and `Facts.readers` call it.
    unknown : the operations that its loader refuses.
    operands : sources, and targets, that an operation has room for.
    """

    name: str
    unknown: frozenset[OpName]
    operands: int


VERSIONS = (
    Version("mscclpp-0.8", _SINCE_0_9 | _SINCE_0_10, 8),
    Version("mscclpp-0.9", _SINCE_0_10, 10),
    Version("mscclpp-0.10", frozenset(), 10),
)
NEWEST = VERSIONS[-1]

#: By the number of operands that there is room for, the releases.
OPERANDS = {
    room: tuple(version.name for version in VERSIONS if version.operands == room)
    for room in sorted({version.operands for version in VERSIONS})
}


def without(name: OpName) -> tuple[str, ...]:
    """Names of the releases that do not know an operation."""
    return tuple(version.name for version in VERSIONS if name in version.unknown)


def find_versions(targets: str | Iterable[str] | None) -> tuple[str, ...]:
    """Names of the releases requested about: `all`, some of them, or None: the newest.

    Raises
    ------
    TacclError : one that is none.
    """
    if targets is None:
        return (NEWEST.name,)
    return chosen_readers(targets, [version.name for version in VERSIONS])
