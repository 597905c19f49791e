"""What a runtime executes: for each rank, thread blocks that run their steps in order.

This is the only thing that the lowering, the file format and the checks of the backend share.
Offsets and counts are in chunks of the program: the buffer of the call divided by
`chunks_per_loop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum


class Buffer(str, Enum):
    """The three buffers of a rank, with the letter that the file uses."""

    INPUT = "i"
    OUTPUT = "o"
    SCRATCH = "s"


class Op(str, Enum):
    """What a step does, with the word that the file uses."""

    SEND = "s"
    RECV = "r"
    COPY = "cpy"
    REDUCE = "re"
    RECV_COPY_SEND = "rcs"
    RECV_REDUCE_SEND = "rrs"
    RECV_REDUCE_COPY = "rrc"
    RECV_REDUCE_COPY_SEND = "rrcs"
    NOP = "nop"

    @property
    def sends(self) -> bool:
        return self in _SENDING

    @property
    def receives(self) -> bool:
        return self in _RECEIVING


_SENDING = frozenset({Op.SEND, Op.RECV_COPY_SEND, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY_SEND})
_RECEIVING = frozenset(
    {
        Op.RECV,
        Op.RECV_COPY_SEND,
        Op.RECV_REDUCE_SEND,
        Op.RECV_REDUCE_COPY,
        Op.RECV_REDUCE_COPY_SEND,
    }
)


class Protocol(str, Enum):
    """How the runtime moves bytes through a connection."""

    SIMPLE = "Simple"
    LL = "LL"
    LL128 = "LL128"


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a thread block.

    Parameters
    ----------
    op : what it does.
    src, src_offset, dst, dst_offset, count : `count` chunks from one place to another on this rank.
        A send ignores dst, a receive ignores src; a receive-and-reduce has src = dst, the operand.
    depends : (thread block, step) on this rank that must be done before, or None. A step that
        must wait for several is preceded by NOPs that wait for the others.
    has_dependent : whether some step of this rank waits for this one.
    line : where it stands in the file it was read from, which equality ignores; None when it was made here.
    """

    op: Op
    src: Buffer
    src_offset: int
    dst: Buffer
    dst_offset: int
    count: int
    depends: tuple[int, int] | None = None
    has_dependent: bool = False
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """Steps that run in order, with at most one peer to send to and one to receive from (-1: none).

    `steps` is a tuple, or, of a long file, equal to one and made of columns (`step_rows`).
    """

    id: int
    send: int
    recv: int
    channel: int
    steps: Sequence[Step]
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RankProgram:
    """All that one rank runs, and the sizes of its buffers in chunks."""

    rank: int
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    thread_blocks: tuple[ThreadBlock, ...]
    line: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Program:
    """An algorithm as the runtimes know it.

    Parameters
    ----------
    name, collective : `collective` is spelled as the file spells it.
    num_ranks, num_channels : ranks 0 .. num_ranks - 1, channels 0 .. num_channels - 1.
    chunks_per_loop : equal chunks that the whole buffer of the call is cut into.
    protocol : one for the whole program.
    in_place, out_of_place : which calls the program may serve.
    min_bytes, max_bytes : the sizes of calls that it may serve; of gather and scatter one rank's part.
    ranks : one entry per rank, in rank order.
    """

    name: str
    collective: str
    num_ranks: int
    num_channels: int
    chunks_per_loop: int
    protocol: Protocol
    in_place: bool
    out_of_place: bool
    min_bytes: int
    max_bytes: int
    ranks: tuple[RankProgram, ...]
