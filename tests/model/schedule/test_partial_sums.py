"""Sums that are made at several ranks: recursive doubling, one-shot, and what is wrong with crafted ones."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_rules import faults
from strategies_schedule import machine
from strategies_sums import named_sums
from studies import examples

from taccl.errors import ScheduleError
from taccl.model.collectives import allreduce, reducescatter
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_json, schedule_from_sends, schedule_to_json
from taccl.model.schedule.derivation import derive
from taccl.model.schedule.partial_sums import OWN, PartialSums, as_sets, disjoint_union, ranks_of, set_of
from taccl.model.schedule.schedule import compacted


def switch(ranks: int) -> Problem:
    """Ranks behind a switch, one way in and one way out each; 3 us for one chunk."""
    links = list(itertools.permutations(range(ranks), 2))
    ports = tuple((a, ranks + b) for a, b in links)
    names = tuple(f"{way} {rank}" for way in ("out of", "into") for rank in range(ranks))
    return Problem(machine(ranks, links, ports=ports, port_names=names), allreduce(ranks), 1.0)


def recursive_doubling(problem: Problem) -> Schedule:
    """Every rank exchanges all that it has with the rank across bit 0, bit 1, ...; all chunks in one send."""
    ranks, topology = problem.num_ranks, problem.topology
    chunks = tuple(range(problem.num_chunks))
    sends = []
    time_us, size = 0.0, 1
    while size < ranks:
        for rank in range(ranks):
            link = topology.link_index[rank, rank ^ size]
            have = set_of(other for other in range(ranks) if other // size == rank // size)
            sends.append(Send(chunks, link, time_us, sums=(have,) * len(chunks)))
        time_us += float(topology.duration_us(link, len(chunks) * problem.chunk_mb))
        size *= 2
    return schedule_from_sends(problem, sends)


def one_shot(problem: Problem) -> Schedule:
    """Every rank sends its own contribution to every other, which adds up for itself."""
    ranks, topology = problem.num_ranks, problem.topology
    chunks = tuple(range(problem.num_chunks))
    sends = []
    for step in range(1, ranks):
        for rank in range(ranks):
            link = topology.link_index[rank, (rank + step) % ranks]
            start = (step - 1) * float(topology.duration_us(link, len(chunks) * problem.chunk_mb))
            sends.append(Send(chunks, link, start, sums=(1 << rank,) * len(chunks)))
    return schedule_from_sends(problem, sends)


def findings(schedule: Schedule) -> tuple[str, ...]:
    with pytest.raises(ScheduleError) as caught:
        schedule.check()
    return caught.value.findings


def test_recursive_doubling_takes_one_send_for_each_bit() -> None:
    schedule = recursive_doubling(switch(4))
    schedule.check()
    assert schedule.makespan_us == 2 * (1.0 + 4 * 2.0)


def test_one_shot_adds_up_at_every_rank() -> None:
    schedule = one_shot(switch(3))
    schedule.check()
    assert {len(parts) for parts in derive(schedule).outputs.values()} == {3}


def test_a_sum_is_made_of_what_the_sender_holds_by_then() -> None:
    schedule = recursive_doubling(switch(4))
    early = replace(schedule, start_us=np.zeros(len(schedule)), end_us=schedule.end_us - schedule.start_us)
    assert any("its sender cannot make the sum of ranks 0, 1" in finding for finding in findings(early))


def test_each_output_holds_each_contribution_once() -> None:
    schedule = one_shot(switch(3))
    dropped = schedule.take(np.arange(1, len(schedule)))
    assert any("never gets all contributions" in finding for finding in findings(dropped))


def test_chunks_that_travel_together_are_made_of_their_own_rows() -> None:
    """Looked at once for all of them, and reported for each."""
    schedule = recursive_doubling(switch(4))
    found, sums = derive(schedule), schedule.sums
    assert sums is not None and not found.impossible
    assert sorted(found.rows) == list(range(len(schedule)))
    made = {(row, int(schedule.src[row])): parts for row, parts in found.rows.items()}
    for (row, rank), parts in made.items():
        for part in parts:
            assert part == OWN or (schedule.chunk[part] == schedule.chunk[row] and schedule.dst[part] == rank)
        carried = [sums.sets()[part] if part != OWN else 1 << rank for part in parts]
        assert sum(carried) == sums.sets()[row]
    for (chunk, rank), parts in found.outputs.items():
        assert all(
            part == OWN or (schedule.chunk[part], schedule.dst[part]) == (chunk, rank) for part in parts
        )


def test_overlapping_sums_do_not_add_up() -> None:
    problem = switch(4)
    index = problem.topology.link_index
    sends = [
        Send((0,), index[0, 1], 0.0, sums=(0b0001,)),
        Send((0,), index[1, 2], 3.0, sums=(0b0010,)),
        # Rank 3 holds {3}, {0, 1} and {1, 2}: all contributions are there, and no disjoint sets of them.
        Send((0,), index[1, 3], 6.0, sums=(0b0011,)),
        Send((0,), index[2, 3], 9.0, sums=(0b0110,)),
    ]
    assert any(
        "never gets all contributions" in each for each in findings(schedule_from_sends(problem, sends))
    )
    assert derive(schedule_from_sends(problem, sends)).missing[0, 3] == []


def test_a_set_does_not_arrive_twice() -> None:
    problem = switch(2)
    link = problem.topology.link_index[0, 1]
    sends = [Send((0,), link, 0.0, sums=(1,)), Send((0,), link, 3.0, sums=(1,))]
    assert any("gets it twice" in finding for finding in findings(schedule_from_sends(problem, sends)))


def test_a_set_that_stands_in_the_table_twice_does_not_arrive_twice_either() -> None:
    problem = switch(2)
    link = problem.topology.link_index[0, 1]
    sends = [Send((0,), link, 0.0, sums=(1,)), Send((0,), link, 3.0, sums=(1,))]
    schedule = schedule_from_sends(problem, sends)
    assert schedule.sums is not None
    twice = PartialSums(np.array([0, 1]), schedule.sums.members[[0, 0]])
    assert any("gets it twice" in finding for finding in findings(replace(schedule, sums=twice)))


def test_a_partial_sum_of_nothing_is_none() -> None:
    """Nor is it the whole sum, which goes as a copy."""
    problem = switch(3)
    links = problem.topology.link_index
    sends = [Send((0,), links[1, 0], 0.0, sums=(2,)), Send((0,), links[2, 0], 9.0, sums=(4,))]
    sends += [Send((0,), links[0, 1], 20.0, sums=(1,)), Send((0,), links[0, 2], 30.0, sums=(1,))]
    schedule = schedule_from_sends(problem, sends)
    assert schedule.sums is not None
    members = schedule.sums.members.copy()
    members[schedule.sums.of_row[-1]] = False
    wrong = replace(schedule, sums=PartialSums(schedule.sums.of_row, members))
    assert any("a partial sum of no contributions" in finding for finding in findings(wrong))


def test_a_group_may_mix_a_partial_and_a_whole_sum() -> None:
    # Rank 0 makes the sum of chunk 0, rank 1 that of chunk 1: one send takes the whole chunk 0 there and
    # rank 0's contribution to chunk 1.
    problem = switch(2)
    there, back = problem.topology.link_index[0, 1], problem.topology.link_index[1, 0]
    sends = [Send((0,), back, 0.0, sums=(2,)), Send((0, 1), there, 3.0, sums=(0, 1))]
    sends.append(Send((1,), back, 8.0, sums=(0,)))
    schedule = schedule_from_sends(problem, sends)
    schedule.check()
    assert compacted(schedule).sums is None
    compacted(schedule).check()


def test_names_of_contributions_are_for_partial_sums_only() -> None:
    schedule = recursive_doubling(switch(2))
    wrong = replace(schedule, reduce=np.zeros(len(schedule), dtype=np.bool_))
    assert "only a partial sum names its contributions" in findings(wrong)[0]


@pytest.mark.parametrize("of_row", [[5, 0], [-2, 0]])
def test_a_sum_that_is_none_of_the_table_is_told(of_row: list[int]) -> None:
    schedule = recursive_doubling(replace(switch(2), collective=reducescatter(2)))
    assert schedule.sums is not None
    column = np.array([*of_row, *schedule.sums.of_row[2:]])
    assert "is outside -1 .. 1" in findings(replace(schedule, sums=replace(schedule.sums, of_row=column)))[0]


def test_a_file_carries_the_contributions_of_each_row() -> None:
    schedule = recursive_doubling(switch(4))
    again = schedule_from_json(schedule_to_json(schedule)).schedule
    assert schedule.sums is not None and again.sums is not None
    assert again.sums.sets() == schedule.sums.sets()


def test_what_arrived_late_is_no_source() -> None:
    schedule = recursive_doubling(switch(4))
    sources = derive(schedule).rows
    assert [len(sources[row]) for row in range(len(schedule))] == [1] * 16 + [2] * 16
    assert all(OWN in parts for parts in sources.values())


@given(st.lists(st.integers(1, 63), max_size=7), st.integers(1, 63))
def test_a_disjoint_union_is_found_whenever_there_is_one(parts: list[int], whole: int) -> None:
    found = disjoint_union(whole, parts)
    possible = any(
        sum(some) == whole and all(a & b == 0 for a, b in itertools.combinations(some, 2))
        for count in range(1, len(parts) + 1)
        for some in itertools.combinations(sorted(set(parts)), count)
    )
    assert (found is not None) == possible
    if found is not None:
        assert sum(found) == whole and set(found) <= set(parts)


@given(st.lists(st.sets(st.integers(0, 20)), max_size=6))
def test_sets_and_their_table_say_the_same(ranks: list[set[int]]) -> None:
    sets = [set_of(each) for each in ranks]
    sums = PartialSums.of_sets(sets, 21)
    assert sums.sets() == sets
    assert len(as_sets(sums.members)) == len(set(sets) - {0})
    assert [ranks_of(each) for each in sets] == [sorted(each) for each in ranks]


@settings(max_examples=examples(33), deadline=None)
@given(named_sums())
def test_sums_made_anywhere_pass_the_checks_and_survive_a_file(schedule: Schedule) -> None:
    schedule.check()
    again = schedule_from_json(schedule_to_json(schedule)).schedule
    assert (again.start_us == schedule.start_us).all()
    assert schedule_to_json(again) == schedule_to_json(schedule)


@settings(max_examples=examples(33), deadline=None)
@given(named_sums(), st.integers(0, 2**32))
def test_without_one_of_its_rows_a_sum_is_as_the_slow_rules_say(schedule: Schedule, seed: int) -> None:
    rows = np.delete(np.arange(len(schedule)), seed % max(1, len(schedule)))
    broken = schedule.take(rows)
    try:
        broken.check()
        valid = True
    except ScheduleError:
        valid = False
    assert valid == (not faults(broken))
