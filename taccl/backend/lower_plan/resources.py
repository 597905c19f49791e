"""The channels, remote buffers and semaphores of a plan, by the numbers that ranks and blocks give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from taccl.backend.lower_plan.graph import Action, Graph, Known
from taccl.backend.plan import BlockChannels, BlockRemotes, Channel, RankChannels, RemoteBuffer
from taccl.backend.program import Buffer

#: The thread blocks that send and receive.
Connection = tuple[int, int]
_KINDS = (Channel.MEMORY, Channel.PORT)
#: The members of a switch channel, ascending, and the buffer that it spans.
Multicast = tuple[tuple[int, ...], Buffer]


@dataclass(slots=True)
class BlockNumbers:
    """What a thread block names, by kind of channel: numbers of its rank, in the order of its own."""

    channels: dict[Channel, list[int]] = field(default_factory=lambda: {kind: [] for kind in Channel})
    remotes: dict[Channel, list[int]] = field(default_factory=lambda: {kind: [] for kind in _KINDS})

    def block_channels(self) -> tuple[BlockChannels, ...]:
        """As a plan has them."""
        return tuple(BlockChannels(kind, tuple(ids)) for kind, ids in self.channels.items() if ids)

    def block_remotes(self) -> tuple[BlockRemotes, ...]:
        """As a plan has them."""
        return tuple(BlockRemotes(kind, tuple(ids)) for kind, ids in self.remotes.items() if ids)


class Resources:
    """Channels for connections, and all else as it is requested."""

    def __init__(self, node_of: Sequence[int], blocks: int) -> None:
        """`blocks` : how many thread blocks all ranks have together."""
        self.node_of = node_of
        self.blocks = [BlockNumbers() for _ in range(blocks)]
        self._peers: dict[tuple[int, Channel], list[int]] = {}
        self._remotes: dict[int, dict[tuple[int, Buffer, Channel], int]] = {}
        self._local: dict[tuple[int, Connection], int] = {}
        self._multicasts: dict[Multicast, None] = {}

    @staticmethod
    def of(graph: Graph) -> Resources:
        """A channel for each connection of a graph that carries anything."""
        made = Resources(graph.node_of, len(graph.blocks))
        for message in graph.messages:
            made.connect(message.src, message.dst, message.connection)
        return made

    def connect(self, src: int, dst: int, connection: Connection) -> None:
        """Give two thread blocks, of these ranks, the ends of one channel, unless they have them."""
        if (connection[0], connection) in self._local:
            return
        kind = self.kind(src, dst)
        for rank, peer, block in ((src, dst, connection[0]), (dst, src, connection[1])):
            peers, ids = self._peers.setdefault((rank, kind), []), self.blocks[block].channels[kind]
            self._local[block, connection] = len(ids)
            ids.append(len(peers))
            peers.append(peer)

    def kind(self, src: int, dst: int) -> Channel:
        """Through what two ranks reach each other."""
        return Channel.MEMORY if self.node_of[src] == self.node_of[dst] else Channel.PORT

    def channel(self, block: int, connection: Connection) -> int:
        """Which of the block's channels is its end of a connection."""
        return self._local[block, connection]

    def remote(self, rank: int, block: int, owner: int, buffer: Buffer) -> int:
        """Which of the block's remote buffers is a buffer of another rank."""
        kind = self.kind(rank, owner)
        known = self._remotes.setdefault(rank, {})
        number = known.setdefault((owner, buffer, kind), len(known))
        ids = self.blocks[block].remotes[kind]
        if number not in ids:
            ids.append(number)
        return ids.index(number)

    def switch(self, rank: int, block: int, members: tuple[int, ...], buffer: Buffer) -> int:
        """Which of the block's switch channels is the one of these members on a buffer."""
        self._multicasts.setdefault((members, buffer))
        number = list(self._multicasts_of(rank)).index((members, buffer))
        ids = self.blocks[block].channels[Channel.SWITCH]
        if number not in ids:
            ids.append(number)
        return ids.index(number)

    def _multicasts_of(self, rank: int) -> Iterator[Multicast]:
        """Those that a rank is a member of, in the order in which all members make them."""
        return (each for each in self._multicasts if rank in each[0])

    def rank_channels(self, rank: int) -> tuple[RankChannels, ...]:
        """As a plan has them; all members of a switch channel, whether they use it or not."""
        found = ((kind, self._peers.get((rank, kind), [])) for kind in _KINDS)
        return (
            *(RankChannels(kind, tuple(peers)) for kind, peers in found if peers),
            *(
                RankChannels(Channel.SWITCH, buffer=buffer, groups=(members,))
                for members, buffer in self._multicasts_of(rank)
            ),
        )

    def remote_buffers(self, rank: int) -> tuple[RemoteBuffer, ...]:
        """As a plan has them."""
        return tuple(
            RemoteBuffer(owner, buffer, (kind,)) for owner, buffer, kind in self._remotes.get(rank, {})
        )


@dataclass(frozen=True, eq=False)
class Semaphores:
    """A semaphore for each wait of a thread block for another of its rank that nothing else keeps, by number.

    Parameters
    ----------
    count : by rank.
    acquires, releases : by action, those that it waits for before, and that it signals after.
    waits : by action, the actions that it so waits for.
    """

    count: list[int]
    acquires: dict[int, list[int]]
    releases: dict[int, list[int]]
    waits: dict[int, list[int]]


def find_semaphores(
    graph: Graph, known: Known, waits_of: Callable[[Action], Sequence[int]] | None = None
) -> Semaphores:
    """All of them.

    Parameters
    ----------
    known : what an action knows to be done with data and all.
    waits_of : the actions that one has to wait for; None: those directly before it.
    """
    made = Semaphores([0] * len(graph.node_of), {}, {}, {})
    for action in graph.actions:
        waits = graph.before[action.index] if waits_of is None else waits_of(action)
        for wait in waits:
            other = graph.actions[wait]
            if other.block == action.block or other.rank != action.rank:
                continue
            if any(known[each, other.block] > other.at for each in waits if each != wait):
                continue
            made.releases.setdefault(wait, []).append(made.count[action.rank])
            made.acquires.setdefault(action.index, []).append(made.count[action.rank])
            made.waits.setdefault(action.index, []).append(wait)
            made.count[action.rank] += 1
    return made
