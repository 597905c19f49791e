"""The noun of a trace: what each rank does, with the sizes of one call in bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["send", "recv", "calc"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a rank does, as soon as all of `after` are done.

    Parameters
    ----------
    size_bytes : that are sent, received, added or copied.
    peer, tag : of sends and receives, the other rank, and the number by which both ends are matched.
    after : places of earlier events of the rank.
    is_sum : of a `calc`, whether it adds; else it copies.
    """

    kind: Kind
    size_bytes: int
    peer: int = -1
    tag: int = -1
    after: tuple[int, ...] = ()
    is_sum: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of each rank, in rank order."""

    ranks: tuple[tuple[Event, ...], ...]

    @property
    def num_events(self) -> int:
        """Of all ranks."""
        return sum(map(len, self.ranks))

    @property
    def num_messages(self) -> int:
        """Sends of all ranks."""
        return sum(event.kind == "send" for rank in self.ranks for event in rank)
