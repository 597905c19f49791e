"""What a one-sided runtime executes: thread blocks that write into and read from their peers' memory.

Nobody receives: who writes decides when, so peers tell each other by signals what may be written and what has
been. Ranks, buffers, channels and operations are as MSCCL++'s plans have them (v0.8 and later).
All indices and sizes are in chunks: a chunk of a call is its input buffer divided by `input_chunks`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from taccl.backend.program import Buffer

#: The largest size of a call that a plan can name, in bytes.
NO_LARGEST = 2**64 - 1


class Channel(str, Enum):
    """The kinds of channels, with the word that the file uses."""

    MEMORY = "memory"
    PORT = "port"
    SWITCH = "switch"


class OpName(str, Enum):
    """What an operation does, with the word that the file uses."""

    NOP = "nop"
    BARRIER = "barrier"
    SIGNAL = "signal"
    RELAXED_SIGNAL = "rlxsignal"
    WAIT = "wait"
    RELAXED_WAIT = "rlxwait"
    RELEASE = "sem_release"
    ACQUIRE = "sem_acquire"
    FLUSH = "flush"
    PIPELINE = "pipeline"
    COPY = "copy"
    PUT = "put"
    PUT_SIGNAL = "pws"
    PUT_SIGNAL_FLUSH = "pwsf"
    GET = "get"
    REDUCE = "re"
    REDUCE_SEND = "res"
    READ_REDUCE = "rre"
    READ_REDUCE_SEND = "rres"
    SWITCH_STORE = "gstore"
    SWITCH_REDUCE_STORE = "glres"
    PUT_PACKETS = "ppkt"
    COPY_TO_PACKETS = "cpkt"
    COPY_FROM_PACKETS = "upkt"
    READ_PUT_PACKETS = "rppkt"
    REDUCE_PACKETS = "repkt"
    REDUCE_SEND_PACKETS = "respkt"
    REDUCE_COPY_PACKETS = "recpkt"
    REDUCE_COPY_SEND_PACKETS = "recspkt"
    SWITCH_STORE_PACKETS = "gstorepkt"


@dataclass(frozen=True, slots=True)
class Range:
    """Chunks of a buffer: of the rank's own, of a peer's, or of all members of a switch channel.

    Exactly one of `buffer`, `remote` and `switch` is there.

    Parameters
    ----------
    index, size : the first chunk, and how many.
    buffer : of the rank itself.
    remote : a remote buffer, as a place in the block's references of the operation's kind of channel.
    switch : a switch channel, as a place in the block's switch channels.
    """

    index: int
    size: int
    buffer: Buffer | None = None
    remote: int | None = None
    switch: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of each range a block works on: part `number` of `parts`, cut at the plan's alignment."""

    number: int
    parts: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """A meeting of `num_blocks` thread blocks of one rank."""

    id: int
    num_blocks: int


@dataclass(frozen=True, slots=True)
class Turns:
    """A pipeline: its operations run for each `unit_bytes` of `num_chunks` chunks, a slice at a time."""

    unit_bytes: int
    num_chunks: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a thread block.

    Parameters
    ----------
    name : what it does.
    channel : the kind of its channels and remote buffers; None: the file says none.
    channels : places in the block's channels of that kind.
    sources, targets : in the order of the file; of sums, source 0 is the rank's own.
    share : which part of its ranges this block does; None: all.
    barrier, semaphores, turns, inner : of those operations that have them.
    reduce_op : as the file spells it; the runtime sums whatever it says.
    place : where it stands in the file it was read from, as `gpus[0].threadblocks[1].ops[2]`, which equality
        ignores; None when it was made here.
    """

    name: OpName
    channel: Channel | None = None
    channels: tuple[int, ...] = ()
    sources: tuple[Range, ...] = ()
    targets: tuple[Range, ...] = ()
    share: Share | None = None
    barrier: Barrier | None = None
    semaphores: tuple[int, ...] = ()
    turns: Turns | None = None
    inner: tuple[Operation, ...] = ()
    reduce_op: str | None = None
    place: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class BlockChannels:
    """Channels of a rank that a block uses; its operations name them by their places in this list."""

    kind: Channel
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BlockRemotes:
    """Remote buffers of a rank that a block uses, for operations of this kind of channel."""

    kind: Channel
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlanBlock:
    """A thread block: operations in order, and what they name by number."""

    id: int
    operations: tuple[Operation, ...]
    channels: tuple[BlockChannels, ...] = ()
    remotes: tuple[BlockRemotes, ...] = ()

    def channels_of(self, kind: Channel) -> tuple[int, ...]:
        """Channels of one kind, in the order in which operations number them."""
        return tuple(each for row in self.channels if row.kind is kind for each in row.ids)

    def remotes_of(self, kind: Channel) -> tuple[int, ...]:
        """Remote buffers for one kind of channel, in the order in which operations number them."""
        return tuple(each for row in self.remotes if row.kind is kind for each in row.ids)


@dataclass(frozen=True, slots=True)
class RankChannels:
    """Channels of a rank of one kind.

    Parameters
    ----------
    kind : memory and port channels have `peers`, switch channels have `groups`.
    peers : of each channel the rank at its other end. The j-th channel of a kind from A to B and the j-th
        from B to A are the two ends of one channel.
    buffer : the buffer that a switch channel spans.
    groups : of each switch channel its members.
    """

    kind: Channel
    peers: tuple[int, ...] = ()
    buffer: Buffer | None = None
    groups: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteBuffer:
    """Memory of a peer that a rank writes or reads, through these kinds of channels."""

    rank: int
    buffer: Buffer
    access: tuple[Channel, ...]


@dataclass(frozen=True, slots=True)
class RankPlan:
    """All that one rank runs, and the sizes of its buffers in chunks.

    `semaphores` : the value that each begins with.
    """

    rank: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    blocks: tuple[PlanBlock, ...]
    channels: tuple[RankChannels, ...] = ()
    remote_buffers: tuple[RemoteBuffer, ...] = ()
    semaphores: tuple[int, ...] = ()

    def peers_of(self, kind: Channel) -> tuple[int, ...]:
        """The other ends of a rank's memory or port channels, by channel number."""
        return tuple(peer for row in self.channels if row.kind is kind for peer in row.peers)

    @property
    def switches(self) -> tuple[tuple[Buffer, tuple[int, ...]], ...]:
        """By number of the rank's switch channels, the buffer that each spans and its members."""
        rows = (row for row in self.channels if row.kind is Channel.SWITCH)
        return tuple((row.buffer or Buffer.INPUT, group) for row in rows for group in row.groups)

    def memories_of(
        self, block: PlanBlock, operation: Operation, operand: Range
    ) -> tuple[tuple[int, Buffer], ...]:
        """Whose buffers an operand is in, and which they are: of a switch channel one for each member.

        Raises
        ------
        IndexError : its number leads nowhere.
        """
        if operand.buffer is not None:
            return ((self.rank, operand.buffer),)
        if operand.switch is not None:
            buffer, members = self.switches[block.channels_of(Channel.SWITCH)[operand.switch]]
            return tuple((member, buffer) for member in members)
        if operand.remote is None or operation.channel is None:
            return ()
        remote = self.remote_buffers[block.remotes_of(operation.channel)[operand.remote]]
        return ((remote.rank, remote.buffer),)


@dataclass(frozen=True, slots=True)
class ExecutionPlan:
    """An algorithm as MSCCL++ knows it.

    Parameters
    ----------
    name : two plans of one name in a process share their state.
    collective, protocol : as the file spells them; `LL` moves packets, everything else is Simple.
    in_place : which calls it serves.
    ranks : one entry per rank, in rank order.
    reuse_resources : whether one context serves all buffers and sizes.
    threads : of each thread block.
    double_scratch : whether calls use the two halves of scratch in turn.
    alignment : bytes at which ranges are cut among blocks.
    min_bytes, max_bytes : the sizes of calls that it may serve, both inclusive.
    """

    name: str
    collective: str
    protocol: str
    in_place: bool
    ranks: tuple[RankPlan, ...]
    reuse_resources: bool = False
    threads: int = 1024
    double_scratch: bool = False
    alignment: int = 16
    min_bytes: int = 0
    max_bytes: int = NO_LARGEST

    @property
    def num_ranks(self) -> int:
        """How many ranks it is for."""
        return len(self.ranks)

    @property
    def message_chunks(self) -> int:
        """Chunks of what the runtime calls the message: of an AllGather the output, else the input."""
        first = self.ranks[0]
        return first.output_chunks if self.collective == "allgather" else first.input_chunks

    @property
    def num_blocks(self) -> int:
        """Thread blocks of all ranks."""
        return sum(len(rank.blocks) for rank in self.ranks)

    @property
    def num_operations(self) -> int:
        """Operations of all ranks; those inside pipelines are not counted."""
        return sum(len(block.operations) for rank in self.ranks for block in rank.blocks)

    @property
    def uses_switches(self) -> bool:
        """Whether some rank has a switch channel, on which a switch sums or copies."""
        return any(row.kind is Channel.SWITCH for rank in self.ranks for row in rank.channels)

    @property
    def moves_packets(self) -> bool:
        """Whether scratch holds packets."""
        return self.protocol == "LL"


@dataclass(frozen=True, slots=True)
class ChannelEnd:
    """One end of a channel: its number among all ends, and that of the other end (None: it has none)."""

    number: int
    rank: int
    peer: int
    other: int | None
    name: str


def ends_of(plan: ExecutionPlan) -> dict[tuple[int, Channel], tuple[ChannelEnd, ...]]:
    """Per rank and kind the ends of its channels, by channel number; see `RankChannels.peers`."""
    places: dict[tuple[Channel, int, int, int], int] = {}
    order: list[tuple[Channel, int, int, int, int]] = []
    for rank in range(plan.num_ranks):
        for kind in (Channel.MEMORY, Channel.PORT):
            met: dict[int, int] = {}
            for number, peer in enumerate(plan.ranks[rank].peers_of(kind)):
                nth = met.get(peer, 0)
                met[peer] = nth + 1
                places[kind, rank, peer, nth] = len(order)
                order.append((kind, rank, peer, nth, number))
    ends: dict[tuple[int, Channel], list[ChannelEnd]] = {}
    for place, (kind, rank, peer, nth, number) in enumerate(order):
        name = f"{kind.value} channel {number} of rank {rank} (to rank {peer})"
        other = places.get((kind, peer, rank, nth))
        ends.setdefault((rank, kind), []).append(ChannelEnd(place, rank, peer, other, name))
    return {key: tuple(row) for key, row in ends.items()}
