"""The seam of the backend: what each rank does, in one order, as columns.

A schedule becomes actions, and every kind of file follows from them: thread blocks of one peer (MSCCL-XML),
thread blocks of many peers that put and signal (plans of MSCCL++). Passes go from `Actions` to `Actions`, and
`check_actions` holds between any two of them.

A *place* is a cell of a rank's memory, or the first of several, as one number: the buffer's, `INPUT`,
`OUTPUT` or `SCRATCH`, plus the offset in it. So the place k cells further on is the place + k, and places
sort by buffer, then offset. An *endpoint* is one end of a connection, a rank's sends to a peer on a channel
or its receives from it, as one number, too (see `endpoint`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias, TypeVar

import numpy as np

from taccl.backend.program import Buffer, Op
from taccl.errors import VerificationError
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray

_Value = TypeVar("_Value")
_Numbers = TypeVar("_Numbers", int, IntArray)

Place: TypeAlias = int
#: Bits of an offset. Buffers stand far apart, so that the place of an offset below zero is no other's.
OFFSET_BITS = 40
BUFFERS = tuple(Buffer)
INPUT, OUTPUT, SCRATCH = (number << OFFSET_BITS for number in range(3))

#: The number of each operation in columns.
OPS = tuple(Op)
OP_CODE = {op: code for code, op in enumerate(OPS)}
SEND, RECV, COPY, REDUCE = (OP_CODE[op] for op in (Op.SEND, Op.RECV, Op.COPY, Op.REDUCE))
RECV_REDUCE_COPY, RECV_REDUCE_SEND = OP_CODE[Op.RECV_REDUCE_COPY], OP_CODE[Op.RECV_REDUCE_SEND]
_READS = np.array([op not in (Op.RECV, Op.RECV_COPY_SEND, Op.NOP) for op in OPS])
_WRITES = np.array([op not in (Op.SEND, Op.RECV_REDUCE_SEND, Op.NOP) for op in OPS])
_RECEIVES = np.array([op.receives for op in OPS])

#: Where any thread block of the rank will do.
ANYWHERE = -1
_PEER_BITS = 20

#: Pairs of numbers of actions, shape (pairs, 2): the first needs, or knows of, the second.
Pairs: TypeAlias = IntArray
NO_PAIRS = np.zeros((0, 2), dtype=np.int64)


def buffer_and_offset(places: IntArray) -> tuple[IntArray, IntArray]:
    """The number of the buffer (place in `BUFFERS`), and the offset in it, which may be below zero."""
    buffer = (places + (1 << (OFFSET_BITS - 1))) >> OFFSET_BITS
    return buffer, places - (buffer << OFFSET_BITS)


def endpoint(channel: IntArray, peer: IntArray, sends: bool) -> IntArray:
    """Endpoints of one rank: its sends to peers on channels, or its receives from them."""
    return (channel << _PEER_BITS | peer) << 1 | int(sends)


def channel_of(endpoints: _Numbers) -> _Numbers:
    """The channels of endpoints."""
    return endpoints >> (_PEER_BITS + 1)


def peer_of(endpoints: _Numbers) -> _Numbers:
    """The ranks at the other ends of endpoints."""
    return endpoints >> 1 & ((1 << _PEER_BITS) - 1)


@dataclass(frozen=True, eq=False)
class Actions:
    """What one rank does, in order: a row for each step to be.

    Parameters
    ----------
    op : its number in `OPS`.
    src, dst, count : places and chunks, as in `program.Step`. A send's `dst` and a receive's `src` are
        the peer's.
    send : whose step it is, or whose arrival it handles; -1 for neither.
    endpoint : where it must run, or ANYWHERE.
    ready_us : until when its thread block must be free for it. For the receive of one chunk that is its
        end, since the message can wait in its slot; for what no one waits for, infinite.
    done_us : until when it keeps its thread block.
    unit : which sum of its rank it helps to make in a thread block of its own; -1 for none.
    known : pairs; the second has surely been done when the first starts.
    held_back : pairs; the first must wait for the second, whatever they touch.
    turns : pairs of sends; the first takes its turn at a port after the second, in the schedule's order.
    """

    op: IntArray
    src: IntArray
    dst: IntArray
    count: IntArray
    send: IntArray
    endpoint: IntArray
    ready_us: FloatArray
    done_us: FloatArray
    unit: IntArray
    known: Pairs
    held_back: Pairs
    turns: Pairs

    def __len__(self) -> int:
        return len(self.op)

    @property
    def reads(self) -> BoolArray:
        """Whether it reads its source."""
        return np.asarray(_READS[self.op])

    @property
    def reads_target(self) -> BoolArray:
        """Whether it reads its destination, too."""
        return np.asarray(self.op == REDUCE)

    @property
    def writes(self) -> BoolArray:
        """Whether it writes its destination."""
        return np.asarray(_WRITES[self.op])

    @property
    def receives(self) -> BoolArray:
        """Whether it takes a message."""
        return np.asarray(_RECEIVES[self.op])

    def take(self, rows: IntArray) -> Actions:
        """These rows in this order; of pairs, those whose both actions are there."""
        number = np.full(len(self), -1, dtype=np.int64)
        number[rows] = np.arange(len(rows))
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        for name in PAIRS:
            pairs = number[getattr(self, name)]
            columns[name] = pairs[(pairs >= 0).all(axis=1)]
        return Actions(**columns)

    def then(self, others: Actions) -> Actions:
        """These actions, and others behind them."""
        columns = {
            name: np.concatenate([getattr(self, name), getattr(others, name)]) for name in (*COLUMNS, *PAIRS)
        }
        for name in PAIRS:
            columns[name][len(getattr(self, name)) :] += len(self)
        return Actions(**columns)

    def waiting_for(self, pairs: Pairs) -> Actions:
        """The same, held back by more."""
        return replace(self, held_back=np.concatenate([self.held_back, pairs]))

    def taking_turns(self) -> Actions:
        """The same, each send waiting for those that its ports serve before it."""
        return self.waiting_for(self.turns)


PAIRS = ("known", "held_back", "turns")
COLUMNS = tuple(field.name for field in fields(Actions) if field.name not in PAIRS)


def check_actions(ranks: Sequence[Actions]) -> None:
    """Hold the actions of all ranks against what every pass before fusing promises.

    An action waits for earlier ones only, and moves something. Each message is sent once and received once,
    of as many chunks, and both ends name each other and one channel.

    Raises
    ------
    VerificationError : the first promise that is broken, with the rank.
    """
    ends: dict[bool, list[IntArray]] = {True: [], False: []}
    for rank, actions in enumerate(ranks):
        pairs = np.concatenate([getattr(actions, name) for name in PAIRS])
        if (pairs[:, 1] >= pairs[:, 0]).any() or (actions.count < 1).any():
            raise VerificationError(f"actions of rank {rank} are in no order", hint="please report this")
        for sends, of_end in ends.items():
            rows = np.flatnonzero(actions.op == SEND if sends else actions.receives)
            here, there = np.full(len(rows), rank), peer_of(actions.endpoint[rows])
            src, dst = (here, there) if sends else (there, here)
            channel = channel_of(actions.endpoint[rows])
            of_end.append(np.stack([actions.send[rows], src, dst, channel, actions.count[rows]]))
    sent, received = (np.concatenate(of_end, axis=1) for of_end in ends.values())
    if not np.array_equal(sent[:, np.argsort(sent[0])], received[:, np.argsort(received[0])]):
        raise VerificationError("what is sent is not what is received", hint="please report this")


def local_copies(runs: Sequence[tuple[Place, Place, int]]) -> Actions:
    """Copies from place to place of this many chunks, which belong to no send and may run anywhere."""
    src, dst, count = np.array(runs, dtype=np.int64).reshape(-1, 3).T
    nobody, now = np.full(len(src), -1, dtype=np.int64), np.zeros(len(src))
    return Actions(
        op=np.full(len(src), COPY, dtype=np.int64),
        src=src,
        dst=dst,
        count=count,
        send=nobody,
        endpoint=nobody,
        ready_us=now,
        done_us=now,
        unit=nobody,
        known=NO_PAIRS,
        held_back=NO_PAIRS,
        turns=NO_PAIRS,
    )


def by_first(pairs: Pairs, number: int) -> tuple[IntArray, IntArray]:
    """Pairs as columns: the seconds of action k are [starts[k]] up to [starts[k + 1]] of the other column."""
    order = np.argsort(pairs[:, 0], kind="stable")
    return np.searchsorted(pairs[order, 0], np.arange(number + 1)), pairs[order, 1]


def split(values: Sequence[_Value], parts: int) -> list[Sequence[_Value]]:
    """The values in this many stretches of nearly one length."""
    return [values[len(values) * part // parts : len(values) * (part + 1) // parts] for part in range(parts)]


def merge_runs(pairs: Iterable[tuple[Place, Place]], most: int) -> list[tuple[Place, Place, int]]:
    """(source, destination) cells as the fewest (source, destination, count), in the given order.

    `most` : chunks that one step takes.
    """
    runs: list[tuple[Place, Place, int]] = []
    for src, dst in pairs:
        if runs:
            last_src, last_dst, count = runs[-1]
            if count < most and (src, dst) == (last_src + count, last_dst + count):
                runs[-1] = (last_src, last_dst, count + 1)
                continue
        runs.append((src, dst, 1))
    return runs


def scratch_map(actions: Actions) -> IntArray:
    """By offset of each scratch cell, its offset in the program, -1 for one that the rank does not use.

    There are no holes, and the order stays.
    """
    change = np.zeros(1, dtype=np.int64)
    for uses, places in (
        (actions.reads, actions.src),
        (actions.writes | actions.reads_target, actions.dst),
    ):
        used = uses & (places >= SCRATCH)
        if not used.any():
            continue
        first, end = places[used] - SCRATCH, places[used] - SCRATCH + actions.count[used]
        size = max(len(change), int(end.max()) + 1)
        change = np.pad(change, (0, size - len(change)))
        change += np.bincount(first, minlength=size) - np.bincount(end, minlength=size)
    is_used = np.cumsum(change) > 0
    return np.where(is_used, np.cumsum(is_used) - 1, -1)


def without_holes(actions: Actions) -> Actions:
    """The same with all of its scratch side by side, in the same order; sends and receives name no peer's."""
    offsets = scratch_map(actions)

    def packed(places: IntArray) -> IntArray:
        places = places.copy()
        rows = np.flatnonzero(places >= SCRATCH)
        places[rows] = SCRATCH + offsets[places[rows] - SCRATCH]
        return places

    src = packed(np.where(actions.op == RECV, actions.dst, actions.src))
    dst = packed(np.where(actions.op == SEND, actions.src, actions.dst))
    return replace(actions, src=src, dst=dst)
