"""One greedy run of all blocks: in what order acts happen, and where everything stops.

Counters only grow, acts of a block are in order, and nobody gives up waiting. So an act that can go on stays
able to until it does: if one run ends, all do, and if one gets stuck, all get stuck at the same acts. One run
decides (a Kahn process network, but for barriers and semaphores, which are as monotone).
A wait of one lane holds up the whole block, which is stricter than a GPU.

Iterations of one block after another cannot deadlock each other if each adds to every counter what it takes:
every cycle of waits then lies within one iteration, and as all are equivalent, the first shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taccl.backend.machine.acts import Acts, Kind, Machine, Role, Stuck
from taccl.model.collective import IntArray
from taccl.support.jit import Loop

#: More than any counter reaches.
UNBOUNDED = 2**60
_AWAIT, _BARRIER = int(Kind.AWAIT), int(Kind.BARRIER)


@dataclass(frozen=True, eq=False)
class Run:
    """What came of it.

    Parameters
    ----------
    sequence : per call, the acts as they were done for the first time; a barrier when its block came there.
    stuck : the blocks that never went on, in the last of the calls; none: all ended.
    """

    sequence: tuple[IntArray, ...]
    stuck: tuple[Stuck, ...]

    @property
    def ends(self) -> bool:
        return not self.stuck


class _Program(NamedTuple):
    """Columns of acts; `packets` : per act where its ranges of packets begin, and the columns of those."""

    first: Any
    kind: Any
    takes: Any
    gives: Any
    awaits: Any
    pieces: Any
    members: Any
    packets: Any
    packet_cell: Any
    packet_count: Any
    packet_rank: Any
    packet_is_written: Any


class _State(NamedTuple):
    """Where everything stands.

    Parameters
    ----------
    at, left, goal, iteration : per block its act, pieces left of it, what a barrier's counter has to reach
        (0: it has not come to one), and how often it has ended.
    completed : per act how often. given, taken : per counter. flag : per cell the iteration of its packet.
    first_waiter, last_waiter : per list of waiting blocks of what they wait for. next_waiter : per block.
    """

    at: Any
    left: Any
    goal: Any
    iteration: Any
    completed: Any
    given: Any
    taken: Any
    flag: Any
    first_waiter: Any
    last_waiter: Any
    next_waiter: Any


def run_acts(
    acts: Acts, *, capacity: int = UNBOUNDED, chunks_per_piece: int | None = None, iterations: int = 1
) -> Run:
    """Run every block through its acts, as often as this, each as soon as it can.

    Parameters
    ----------
    capacity : what a counter holds before whoever gives to it has to wait.
    chunks_per_piece : a move of `amount` chunks is made in pieces of this many; None: in one.

    An act with several pieces takes and gives piece by piece, and each at once: it needs what it takes and
    the room for what it gives at the same time. Time and memory are linear in the pieces.
    """
    program, state = _program(acts, None, 0, chunks_per_piece), _initial(acts, 0, 0)
    done, state = _go(program, state, 0, iterations, capacity)
    return Run((done,), _stuck(program, state, iterations, capacity))


def run_calls(machine: Machine, calls: int) -> Run:
    """Run some calls, each begun when the one before has ended everywhere."""
    acts, layout = machine.acts, machine.layout
    programs = [_program(acts, machine, half, None) for half in ((0, 1) if layout.has_halves else (0,))]
    state, sequence = _initial(acts, layout.num_cells, len(layout.chunks)), []
    for call in range(calls):
        program = programs[call % len(programs)]
        done, state = _go(program, state, call, call + 1, UNBOUNDED)
        sequence.append(done)
        stuck = _stuck(program, state, call + 1, UNBOUNDED)
        if stuck:
            return Run(tuple(sequence), stuck)
    return Run(tuple(sequence), ())


def _program(acts: Acts, machine: Machine | None, half: int, chunks_per_piece: int | None) -> _Program:
    pieces = np.ones(len(acts), dtype=np.int32)
    if chunks_per_piece is not None:
        moves = acts.where(Kind.MOVE)
        pieces[moves] = -(-acts.amount[moves].clip(min=1) // chunks_per_piece)
    nothing = np.zeros(0, dtype=np.int64)
    packets = (nothing, nothing, nothing, nothing, nothing)
    if machine is not None and machine.moves.has_packets:
        packets = _packets(machine, half)
    return _Program(
        acts.first_of_block,
        acts.kind,
        acts.takes,
        acts.gives,
        acts.awaits,
        pieces,
        acts.amount,
        *packets,
    )


def _packets(machine: Machine, half: int) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray]:
    """The ranges of packets that acts wait for or write, by act; transfers of ports wait for none."""
    acts, moves, layout = machine.acts, machine.moves, machine.layout
    act = moves.act[moves.move]
    is_written = moves.is_target()
    chosen = np.flatnonzero(((moves.role & Role.PACKETS) != 0) & (is_written | (acts.kind[act] != Kind.PUSH)))
    cell = (moves.upper if half else moves.cell)[chosen].astype(np.int64)
    return (
        np.searchsorted(act[chosen], np.arange(len(acts) + 1)),
        cell,
        moves.count[moves.move[chosen]],
        np.searchsorted(layout.user[:, 0], cell, side="right") - 1,
        is_written[chosen].astype(np.int64),
    )


def _initial(acts: Acts, num_cells: int, num_ranks: int) -> _State:
    """Before anything; lists of who waits for counters, their room, acts, packets of a rank, and for ever."""
    blocks, lists = acts.num_blocks, 2 * acts.num_counters + len(acts) + num_ranks + 1

    def column(size: int, value: int, kind: type = np.int64) -> IntArray:
        return np.full(size, value, dtype=kind)

    return _State(
        at=column(blocks, 0),
        left=column(blocks, 0),
        goal=column(blocks, 0),
        iteration=column(blocks, 0),
        completed=column(len(acts), 0, np.int32),
        given=acts.initial.astype(np.int64),
        taken=column(acts.num_counters, 0),
        flag=column(num_cells, -1),
        first_waiter=column(lists, -1, np.int32),
        last_waiter=column(lists, -1, np.int32),
        next_waiter=column(blocks, -1),
    )


def _go(program: _Program, state: _State, start: int, end: int, capacity: int) -> tuple[IntArray, _State]:
    """Run from one iteration to before another: acts of the first in order, and where everything stands."""
    values = {"program": program, "state": state, "start": start, "end": end, "capacity": capacity}
    done, after = _run(len(program.kind), **values)
    columns = (np.asarray(new, dtype=old.dtype) for new, old in zip(after, state, strict=True))
    return done, _State(*columns)


def _run_all(
    program: _Program, state: _State, start: int, end: int, capacity: int
) -> tuple[IntArray, _State]:
    """One block after the other, each until it has ended so often or has to wait.

    Blocks that may be able to go on stand in a ring, each once; the others in a list of what they wait for.
    """
    blocks, lists = len(program.first) - 1, len(state.first_waiter)
    order, ring = np.zeros(len(program.kind), dtype=np.int64), [0] * blocks
    ready, head, done = 0, 0, 0
    for block in range(blocks):
        state.at[block] = program.first[block]
        if program.first[block] < program.first[block + 1]:
            state.left[block] = program.pieces[program.first[block]]
            ring[ready] = block
            ready += 1
    while ready > 0:
        block = ring[head]
        head, ready = (head + 1) % blocks, ready - 1
        while state.iteration[block] < end:
            act = state.at[block]
            arrives = program.kind[act] == _BARRIER and state.goal[block] == 0
            if arrives:
                ready += _arrive(program, state, block, act, head + ready, ring)
            obstacle = _obstacle(program, state, block, act, capacity, lists)
            if obstacle < 0:
                ready += _transfer(program, state, block, act, capacity, head + ready, ring)
                if state.left[block] == 0:
                    ready += _put_packets(program, state, block, act, head + ready, ring)
            is_done = obstacle < 0 and state.left[block] == 0
            if state.iteration[block] == start and (arrives or (is_done and program.kind[act] != _BARRIER)):
                order[done] = act
                done += 1
            if obstacle >= 0:
                _wait_in(obstacle, block, state)
                break
            if is_done:
                state.completed[act] += 1
                ready += _wake(2 * len(state.given) + act, head + ready, ring, state)
                _go_on(program, state, block, act)
    return order[:done], state


def _arrive(program: _Program, state: _State, block: int, act: int, end: int, ring: list[int]) -> int:
    """Come to a barrier; how many blocks that wakes."""
    counter, members = program.gives[act], program.members[act]
    state.given[counter] += 1
    state.goal[block] = (state.given[counter] + members - 1) // members * members
    return _wake(counter, end, ring, state)


def _obstacle(program: _Program, state: _State, block: int, act: int, capacity: int, lists: int) -> int:
    """The list in which a block has to wait before it goes on; -1: it can."""
    kind, takes, gives = program.kind[act], program.takes[act], program.gives[act]
    counters, waits = len(state.given), -1
    if kind == _AWAIT:
        awaited = program.awaits[act]
        if awaited < 0:
            waits = lists - 1
        elif state.completed[awaited] <= state.iteration[block]:
            waits = 2 * counters + awaited
    elif kind == _BARRIER:
        if state.given[gives] < state.goal[block]:
            waits = gives
    elif takes >= 0 and state.given[takes] <= state.taken[takes]:
        waits = takes
    elif gives >= 0 and state.given[gives] - state.taken[gives] >= capacity:
        waits = counters + gives
    else:
        lacking = _missing_packets(program, state, block, act)
        if lacking >= 0:
            waits = 2 * counters + len(program.kind) + program.packet_rank[lacking]
    return waits


def _missing_packets(program: _Program, state: _State, block: int, act: int) -> int:
    """A range that an act reads and in which a packet of this iteration is not there yet, or -1."""
    if len(program.packets) > 0:
        for row in range(program.packets[act], program.packets[act + 1]):
            first = program.packet_cell[row]
            if program.packet_is_written[row] == 0:
                for cell in range(first, first + program.packet_count[row]):
                    if state.flag[cell] != state.iteration[block]:
                        return row
    return -1


def _transfer(
    program: _Program, state: _State, block: int, act: int, capacity: int, end: int, ring: list[int]
) -> int:
    """Take and give as many pieces as there are and have room; how many blocks that wakes."""
    moved, woken = state.left[block], 0
    takes, gives = program.takes[act], program.gives[act]
    if program.kind[act] == _BARRIER:
        gives = -1
    if takes >= 0:
        moved = min(moved, state.given[takes] - state.taken[takes])
    if gives >= 0:
        moved = min(moved, capacity - state.given[gives] + state.taken[gives])
    if takes >= 0:
        state.taken[takes] += moved
        woken += _wake(len(state.given) + takes, end, ring, state)
    if gives >= 0:
        state.given[gives] += moved
        woken += _wake(gives, end + woken, ring, state)
    state.left[block] -= moved
    return woken


def _put_packets(program: _Program, state: _State, block: int, act: int, end: int, ring: list[int]) -> int:
    """Put the packets that an act writes; how many blocks that wakes."""
    woken = 0
    if len(program.packets) > 0:
        for row in range(program.packets[act], program.packets[act + 1]):
            first = program.packet_cell[row]
            if program.packet_is_written[row] != 0:
                for cell in range(first, first + program.packet_count[row]):
                    state.flag[cell] = state.iteration[block]
                waiting = 2 * len(state.given) + len(program.kind) + program.packet_rank[row]
                woken += _wake(waiting, end + woken, ring, state)
    return woken


def _go_on(program: _Program, state: _State, block: int, act: int) -> None:
    """Stand before the next act; after the last one the iteration is over."""
    following = act + 1
    if following == program.first[block + 1]:
        state.iteration[block] += 1
        following = program.first[block]
    state.at[block] = following
    state.left[block] = program.pieces[following]
    state.goal[block] = 0


def _wait_in(waiting: int, block: int, state: _State) -> None:
    """Put a block at the end of a list."""
    state.next_waiter[block] = -1
    if state.first_waiter[waiting] < 0:
        state.first_waiter[waiting] = block
    else:
        state.next_waiter[state.last_waiter[waiting]] = block
    state.last_waiter[waiting] = block


def _wake(waiting: int, end: int, ring: list[int], state: _State) -> int:
    """Put all blocks of a list at the end of the ring; how many."""
    woken, block = 0, state.first_waiter[waiting]
    while block >= 0:
        ring[(end + woken) % len(ring)] = block
        woken += 1
        block = state.next_waiter[block]
    state.first_waiter[waiting] = -1
    return woken


_run = Loop(
    _run_all, (_arrive, _obstacle, _missing_packets, _transfer, _put_packets, _go_on, _wait_in, _wake)
)


def _stuck(program: _Program, state: _State, end: int, capacity: int) -> tuple[Stuck, ...]:
    """The blocks that have acts and have not gone through them so often, and why."""
    has_acts = np.diff(program.first) > 0
    blocks = np.flatnonzero((state.iteration < end) & has_acts).tolist()
    return tuple(_why(program, state, block, capacity) for block in blocks)


def _why(program: _Program, state: _State, block: int, capacity: int) -> Stuck:
    act, counters = int(state.at[block]), len(state.given)
    waiting = _obstacle(program, state, block, act, capacity, len(state.first_waiter))
    if program.kind[act] == _AWAIT:
        return Stuck(act, awaits=int(program.awaits[act]))
    if waiting < counters:
        return Stuck(act, int(waiting))
    if waiting < 2 * counters:
        return Stuck(act, int(waiting) - counters, for_room=True)
    row = _missing_packets(program, state, block, act)
    first = int(program.packet_cell[row])
    is_there = state.flag[first : first + program.packet_count[row]] == state.iteration[block]
    return Stuck(act, cell=first + int(np.argmin(is_there)))
