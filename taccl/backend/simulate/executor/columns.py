"""What the event loop of an executor reads and writes: tuples of columns, each about one thing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray


class StepColumns(NamedTuple):
    """A program on a network.

    Parameters
    ----------
    first : of thread blocks; the steps of block b are `first[b]` to `first[b + 1]`.
    kind, chunks, into, out, sources : of steps; what each does, its chunks, its connections (-1: none), and
        the sources of a sum.
    wait_first, wait : the steps that must be done before each, as ranges.
    waiter_first, waiter : the thread blocks that wait for each step, as ranges.
    sender, receiver, link : of connections; the thread blocks at both ends, and the link.
    link_first, link_port : the ports of each link, as ranges.
    port_first, port_link : the links of each port, as ranges.
    """

    first: IntArray
    kind: IntArray
    chunks: IntArray
    into: IntArray
    out: IntArray
    sources: IntArray
    wait_first: IntArray
    wait: IntArray
    waiter_first: IntArray
    waiter: IntArray
    sender: IntArray
    receiver: IntArray
    link: IntArray
    link_first: IntArray
    link_port: IntArray
    port_first: IntArray
    port_link: IntArray


class CallColumns(NamedTuple):
    """What one call costs: sizes in bytes, times in microseconds.

    Parameters
    ----------
    alpha_us, pair_us_per_byte : of links, and of each pair of a link and its port, for a byte of data.
    rounds : how often the program runs through its steps.
    chunk_bytes, piece_bytes, chunks_per_piece : of a chunk, of the piece that a round moves, and how many
        chunks a step moves at once.
    slices, least_slice : into how many slices a send is cut, and the smallest.
    slots : slices that wait at the receiver.
    cut_through : whether a slice is passed on while it still comes in.
    sharpness : of the change between a link that is slow by itself and one that is crowded; inf: sudden.
    """

    alpha_us: FloatArray
    pair_us_per_byte: FloatArray
    rounds: int
    chunk_bytes: float
    piece_bytes: float
    chunks_per_piece: int
    slices: int
    least_slice: float
    slots: int
    cut_through: bool
    hop_us: float
    slice_us: float
    empty_us: float
    least_us: float
    block_us_per_byte: float
    reduce_us: float
    reduce_us_per_byte: float
    copy_us: float
    copy_us_per_byte: float
    room_us: float
    sharpness: float


class Filled(NamedTuple):
    """What the loop writes.

    Parameters
    ----------
    round_end : when the last thread block ended each round.
    step_start, step_end : when the first slice of each step began, and its last ended.
    port_bytes : bytes of data through each port.
    """

    round_end: FloatArray
    step_start: FloatArray
    step_end: FloatArray
    port_bytes: FloatArray

    @staticmethod
    def empty(rounds: int, steps: int, ports: int) -> Filled:
        return Filled(np.zeros(rounds), np.zeros(steps + 1), np.zeros(steps + 1), np.zeros(ports))


class Blocks(NamedTuple):
    """Thread blocks: what each is at, its step, round, piece and slice.

    Parameters
    ----------
    amount : bytes of the slice.
    reach : what the link must have moved when the slice is through.
    next_on_link : the next thread block whose slice is on the same link; -1: none.
    """

    state: IntArray
    step: IntArray
    round: IntArray
    piece: IntArray
    slice: IntArray
    amount: FloatArray
    reach: FloatArray
    next_on_link: IntArray

    @staticmethod
    def at_first_step(first: IntArray) -> Blocks:
        num = len(first) - 1
        state, turn, piece, part = (np.zeros(num, dtype=np.int64) for _ in range(4))
        nobody = np.full(num, -1, dtype=np.int64)
        return Blocks(state, first[:-1].copy(), turn, piece, part, np.zeros(num), np.zeros(num), nobody)


class FlowColumns(NamedTuple):
    """Connections: slices begun, sent and taken, and when those in between began and ended.

    `seen_taken` : slices taken when the sender last looked. `begin_us`, `sent_us` : a column for each slot.
    """

    begun: IntArray
    sent: IntArray
    taken: IntArray
    seen_taken: IntArray
    begin_us: FloatArray
    sent_us: FloatArray

    @staticmethod
    def empty(connections: int, slots: int) -> FlowColumns:
        begun, sent, taken, seen = (np.zeros(connections, dtype=np.int64) for _ in range(4))
        return FlowColumns(
            begun, sent, taken, seen, np.zeros((connections, slots)), np.zeros((connections, slots))
        )


class Traffic(NamedTuple):
    """Links: the first thread block whose slice is on each, how many are, and bytes that each has moved.

    `rate` : bytes a microsecond, since `since_us`. `on_port` : slices on each port.
    """

    first_block: IntArray
    many: IntArray
    moved: FloatArray
    rate: FloatArray
    since_us: FloatArray
    on_port: IntArray

    @staticmethod
    def none(links: int, ports: int) -> Traffic:
        nobody, many = np.full(links, -1, dtype=np.int64), np.zeros(links, dtype=np.int64)
        moved, rate, since_us = (np.zeros(links) for _ in range(3))
        return Traffic(nobody, many, moved, rate, since_us, np.zeros(ports, dtype=np.int64))


class Agenda(NamedTuple):
    """What comes next.

    Parameters
    ----------
    time_us : the next event of each thread block, then of each link; inf: none.
    tree : a tree of winners over them, whose root, at 1, is the earliest.
    ready, is_ready, num_ready : thread blocks that may be able to go on, each at most once; `num_ready` has
        shape (1,).
    """

    time_us: FloatArray
    tree: IntArray
    ready: IntArray
    is_ready: BoolArray
    num_ready: IntArray

    @staticmethod
    def of(num_blocks: int, num_links: int, ready: IntArray) -> Agenda:
        """No events, and these thread blocks ready."""
        size = 1 << (num_blocks + num_links).bit_length()
        tree = np.zeros(2 * size, dtype=np.int64)
        tree[size:] = np.arange(size)
        level = size
        while level > 1:
            level //= 2
            tree[level : 2 * level] = tree[2 * level : 4 * level : 2]
        waiting, is_ready = np.zeros(num_blocks, dtype=np.int64), np.zeros(num_blocks, dtype=np.bool_)
        waiting[: len(ready)] = ready
        is_ready[ready] = True
        return Agenda(np.full(size, np.inf), tree, waiting, is_ready, np.array([len(ready)]))
