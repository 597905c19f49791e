"""Each rule by a schedule that fits on a napkin, and the smallest change that breaks it.

Unless said otherwise a transfer of n chunks takes 1 + 2n us: alpha 1 us, beta 2 us/MB, chunks of 1 MB.
"""

from dataclasses import replace

import numpy as np
import pytest
from napkin_schedules import LINKS, ZERO, chain, edited, findings, planned, sum_chain, sum_of
from strategies_schedule import machine

from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule, Send, schedule_from_sends

# -- valid schedules -----------------------------------------------------------------------------


def test_a_chain_of_groups_is_valid() -> None:
    schedule = chain()
    schedule.check()
    assert schedule.makespan_us == 10.0


def test_a_schedule_of_one_rank_is_empty() -> None:
    alone = LogicalTopology("alone", np.zeros(1, int), *[np.zeros(0, int)] * 2, *[np.zeros(0)] * 2, (), ())
    schedule = planned("allgather", [], alone)
    schedule.check()
    assert schedule.makespan_us == 0.0


def test_a_rank_sends_and_receives_at_once() -> None:
    ring = [(0, 1), (1, 2), (2, 0)]
    planned(
        "allgather",
        [([a], (a, b), 0.0) for a, b in ring] + [([(a - 1) % 3], (a, b), 3.0) for a, b in ring],
    ).check()


def test_times_within_the_tolerance_are_equal() -> None:
    edited(chain(), [2, 3], start_us=5.0 - 4e-9, end_us=10.0 - 4e-9).check()
    assert "does not hold it yet" in findings(edited(chain(), [2, 3], start_us=5.0 - 6e-9, end_us=10.0))[-1]


# -- groups --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"start_us": 5.5}, {"end_us": 10.5}])
def test_a_group_has_one_time(change: dict) -> None:
    found = findings(edited(chain(), [3], **change))
    assert found[0].startswith("row 3 (chunk 1, 1 -> 2, ")
    assert found[0].endswith("differs in link or time from the rest of its group")
    assert len(found) == (3 if "reduce" in change else 1)


def test_a_group_has_one_link() -> None:
    schedule = chain()
    found = findings(edited(schedule, [3], link=schedule.problem.topology.link_index[0, 2]))
    assert found == ("row 3 (chunk 1, 0 -> 2, 5.000 us): differs in link or time from the rest of its group",)


def test_a_group_has_no_chunk_twice() -> None:
    found = findings(edited(chain(), [3], chunk=0))
    assert found[0] == "row 3 (chunk 0, 1 -> 2, 5.000 us): is in group 1 twice"


def test_a_group_is_no_larger_than_a_step_holds() -> None:
    chain(max_group=2).check()
    assert findings(chain(max_group=1)) == (
        "row 0 (chunk 0, 0 -> 1, 0.000 us): its group of 2 chunks is over the limit of 1",
    )


# -- durations and ports -------------------------------------------------------------------------


@pytest.mark.parametrize("end_us", [9.0, 11.0])
def test_a_transfer_takes_what_the_cost_model_says(end_us: float) -> None:
    assert findings(edited(chain(), [2, 3], end_us=end_us)) == (
        f"row 2 (chunk 0, 1 -> 2, 5.000 us): takes {end_us - 5:.6f} us, the link's cost is 5.000000 us",
    )


def test_chunks_that_travel_apart_pay_alpha_each() -> None:
    apart = edited(chain(), [3], group=7)
    assert findings(apart)[0].endswith("takes 5.000000 us, the link's cost is 3.000000 us")


def shared_port(start_us: float, **changes) -> Schedule:
    """Rank 0's chunk to ranks 1 and 2 through one port, the second from `start_us` on."""
    topology = machine(
        3, [(0, 1), (0, 2)], ports=((0, 2), (1, 2)), port_names=("0->1", "0->2", "out of 0"), **changes
    )
    return planned("broadcast", [([0], (0, 1), 0.0), ([0], (0, 2), start_us)], topology)


@pytest.mark.parametrize(("occupancy", "free_us"), [("serial", 3.0), ("pipelined", 2.0)])
def test_a_port_serves_one_group_at_a_time(occupancy: str, free_us: float) -> None:
    shared_port(free_us, occupancy=occupancy).check()
    assert findings(shared_port(free_us - 0.25, occupancy=occupancy)) == (
        f"row 0 (chunk 0, 0 -> 1, 0.000 us) and row 1 (chunk 0, 0 -> 2, {free_us - 0.25:.3f} us): "
        "both use port out of 0 at once",
    )


def test_a_long_transfer_is_in_the_way_of_all_that_start_in_it() -> None:
    topology = machine(
        4,
        [(0, 1), (0, 2), (0, 3)],
        beta_us_per_mb=np.array([99.0, 2.0, 2.0]),
        ports=((0,), (0,), (0,)),
        port_names=("out of 0",),
    )
    late = planned("broadcast", [([0], (0, 1), 0.0), ([0], (0, 2), 100.0), ([0], (0, 3), 103.0)], topology)
    late.check()
    assert "port out of 0" in findings(edited(late, [2], start_us=50.0, end_us=53.0))[0]


@pytest.mark.parametrize(("occupancy", "free_us"), [("serial", 1.5), ("pipelined", 0.5)])
def test_a_port_that_is_faster_than_its_links_is_free_before_their_transfers_end(
    occupancy: str, free_us: float
) -> None:
    fast = {"port_betas": ((2.0, 0.5), (2.0, 0.5)), "occupancy": occupancy}
    shared_port(free_us, **fast).check()
    assert "both use port out of 0 at once" in findings(shared_port(free_us - 0.25, **fast))[0]


def test_a_port_is_busy_for_each_link_at_the_rate_that_it_has_for_that_link() -> None:
    """Rank 0 sends over a link of 2 us/MB for which the shared port takes 0.5, and over one of 1 for 1."""
    topology = machine(
        3, [(0, 1), (0, 2)], alpha_us=np.zeros(2), beta_us_per_mb=np.array([2.0, 1.0]),
        ports=((0, 1), (1,)), port_names=("0->1", "out of 0"), port_betas=((2.0, 0.5), (1.0,)),
    )  # fmt: skip
    there = planned("broadcast", [([0], (0, 1), 0.0), ([0], (0, 2), 0.5)], topology)
    there.check()
    assert there.port_busy_us.tolist() == [2.0, 1.5]
    other_way_round = planned("broadcast", [([0], (0, 2), 0.0), ([0], (0, 1), 1.0)], topology)
    other_way_round.check()
    assert (there.makespan_us, other_way_round.makespan_us) == (2.0, 3.0)
    assert findings(planned("broadcast", [([0], (0, 2), 0.0), ([0], (0, 1), 0.5)], topology))


def many_at_once(
    count: int, alpha_us: float, beta_us_per_mb: float, chunk_mb: float, step_us: float
) -> Schedule:
    """Rank 0's chunks over its one link, each by itself, one every `step_us`."""
    topology = machine(2, [(0, 1)], alpha_us=np.array([alpha_us]), beta_us_per_mb=np.array([beta_us_per_mb]))
    problem = Problem(topology, make_collective("broadcast", 2, count), chunk_mb=chunk_mb)
    return schedule_from_sends(problem, [Send((chunk,), 0, chunk * step_us) for chunk in range(count)])


@pytest.mark.parametrize(
    ("count", "alpha_us", "beta_us_per_mb", "chunk_mb", "takes_us"),
    [
        (2000, 0.0, 1.048576, 2.0**-20, 1e-6),  # one byte at 1 TB/s
        (500, 0.0, 9e-7, 1.0, 9e-7),
        (800, 1e-9, 0.0, 1.0, 1e-9),
        (3, 0.0, 1e-9, 1e-3, 1e-12),
    ],
)
def test_no_send_is_too_short_to_take_its_turn(
    count: int, alpha_us: float, beta_us_per_mb: float, chunk_mb: float, takes_us: float
) -> None:
    sends = (count, alpha_us, beta_us_per_mb, chunk_mb)
    many_at_once(*sends, takes_us).check()
    assert findings(many_at_once(*sends, 0.0)) != ()
    assert findings(many_at_once(*sends, 0.999 * takes_us)) != ()


def test_however_fast_the_links_a_chunk_does_not_leave_before_it_came() -> None:
    """Three hops of a billionth of a microsecond each, all at once."""
    fast = machine(4, [(0, 1), (1, 2), (2, 3)], alpha_us=np.zeros(3), beta_us_per_mb=np.full(3, 1e-9))
    hops = [(0, 1), (1, 2), (2, 3)]
    planned("broadcast", [([0], ends, i * 1e-9) for i, ends in enumerate(hops)], fast).check()
    assert findings(planned("broadcast", [([0], ends, 0.0) for ends in hops], fast))[0] == (
        "row 1 (chunk 0, 1 -> 2, 0.000 us): its sender does not hold it yet (does from 0.000 us on)"
    )
    slow = edited(
        planned("broadcast", [([0], ends, i * 1e-9) for i, ends in enumerate(hops)], fast), [0], end_us=0.0
    )
    assert "takes 0.000000 us" in findings(slow)[0]


def test_overlaps_that_are_small_beside_each_send_do_not_add_up() -> None:
    """A million sends of 1 us, each 1e-6 us early, would save a whole one."""
    many_at_once(1000, 0.0, 1.0, 1.0, 1.0).check()
    assert findings(many_at_once(1000, 0.0, 1.0, 1.0, 1.0 - 1e-6)) != ()
    assert findings(many_at_once(1000, 0.0, 1.0, 1.0, 1.0 - 1e-8)) != ()


def test_late_sends_are_forgiven_the_rounding_of_the_clock() -> None:
    """At 1e6 us the clock has steps of 1e-10 us: sums of costs in another order differ by some of them."""
    schedule = many_at_once(50, 0.1, 0.3, 1.0, 0.4)
    late = replace(schedule, start_us=schedule.start_us + 1e6, end_us=schedule.start_us + 1e6 + 0.4)
    late.check()


def test_what_takes_no_time_is_in_nobodys_way() -> None:
    topology = machine(
        3, [(0, 1), (0, 2)], alpha_us=np.array([9.0, 0.0]), beta_us_per_mb=np.array([0.0, 0.0]),
        ports=((0,), (0,)), port_names=("out of 0",),
    )  # fmt: skip
    planned("broadcast", [([0], (0, 1), 0.0), ([0], (0, 2), 4.0)], topology).check()


# -- limits --------------------------------------------------------------------------------------


def test_a_chunk_keeps_off_the_links_that_its_home_may_not_use() -> None:
    may_use = np.ones((3, len(LINKS)), dtype=np.bool_)
    may_use[1:] = False
    chain(limits=RoutingLimits(may_use)).check()
    may_use[0, 1] = False
    assert findings(chain(limits=RoutingLimits(may_use))) == (
        "row 2 (chunk 0, 1 -> 2, 5.000 us): rank 0's chunks may not use this link",
    )


# -- copies --------------------------------------------------------------------------------------


def test_a_sender_holds_what_it_sends() -> None:
    assert findings(edited(chain(), [2, 3], start_us=4.0, end_us=9.0)) == (
        "row 2 (chunk 0, 1 -> 2, 4.000 us): its sender does not hold it yet (does from 5.000 us on)",
    )


def gathered(*more: tuple, **costs) -> Schedule:
    """Chunks 1 and 2 to rank 0, where they are wanted, and what else is sent."""
    return planned("gather", [([1], (1, 0), 0.0), ([2], (2, 0), 0.0), *more], machine(3, LINKS, **costs))


def test_a_sender_that_never_gets_a_chunk_cannot_send_it() -> None:
    gathered().check()
    assert findings(gathered(([0], (1, 2), 0.0))) == (
        "row 0 (chunk 0, 1 -> 2, 0.000 us): its sender does not hold it yet (never does)",
    )


def test_a_receiver_gets_a_chunk_once() -> None:
    broadcast = [([0], (0, 1), 0.0), ([0], (1, 2), 3.0)]
    assert findings(planned("broadcast", [*broadcast, ([0], (0, 2), 3.0)])) == (
        "row 2 (chunk 0, 0 -> 2, 3.000 us): its receiver gets it twice",
    )


def test_no_chunk_is_sent_to_where_it_starts() -> None:
    broadcast = [([0], (0, 1), 0.0), ([0], (1, 2), 3.0)]
    assert findings(planned("broadcast", [*broadcast, ([0], (2, 0), 6.0)])) == (
        "row 2 (chunk 0, 2 -> 0, 6.000 us): its receiver has it already",
    )


def test_no_sum_is_sent_back_to_where_it_was_made() -> None:
    assert findings(sum_chain(([0], (0, 1), 6.0), ([0], (1, 0), 9.0))) == (
        "row 3 (chunk 0, 1 -> 0, 9.000 us): its receiver has it already",
    )


def test_no_copy_goes_round_in_a_circle_even_where_links_are_free() -> None:
    circle = [([0], (1, 2), 0.0), ([0], (2, 1), 0.0)]
    assert findings(gathered(*circle, alpha_us=ZERO, beta_us_per_mb=ZERO)) == (
        "row 0 (chunk 0, 1 -> 2, 0.000 us): goes round in a circle of copies",
    )


def test_every_demand_is_met() -> None:
    assert findings(chain().take(np.array([0, 1]))) == (
        "rank 2 never gets chunk 0 (piece 0 of rank 0's part) (2 demands are not met)",
    )


def test_an_empty_schedule_meets_no_demand() -> None:
    found = findings(chain().take(np.array([], dtype=np.int64)))
    assert found == ("rank 1 never gets chunk 0 (piece 0 of rank 0's part) (4 demands are not met)",)


# -- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "change", "finding"),
    [
        ([2], {"chunk": 2}, "row 2: chunk 2 is outside 0 .. 1"),
        ([1], {"chunk": -1}, "row 1: chunk -1 is outside 0 .. 1"),
        ([3], {"link": 6}, "row 3: link 6 is outside 0 .. 5"),
        ([0], {"start_us": np.nan}, "row 0: a time is not finite"),
        ([0], {"end_us": np.inf}, "row 0: a time is not finite"),
        ([0, 1], {"start_us": -1.0, "end_us": 4.0}, "row 0: starts before 0, at -1.0 us"),
    ],
)
def test_a_value_out_of_range_is_named_before_anything_else(rows: list, change: dict, finding: str) -> None:
    assert findings(edited(chain(), rows, **change)) == (finding,)


def test_columns_have_one_length() -> None:
    schedule = chain()
    assert findings(replace(schedule, group=schedule.group[1:])) == ("the columns differ in length",)


@pytest.mark.parametrize(
    ("name", "kind", "finding"),
    [
        ("reduce", np.int64, "column reduce must be booleans, not int64"),
        ("chunk", np.float64, "column chunk must be integers, not float64"),
        ("link", np.uint64, "column link must be integers, not uint64"),
    ],
)
def test_columns_have_the_type_that_the_rules_reckon_with(name: str, kind: type, finding: str) -> None:
    schedule = chain()
    assert findings(replace(schedule, **{name: getattr(schedule, name).astype(kind)})) == (finding,)


def test_columns_of_small_integers_are_reckoned_with_in_full() -> None:
    topology = machine(3, [(0, 1), (1, 2)])
    schedule = planned(
        make_collective("broadcast", 3, 100), [(range(50), (0, 1), 0.0), (range(50, 100), (0, 1), 101.0),
        (range(50), (1, 2), 101.0), (range(50, 100), (1, 2), 202.0)], topology,
    )  # fmt: skip
    replace(schedule, chunk=schedule.chunk.astype(np.int8)).check()


def test_topology_and_collective_have_the_same_ranks() -> None:
    schedule = chain()
    wider = replace(schedule.problem, collective=make_collective("broadcast", 4, 2))
    assert findings(replace(schedule, problem=wider)) == ("the collective has 4 ranks, the topology 3",)


def test_several_broken_rules_are_all_named() -> None:
    found = findings(edited(chain(), [2, 3], start_us=4.0, end_us=8.0))
    assert ["takes 4.0" in f or "does not hold" in f for f in found] == [True, True]


def test_checks_look_only_at_cells_that_matter() -> None:
    collective = make_collective("broadcast", 3, 2)
    schedule = planned(collective, [([0, 1], (0, 1), 0.0), ([0, 1], (1, 2), 5.0)])
    schedule.check()
    assert not {"pre", "post"} & vars(collective).keys()  # dense, and made when first requested


# -- sizes, ready times, tails and helpers -------------------------------------------------------


def test_a_group_takes_as_long_as_its_chunks_are_large() -> None:
    chain(sizes=[1.0, 1.0]).check()
    uneven = chain(sizes=[0.5, 1.0])
    assert uneven.end_us[0] == 4.0  # 1 us, and 2 us for each of 1.5 MB
    uneven.check()
    assert findings(edited(uneven, [0, 1], end_us=5.0))[0].endswith(
        "5.000000 us, the link's cost is 4.000000 us"
    )


def test_nothing_leaves_before_it_is_ready() -> None:
    late = chain(ready_us=[0.0, 2.0])
    assert "its sender does not hold it yet (does from 2.000 us on)" in findings(late)[0]
    replace(late, start_us=late.start_us + 2.0, end_us=late.end_us + 2.0).check()


def test_a_schedule_ends_when_what_follows_has_ended() -> None:
    assert chain(tail_us=[0.0, 0.0, 0.0, 3.0, 0.0, 0.0]).makespan_us == 10.0
    tails = dict(zip(((0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)), range(6), strict=True))
    outputs = chain().problem.collective.outputs
    cells = zip(outputs.chunk.tolist(), outputs.rank.tolist(), strict=True)
    assert chain(tail_us=[float(tails[cell]) for cell in cells]).makespan_us == 15.0
    assert planned(sum_of([1], wanted=[1]), [], ready_us=[4.0], tail_us=[3.0]).makespan_us == 7.0


def test_a_rank_that_may_not_copy_keeps_a_chunk_or_passes_it_on() -> None:
    unable = machine(3, LINKS, may_copy=np.array([True, False, True]))
    broken = planned("broadcast", [([0], (0, 1), 0.0), ([0], (1, 2), 3.0)], unable)
    assert findings(broken) == ("rank 1 makes 2 of chunk 0 (piece 0 of rank 0's part), and may not copy",)
    planned(
        "scatter", [([1], (0, 2), 0.0), ([1], (2, 1), 3.0), ([2], (0, 1), 0.0), ([2], (1, 2), 3.0)], unable
    ).check()
