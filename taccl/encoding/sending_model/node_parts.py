"""One node, what moves in it, and what was decided about that: the words of the model of `in_node`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from taccl.encoding.core.ticks import Ticks
from taccl.encoding.sending_model.tuning import NODE_PARTS_FEW_SHARED


@dataclass(frozen=True)
class Inside:
    """A link inside a node, by places: the k-th rank of a node has place k.

    Parameters
    ----------
    src, dst : places.
    alpha_us, cost_us : a send of n chunks takes alpha + n cost, us.
    ports : numbers of the ports, counted in the order in which the node's links name them.
    """

    src: int
    dst: int
    alpha_us: float
    cost_us: float
    ports: tuple[int, ...]

    @property
    def reversed(self) -> Inside:
        """The link turned round."""
        return replace(self, src=self.dst, dst=self.src)


@dataclass(frozen=True)
class Item:
    """Chunks that travel together inside a node.

    Parameters
    ----------
    chunks : which.
    starts : (place, from when on it is there, us).
    wanted : the places that want it.
    shifts : the nodes to which it leaves, by how far they stand; see `Crossing`.
    """

    chunks: tuple[int, ...]
    starts: tuple[tuple[int, float], ...]
    wanted: frozenset[int]
    shifts: frozenset[int] = frozenset()

    def later(self, by_us: float) -> Item:
        """The item, there so much later."""
        return replace(self, starts=tuple((place, when + by_us) for place, when in self.starts))


@dataclass(frozen=True)
class Leaving:
    """How items leave the node: from which place, and of each group and shift the chunks and what follows."""

    place: int
    sizes: Sequence[int]
    tails_us: Mapping[tuple[int, int], float]


@dataclass(frozen=True)
class Placed:
    """A send inside the node; `items` are numbers of items."""

    link: int
    items: tuple[int, ...]
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Decided:
    """A solution: all sends, the group of each item that leaves, and when the last is done."""

    sends: tuple[Placed, ...]
    group: dict[int, int]
    end_us: float

    def later(self, by_us: float) -> Decided:
        """The same, so much later."""
        sends = tuple(
            replace(send, start_us=send.start_us + by_us, end_us=send.end_us + by_us) for send in self.sends
        )
        return Decided(sends, self.group, self.end_us + by_us)


@dataclass(frozen=True)
class Around:
    """What is the same in every node.

    Parameters
    ----------
    links : in it.
    is_serial : whether a port is busy for alpha, too.
    shares : for each link, whether groups gain on it.
    max_group : chunks of a group at most.
    ticks : how time is counted.
    most_shared : no more sends of several items are looked at, for each link.
    """

    links: Sequence[Inside]
    is_serial: bool
    shares: Sequence[bool]
    max_group: int
    ticks: Ticks
    most_shared: int = NODE_PARTS_FEW_SHARED


def backwards(around: Around) -> tuple[Around, Sequence[int]]:
    """The node with its links turned round, and the link that each of its links is when turned back.

    Where the node turned round is the node itself, that is what it says: what is decided for the one, to
    spread, is so for the other, to gather.
    """
    ends = [(link.src, link.dst) for link in around.links]
    back = replace(around, links=[link.reversed for link in around.links])
    if len(set(ends)) < len(ends) or _described(back) != _described(around):
        return back, range(len(ends))
    return around, [ends.index((dst, src)) for src, dst in ends]


def _described(around: Around) -> tuple[set[object], set[object]]:
    """A node, with each port reported by the links that use it."""
    links = [
        (link.src, link.dst, link.alpha_us, link.cost_us, shares)
        for link, shares in zip(around.links, around.shares, strict=True)
    ]
    users: dict[int, set[object]] = defaultdict(set)
    for link, reported in zip(around.links, links, strict=True):
        for port in link.ports:
            users[port].add(reported)
    return set(links), {frozenset(user) for user in users.values()}
