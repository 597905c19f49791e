"""One greedy run decides: whatever the order, the same blocks end, and the others stop at the same acts."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import examples

from taccl.backend.machine.acts import Acts, Kind, Machine, Names, Role, Writer
from taccl.backend.machine.deadlock import find_cycle, suppliers
from taccl.backend.machine.layout import Layout
from taccl.backend.machine.report import Location
from taccl.backend.machine.run import run_acts, run_calls


class Plain(Names):
    """Acts by number."""

    def act(self, act):
        return f"act {act}"

    def counter(self, counter):
        return f"counter {counter}"

    def wait(self, stuck):
        return f"waits for counter {stuck.counter}"

    def place(self, act):
        return (act,)

    def location(self, act):
        return Location(step=act)


def machine(writer, scratch=1, halves=False):
    """Two ranks with a chunk of input and of output, and scratch."""
    chunks = np.array([(1, 1, scratch)] * 2)
    layout = Layout.of(chunks, None, has_packets=True, has_halves=halves)
    return Machine(*writer.columns(), layout, Plain())


def exchange(count):
    """Two blocks that both send before they receive, and the columns of their acts."""
    writer = Writer()
    there, back = writer.counter(), writer.counter()
    for rank, (out, into) in enumerate(((there, back), (back, there))):
        writer.block(rank)
        writer.act(Kind.MOVE, 0, gives=out, amount=count)
        writer.act(Kind.MOVE, 1, takes=into, amount=count)
    return writer.columns()[0]


def test_two_blocks_that_send_first_need_room_for_all_pieces() -> None:
    acts = exchange(3)
    assert run_acts(acts, capacity=3, chunks_per_piece=1).ends
    assert run_acts(acts, capacity=2, chunks_per_piece=2).ends
    run = run_acts(acts, capacity=2, chunks_per_piece=1)
    assert [(stuck.act, stuck.for_room) for stuck in run.stuck] == [(0, True), (2, True)]
    assert [stuck.act for stuck in find_cycle(acts, None, run.stuck)] == [0, 2]


def test_a_wait_for_what_nobody_does_is_a_chain_and_no_circle() -> None:
    writer = Writer()
    never = writer.counter()
    writer.block(0)
    writer.act(Kind.AWAIT, 0, awaits=3)
    writer.act(Kind.MOVE, 0)
    writer.block(0)
    writer.act(Kind.WAIT, 1, takes=never)
    writer.act(Kind.MOVE, 1)
    acts, _ = writer.columns()
    run = run_acts(acts)
    assert [stuck.act for stuck in find_cycle(acts, None, run.stuck)] == [0, 2]
    assert suppliers(acts, None, run.stuck[0]) == [1] and not suppliers(acts, None, run.stuck[1])


def test_a_barrier_lets_its_members_go_on_together_in_every_call() -> None:
    writer = Writer()
    barrier, told = writer.counter(), writer.counter()
    for number in range(3):
        writer.block(0)
        if number == 2:
            writer.act(Kind.WAIT, number, takes=told)
        writer.act(Kind.BARRIER, number, gives=barrier, amount=3)
        if number == 0:
            writer.act(Kind.MEET, number)
    writer.block(1)
    writer.act(Kind.SIGNAL, 3, gives=told)
    run = run_calls(machine(writer), 3)
    assert run.ends and [sorted(call.tolist()) for call in run.sequence] == [list(range(6))] * 3
    assert all(call.tolist().index(1) > call.tolist().index(4) for call in run.sequence)


def test_packets_are_those_of_this_call() -> None:
    """Rank 0 waits for a packet, which rank 1 writes there in every call, or elsewhere in every other one."""
    for upper in (0, 1):
        writer = Writer()
        made = machine(Writer(), halves=True)
        cell = int(made.layout.packets[0])
        half = int(made.layout.half[0])
        writer.block(0)
        writer.act(Kind.MOVE, 0)
        writer.move([(cell, cell + half * upper, Role.PACKETS), (0, 0, Role.TARGET)], 1)
        writer.block(1)
        writer.act(Kind.MOVE, 1)
        writer.move([(4, 4, Role(0)), (cell, cell + half, Role.TARGET | Role.PACKETS)], 1)
        run = run_calls(machine(writer, halves=True), 3)
        assert run.ends is bool(upper) and len(run.sequence) == (3 if upper else 2)
        if not upper:
            assert [(stuck.act, stuck.cell) for stuck in run.stuck] == [(0, cell)]


@st.composite
def programs(draw: st.DrawFn) -> Acts:
    """Some blocks that signal, wait, and move pieces from one to the other; right or wrong by luck."""
    writer = Writer()
    counters = [writer.counter(draw(st.integers(0, 1))) for _ in range(draw(st.integers(1, 4)))]
    users = [draw(st.permutations(range(3)))[:2] for _ in counters]
    for block in range(3):
        writer.block(0)
        for operation in range(draw(st.integers(0, 6))):
            gives = [counter for counter, (giver, _) in enumerate(users) if giver == block]
            takes = [counter for counter, (_, taker) in enumerate(users) if taker == block]
            kinds = {
                "gives": draw(st.sampled_from([-1, *gives])),
                "takes": draw(st.sampled_from([-1, *takes])),
            }
            writer.act(Kind.MOVE, operation, amount=draw(st.integers(1, 3)), **kinds)
    return writer.columns()[0]


def stops(acts: Acts, capacity: int, iterations: int, dice: random.Random) -> list[tuple[int, int]]:
    """Per block its act and iteration where all stop, going on in a random order, a piece at a time."""
    first = acts.first_of_block.tolist()
    at, left = first[:-1].copy(), [0] * acts.num_blocks
    times = [0 if first[block] < first[block + 1] else iterations for block in range(acts.num_blocks)]
    given, taken = acts.initial.tolist(), [0] * acts.num_counters

    def can(block: int) -> bool:
        takes, gives = int(acts.takes[at[block]]), int(acts.gives[at[block]])
        has_data = takes < 0 or given[takes] > taken[takes]
        return has_data and (gives < 0 or given[gives] - taken[gives] < capacity)

    while ready := [block for block in range(acts.num_blocks) if times[block] < iterations and can(block)]:
        block = dice.choice(ready)
        act = at[block]
        for counter, counts in ((int(acts.takes[act]), taken), (int(acts.gives[act]), given)):
            if counter >= 0:
                counts[counter] += 1
        left[block] += 1
        if left[block] == acts.amount[act]:
            left[block] = 0
            at[block] += 1
            if at[block] == first[block + 1]:
                at[block], times[block] = first[block], times[block] + 1
    return [(act, time) for act, time in zip(at, times, strict=True) if time < iterations]


@settings(max_examples=examples(50), deadline=None)
@given(programs(), st.integers(1, 3), st.integers(1, 2), st.integers(0, 1000))
def test_every_order_stops_where_the_greedy_run_does(
    acts: Acts, capacity: int, iterations: int, seed: int
) -> None:
    run = run_acts(acts, capacity=capacity, chunks_per_piece=1, iterations=iterations)
    wanted = stops(acts, capacity, iterations, random.Random(seed))
    assert sorted(stuck.act for stuck in run.stuck) == [act for act, _ in wanted]
