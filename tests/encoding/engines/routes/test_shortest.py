"""Routes that know every feature: each chunk along shortest paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from small_problems import featured_problems, machine, problem, ring
from studies import examples

from taccl.backend.lower import lower
from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import Decision, decisions_of, in_order
from taccl.encoding.engines.routes import serves
from taccl.encoding.engines.routes.orders import Open
from taccl.encoding.engines.routes.shortest import Trees, along_shortest_paths
from taccl.encoding.instance import Instance
from taccl.errors import CollectiveError, SolverError
from taccl.model.collective import Placement
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import FEATURES, Problem, RoutingLimits
from taccl.model.schedule import Schedule, schedule_from_json, schedule_to_json
from taccl.model.schedule.derivation import sets_of_rows
from taccl.model.schedule.partial_sums import contributors
from taccl.support.budget import Budget
from taccl.synthesis.search import search


def found(problem: Problem) -> Schedule | None:
    routes = along_shortest_paths(problem)
    return None if routes is None else Open(problem, routes).pipeline(0.0, 0.0, 1).schedule()


def star(members: int, **can: np.ndarray) -> LogicalTopology:
    """Ranks around a hub, which is the last rank and a helper; every link takes 1 + 2 us for a chunk."""
    links = [(a, members, 1.0, 2.0) for a in range(members)]
    links += [(members, a, 1.0, 2.0) for a in range(members)]
    topology = machine(members + 1, links)
    return replace(topology, is_helper=np.arange(members + 1) == members, **can)


def around(members: int, name: str, **can: np.ndarray) -> Problem:
    return Problem(star(members, **can), make_collective(name, members).with_helpers(1), 1.0)


def all_but_the_hub(members: int) -> np.ndarray:
    return np.arange(members + 1) < members


def test_without_time_there_are_no_routes_but_where_they_are_waited_for() -> None:
    assert along_shortest_paths(around(4, "reduce"), Budget(0.0)) is None
    assert along_shortest_paths(around(4, "reduce")) is not None


def test_a_hub_that_sums_and_copies_makes_the_sum() -> None:
    """Four contributions come at once, and four copies leave at once: each link is used once each way."""
    schedule = found(around(4, "reduce"))
    schedule.check()
    assert schedule.makespan_us == 6.0
    summed = found(around(4, "allreduce"))
    summed.check()
    assert (
        summed.makespan_us == 15.0
    )  # four sums go in over each link, one after another, and the last goes out


def test_a_hub_that_may_not_sum_passes_on_what_comes() -> None:
    requested = around(3, "reduce", may_sum=all_but_the_hub(3))
    assert (
        found(requested) is None
    )  # the only way of each contribution is through the hub, which has one part
    requested = Problem(requested.topology, make_collective("gather", 3).with_helpers(1), 1.0)
    found(requested).check()


def test_a_hub_that_may_not_copy_carries_a_chunk_to_one() -> None:
    requested = around(3, "broadcast", may_copy=all_but_the_hub(3))
    assert found(requested) is None
    found(Problem(requested.topology, make_collective("alltoall", 3).with_helpers(1), 1.0)).check()


def test_a_rank_that_may_not_copy_is_the_end_of_a_way() -> None:
    """On a line both directions round, rank 1 keeps the chunk, so rank 2 gets it from the other side."""
    topology = replace(ring(4, alpha_us=1.0, beta=2.0), may_copy=np.array([True, False, True, True]))
    assert found(problem(topology, "broadcast")) is None
    both = machine(4, [(a, (a + d) % 4, 1.0, 2.0) for a in range(4) for d in (1, 3)])
    both = replace(both, may_copy=np.array([True, False, True, True]))
    schedule = found(problem(both, "broadcast"))
    schedule.check()
    assert 1 not in schedule.src


def test_late_contributions_decide_where_the_sum_is_made() -> None:
    """Rank 2's contribution is there at 20: no sum is made at rank 0, from where it would have to go back."""
    line = machine(3, [(a, b, 1.0, 2.0) for a, b in ((0, 1), (1, 0), (1, 2), (2, 1))])
    late = replace(problem(line, "allreduce"), ready_us=np.tile([0.0, 0.0, 20.0], (3, 1)).T.ravel())
    schedule = found(late)
    schedule.check()
    assert not (schedule.reduce & (schedule.dst == 0)).any()
    assert Instance(late).earliest_us.max() == 26.0


def test_a_transfer_starts_when_its_input_is_ready_and_the_tail_is_added() -> None:
    scatter = problem(machine(2, [(0, 1, 1.0, 2.0)]), "scatter")
    requested = replace(scatter, ready_us=[0.0, 7.0], tail_us=[12.0, 1.5], sizes=[1.0, 3.0])
    schedule = found(requested)
    schedule.check()
    assert schedule.start_us.tolist() == [7.0]
    assert schedule.end_us.tolist() == [14.0]
    assert schedule.makespan_us == 15.5
    assert Instance(requested).earliest_us.tolist() == [12.0, 15.5]
    proof = lower_bound(requested)
    assert (proof.value_us, proof.kind) == (15.5, "latency")
    assert proof.witness == "chunk 1 (piece 0 of rank 0's part) at rank 1"


def test_links_that_are_ruled_out_are_not_used() -> None:
    both = machine(3, [(0, 1, 1.0, 2.0), (1, 2, 1.0, 2.0), (0, 2, 9.0, 9.0)])
    may_use = np.ones((3, 3), dtype=np.bool_)
    may_use[0, 1] = False
    schedule = found(problem(both, "broadcast", limits=RoutingLimits(may_use)))
    schedule.check()
    assert sorted(schedule.link.tolist()) == [0, 2]


def test_it_declines_what_it_could_not_order_in_time() -> None:
    topology = replace(ring(3), may_copy=np.array([True, True, False]))
    many = Instance(problem(topology, "broadcast", 2**19))
    assert "more contributions and outputs" in serves(many).reason
    assert serves(Instance(problem(topology, "broadcast")))


def test_auto_asks_this_engine_where_no_other_knows_the_problem() -> None:
    requested = around(4, "allreduce")
    done = search(requested, SearchOptions(effort=100))
    assert done.schedule.makespan_us == 15.0
    assert 0 < done.lower_bound_us <= 15.0
    with pytest.raises(SolverError, match="the engine greedy does not serve this problem: it knows no help"):
        search(requested, SearchOptions(effort=100, engine="greedy"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sizes": [1.0, 2.0]}, "knows no sizes: its chunks are all of one size"),
        (
            {"ready_us": [0.0, 1.0]},
            "knows no ready times: it takes all inputs to be there when the call begins",
        ),
    ],
)
def test_a_file_of_msccl_xml_refuses_what_it_cannot_carry_out(change: dict, words: str) -> None:
    plain = problem(ring(2), "allgather")
    lower(found(replace(plain, tail_us=[0.0, 1.0, 2.0, 3.0])))
    with pytest.raises(CollectiveError) as refused:
        lower(found(replace(plain, **change)))
    assert words in str(refused.value)


def test_a_file_of_msccl_xml_refuses_helpers() -> None:
    with pytest.raises(CollectiveError, match="knows no helpers: its ranks all hold data, sum and copy"):
        lower(found(around(3, "allgather")))


#: Work on finished sums, us.
WORKS = (0.0, 1.0, 3.0)


@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(featured_problems(works=WORKS))
def test_what_it_finds_is_valid_and_no_earlier_than_can_be(requested: Problem) -> None:
    schedule = found(requested)
    if schedule is None:
        assert "helpers" in requested.features
        return
    schedule.check()
    assert schedule.makespan_us >= Instance(requested).earliest_us.max() * (1 - 1e-12)
    assert schedule_from_json(schedule_to_json(schedule)).schedule.makespan_us == schedule.makespan_us


def test_the_problems_above_use_every_feature() -> None:
    used: set[str] = set()

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(featured_problems(works=WORKS))
    def collect(requested: Problem) -> None:
        used.update(requested.features)

    collect()
    assert used == FEATURES


@pytest.mark.parametrize("name", ["allgather", "reducescatter", "allreduce", "alltoall"])
def test_among_members_alone_it_is_an_engine_like_others(name: str) -> None:
    schedule = found(problem(ring(4), name))
    schedule.check()


@settings(max_examples=examples(33), deadline=None, suppress_health_check=list(HealthCheck))
@given(featured_problems())
def test_the_decisions_of_a_schedule_taken_again_end_no_later(requested: Problem) -> None:
    """With late inputs and tails, too; also if its sums name what they carry."""
    schedule = found(requested)
    assume(schedule is not None)
    assert schedule is not None
    decisions = decisions_of(schedule)
    again = in_order(requested, decisions)
    again.check()
    assert again.makespan_us <= schedule.makespan_us * (1 + 1e-12)
    whole = contributors(requested.collective)
    rows = zip(schedule.chunk.tolist(), schedule.link.tolist(), schedule.reduce.tolist(), strict=True)
    carried = dict(zip(rows, sets_of_rows(schedule, whole), strict=True))
    named = [
        Decision(
            each.chunks, each.link, sums=(carried[each.chunks[0], each.link, True] if each.reduce else 0,)
        )
        for each in decisions
    ]
    if requested.topology.may_copy is None and any(each.reduce for each in decisions):
        explicit = in_order(requested, named)
        explicit.check()
        assert explicit.makespan_us <= schedule.makespan_us * (1 + 1e-12)


@pytest.mark.filterwarnings("error")
def test_a_sum_of_one_contribution_that_stays_is_made_where_it_is() -> None:
    """The way in and out takes no time there, and 40 us anywhere else."""
    here = Placement(*np.zeros((3, 1), dtype=np.int64))
    alone = replace(make_collective("reduce", 2), inputs=here, outputs=here)
    links = [(0, 1, 20.0, 1.0), (1, 0, 20.0, 1.0)]
    assert Trees(Problem(machine(2, links), alone, 1.0)).roots(0)[0] == 0
