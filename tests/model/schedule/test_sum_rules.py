"""Each rule of partial sums by a schedule that fits on a napkin, and the smallest change that breaks it."""

from dataclasses import replace

import numpy as np
from napkin_schedules import LINKS, ZERO, edited, findings, planned, sum_chain, sum_of
from strategies_schedule import machine

from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends


def test_a_chain_of_sums_is_valid() -> None:
    sum_chain().check()
    assert sum_chain().makespan_us == 6.0


def test_allreduce_by_a_tree_and_back_is_valid() -> None:
    every = [0, 1, 2]
    schedule = planned(
        "allreduce",
        [
            (every, (2, 1), 0.0, "add"),
            (every, (1, 0), 7.0, "add"),
            (every, (0, 1), 14.0),
            (every, (1, 2), 21.0),
        ],
    )
    schedule.check()
    assert schedule.makespan_us == 28.0


def test_allreduce_by_trees_with_a_root_for_each_chunk_is_valid() -> None:
    ends = [(a, b) for a in range(3) for b in range(3) if a != b]
    planned(
        "allreduce",
        [([b], (a, b), 0.0, "add") for a, b in ends] + [([a], (a, b), 3.0) for a, b in ends],
    ).check()


def test_a_sum_may_meet_anywhere_and_be_copied_to_where_it_is_wanted() -> None:
    planned("reduce", [([0], (0, 1), 0.0, "add"), ([0], (2, 1), 0.0, "add"), ([0], (1, 0), 3.0)]).check()


def test_a_rank_that_adds_nothing_may_pass_a_sum_on() -> None:
    planned(sum_of([0, 2], wanted=[0]), [([0], (2, 1), 0.0, "add"), ([0], (1, 0), 3.0, "add")]).check()


def test_a_sum_of_one_contribution_is_there_from_the_start() -> None:
    planned(sum_of([1], wanted=[1]), []).check()
    planned(sum_of([1], wanted=[0]), [([0], (1, 0), 0.0)]).check()


def test_sums_on_fast_links_wait_for_what_they_are_made_of() -> None:
    fast = machine(3, [(2, 1), (1, 0)], alpha_us=np.zeros(2), beta_us_per_mb=np.full(2, 1e-9))
    planned("reduce", [([0], (2, 1), 0.0, "add"), ([0], (1, 0), 1e-9, "add")], fast).check()
    early = planned("reduce", [([0], (2, 1), 0.0, "add"), ([0], (1, 0), 0.0, "add")], fast)
    assert "leaves before all contributions to it have arrived" in findings(early)[0]


def test_only_reduced_chunks_are_added() -> None:
    sends = [([0], (0, 1), 0.0), ([0], (1, 2), 3.0), ([0], (1, 2), 6.0, "add")]
    assert findings(planned("broadcast", sends)) == (
        "row 2 (chunk 0, 1 -> 2, 6.000 us): adds a chunk that is not reduced",
    )


def test_a_contribution_is_passed_on_once() -> None:
    assert findings(sum_chain(([0], (2, 0), 6.0, "add"))) == (
        "row 2 (chunk 0, 2 -> 0, 6.000 us): its sender passes its contribution on twice",
    )


def test_who_has_no_contribution_adds_nothing() -> None:
    sends = [([0], (2, 1), 0.0, "add"), ([0], (1, 0), 3.0, "add")]
    assert findings(planned(sum_of([0, 1], wanted=[0]), sends)) == (
        "row 0 (chunk 0, 2 -> 1, 0.000 us): its sender has no contribution",
    )


def test_a_sum_waits_for_all_that_is_added_to_it() -> None:
    assert findings(edited(sum_chain(), [1], start_us=2.5, end_us=5.5)) == (
        "row 1 (chunk 0, 1 -> 0, 2.500 us): leaves before all contributions to it have arrived",
    )


def test_contributions_meet_at_one_rank() -> None:
    found = findings(sum_chain().take(np.array([1])))
    assert found[0].startswith(
        "chunk 0 (piece 0 of rank 0's part): its contributions do not meet at one rank"
    )
    assert found[0].endswith("they end at ranks 0, 2")


def test_no_sum_goes_round_in_a_circle_even_where_links_are_free() -> None:
    free = machine(3, LINKS, alpha_us=ZERO, beta_us_per_mb=ZERO)
    sends = [([0], (1, 2), 0.0, "add"), ([0], (2, 1), 0.0, "add")]
    assert findings(planned(sum_of([0], wanted=[0]), sends, free)) == (
        "row 0 (chunk 0, 1 -> 2, 0.000 us): goes round in a circle of reductions",
    )


def test_a_sum_all_of_which_goes_round_ends_nowhere() -> None:
    free = machine(3, LINKS, alpha_us=ZERO, beta_us_per_mb=ZERO)
    sends = [([0], (1, 2), 0.0, "add"), ([0], (2, 1), 0.0, "add")]
    assert findings(planned(sum_of([1, 2], wanted=[1]), sends, free))[0].endswith("they end nowhere")


def test_a_finished_sum_is_copied_only_when_it_is_finished() -> None:
    every = [0, 1, 2]
    schedule = planned(
        "allreduce",
        [
            (every, (2, 1), 0.0, "add"),
            (every, (1, 0), 7.0, "add"),
            (every, (0, 1), 13.0),
            (every, (1, 2), 21.0),
        ],
    )
    assert findings(schedule) == (
        "row 6 (chunk 0, 0 -> 1, 13.000 us): its sender does not hold it yet (does from 14.000 us on)",
    )


def test_no_contribution_leaves_before_it_is_ready() -> None:
    late = replace(sum_chain(), problem=replace(sum_chain().problem, ready_us=[0.0, 4.0, 0.0]))
    assert findings(late)[0].endswith("leaves before all contributions to it have arrived")
    moved = edited(edited(late, [1], start_us=4.0), [1], end_us=7.0)
    moved.check()
    assert moved.makespan_us == 7.0


def test_a_rank_that_may_not_sum_passes_on_one_part() -> None:
    requested = sum_chain()
    unable = replace(requested.problem.topology, may_sum=np.array([True, False, True]))
    broken = replace(requested, problem=replace(requested.problem, topology=unable))
    assert findings(broken) == ("rank 1 sums 2 parts of chunk 0 (piece 0 of rank 0's part), and may not sum",)
    relayed = planned(
        sum_of([0, 2], wanted=[0]), [([0], (2, 1), 0.0, "add"), ([0], (1, 0), 3.0, "add")], unable
    )
    relayed.check()


def test_partial_sums_that_say_what_they_carry_are_made_where_they_may_be() -> None:
    """Each of two ranks sends its contribution to the other; both have the sum then."""
    swap = [Send((0,), 0, 0.0, True, (1,)), Send((0,), 1, 0.0, True, (2,))]
    topology = machine(2, [(0, 1), (1, 0)])
    collective = sum_of([0, 1], wanted=[0, 1], num_ranks=2)

    def swapped(**changes) -> Schedule:
        return schedule_from_sends(Problem(replace(topology, **changes), collective, 1.0), swap)

    swapped().check()
    one = np.array([True, False])
    assert findings(swapped(may_sum=one)) == ("rank 1 sums, and may not",)
    assert findings(swapped(may_copy=one)) == (
        "rank 1 copies chunk 0 (piece 0 of rank 0's part), and may not",
    )
    late = replace(swapped(), problem=replace(swapped().problem, ready_us=[0.0, 1.0], tail_us=[5.0, 0.0]))
    assert "its sender cannot make the sum of ranks 1 from what it holds by then" in findings(late)[0]
    moved = edited(edited(late, [1], start_us=1.0), [1], end_us=4.0)
    moved.check()
    assert moved.makespan_us == 9.0
