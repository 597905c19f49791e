"""Thread blocks with their lanes, and signals and transfers on their way."""

from __future__ import annotations

from dataclasses import dataclass, field

from taccl.backend.machine.order import Edge


@dataclass(eq=False)
class Lane:
    """What a lane has learned since its block met; `moment`, once made, knows it and what the block knows."""

    edges: list[Edge] = field(default_factory=list)
    moment: int | None = None


@dataclass(eq=False)
class BlockState:
    """What a block knows.

    Parameters
    ----------
    kernel, base : the moments at which its kernel began and it last met.
    column, met, segment : its column, how often it has met, and the number of this segment.
    lanes : what they know more than the block.
    threads : by its place in packets (bytes), the last moment of a thread that handles some in this segment.
    """

    number: int
    rank: int
    column: int
    kernel: int = 0
    base: int = 0
    met: int = 0
    segment: int = 0
    lanes: dict[int, Lane] = field(default_factory=dict)
    threads: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal to an end of a channel: the moment that it carries, and whether it is relaxed."""

    moment: int
    relaxed: bool


@dataclass(frozen=True, slots=True)
class Queued:
    """A transfer on a port channel: the moment of its end, and the segment in which a lane pushed it."""

    moment: int
    segment: int
