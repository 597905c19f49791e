"""What every engine keeps to, and what each finds on machines whose optimum is known."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

import numpy as np
import pytest
from brute_force import fastest
from hypothesis import HealthCheck, given, settings
from ortools.sat.python import cp_model
from registered import OnProblem, combining, cp, greedy, milp, reducing
from small_problems import ENGINE_BETAS, custom, full, machine, ndv2_node, problem, problems, ring, two_nodes
from solving import solved

from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ticks import ticks_of
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import usual_cuts
from taccl.encoding.instance import Instance
from taccl.encoding.sending_model.candidates import near_candidates
from taccl.encoding.sending_model.joint import build
from taccl.encoding.symmetry.group import symmetry_group
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

ENGINES = {"greedy": greedy, "combining": combining, "milp": milp, "cp": cp}
every_engine = pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)

_COPIES = ("allgather", "alltoall", "broadcast", "gather", "scatter")


def found(engine: OnProblem, problem: Problem, units: int, most: int = 20) -> list[Schedule]:
    """The schedules of the first updates within so much work, each checked."""
    updates = engine(problem, SearchOptions(), Budget.of_work(units), None)
    schedules = [update.schedule for update in islice(updates, most) if update.schedule is not None]
    for schedule in schedules:
        schedule.check()
    return schedules


def turned(problem: Problem, schedule: Schedule) -> Iterator[set[tuple[int, int, float]]]:
    """The images of a schedule's rows (chunk, link, start) under the symmetries of the problem."""
    group = symmetry_group(problem)
    for chunks, links in zip(group.chunk_map, group.link_map, strict=True):
        images = (chunks[schedule.chunk], links[schedule.link], schedule.start_us.round(6))
        yield set(zip(*(image.tolist() for image in images), strict=True))


@every_engine
@pytest.mark.parametrize(
    "small",
    [
        problem(ring(4), "allgather", 2),
        problem(two_nodes(), "allgather"),
        problem(two_nodes(occupancy="pipelined"), "alltoall"),
        problem(full(3), "broadcast", 4),
        problem(
            machine(3, [(0, 1, 1.0, 2.0), (1, 2, 1.0, 1.0), (0, 2, 1.0, 9.0)], shared=[(0, 2)]), "scatter"
        ),
    ],
    ids=["ring", "nodes", "pipelined", "full", "shared port"],
)
def test_every_schedule_is_valid_and_each_is_faster_than_the_one_before(
    engine: OnProblem, small: Problem
) -> None:
    times = [schedule.makespan_us for schedule in found(engine, small, 100)]
    assert times
    assert all(later < earlier for earlier, later in pairwise(times))
    assert lower_bound(small).value_us <= times[-1] + 1e-6


@every_engine
def test_a_first_schedule_is_there_even_without_any_time(engine: OnProblem) -> None:
    assert found(engine, problem(two_nodes(), "alltoall", 2), 0)


@every_engine
def test_an_engine_only_speaks_of_what_is_faster_than_the_incumbent(engine: OnProblem) -> None:
    gather = problem(ring(4), "allgather")
    best = fastest(gather).schedule()
    assert best.makespan_us == 6.0
    updates = engine(gather, SearchOptions(), Budget.of_work(100), best)
    assert not any(update.schedule is not None for update in updates)


@every_engine
def test_a_schedule_has_the_symmetry_of_its_problem(engine: OnProblem) -> None:
    for symmetric in (
        problem(ring(4, both=True), "allgather", 2, symmetry=[[1, 2, 3, 0]]),
        problem(full(4), "alltoall", symmetry=[[1, 2, 3, 0]]),
        problem(two_nodes(), "allgather", symmetry=[[2, 3, 0, 1]]),
    ):
        for schedule in found(engine, symmetric, 60):
            images = list(turned(symmetric, schedule))
            assert all(image == images[0] for image in images)


@every_engine
@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce"])
def test_what_a_symmetry_moves_may_share_a_port(engine: OnProblem, name: str) -> None:
    """Ranks 0 and 1 are an orbit and take turns at the NIC of their node, as do 2 and 3."""
    inside = [(a, b, 1.0, 1.0) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    across = [(a, b, 2.0, 10.0) for a, b in ((0, 2), (1, 3), (2, 0), (3, 1))]
    topology = machine(4, inside + across, shared=[(4, 5), (6, 7)], node_of=[0, 0, 1, 1])
    assert found(reducing(engine), problem(topology, name, 2, symmetry=[[1, 0, 3, 2]]), 60)


@every_engine
@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce"])
def test_a_symmetry_may_leave_a_rank_where_it_is(engine: OnProblem, name: str) -> None:
    """Four leaves round rank 4: all that the hub sends to a leaf could be swapped by a reflection."""
    spokes = [(a, 4, 5.0, 1.0) for a in range(4)] + [(4, b, 5.0, 1.0) for b in range(4)]
    symmetry = [[1, 2, 3, 0, 4], [1, 0, 3, 2, 4]]
    assert found(reducing(engine), problem(machine(5, spokes), name, 2, symmetry=symmetry), 60)


@every_engine
def test_chunks_keep_to_the_links_that_they_may_use(engine: OnProblem) -> None:
    """Rank 0's chunks are kept off the fast link 0 -> 1, rank 1's off 1 -> 2."""
    topology = full(3)
    may_use = np.ones((3, 6), dtype=np.bool_)
    may_use[0, topology.link_index[0, 1]] = may_use[1, topology.link_index[1, 2]] = False
    kept = problem(topology, "allgather", limits=RoutingLimits(may_use=may_use))
    for schedule in found(engine, kept, 60):
        assert may_use[kept.collective.owner[schedule.chunk], schedule.link].all()
        assert schedule.makespan_us >= 4.0, "someone has to go round"


@every_engine
@pytest.mark.parametrize("summed", [False, True], ids=["copied", "summed"])
def test_the_only_way_left_may_lead_away_from_where_a_chunk_is_wanted(
    engine: OnProblem, summed: bool
) -> None:
    """0 -> 1 takes 2 us, but rank 0's chunk has to go by 2, which is 10 us from 1, and wants nothing."""
    links = [(0, 1, 1.0, 1.0), (0, 2, 1.0, 1.0), (2, 1, 5.0, 5.0), (0, 3, 1.0, 1.0)]
    may_use = np.ones((4, 4), dtype=np.bool_)
    may_use[0, 0] = False
    kept = Problem(machine(4, links), custom(4, [((0,), (1, 3), False)]), 1.0, (), RoutingLimits(may_use))
    schedules = found(reducing(engine), kept.reversed() if summed else kept, 60)
    assert schedules[-1].makespan_us == pytest.approx(12.0)


@every_engine
def test_own_chunks_leave_first_where_the_sketch_says_so(engine: OnProblem) -> None:
    """Everything into node 1 passes 1 -> 2: rank 1's own pieces go before those of rank 0."""
    topology = two_nodes(beta_between=4.0)
    own_first = np.zeros(6, dtype=np.bool_)
    own_first[[4, 5]] = True
    for name in ("allgather", "alltoall"):
        ruled = problem(topology, name, 2, limits=RoutingLimits(own_first=own_first))
        for schedule in found(engine, ruled, 80):
            for link in (4, 5):
                on_link = schedule.link == link
                own = ruled.collective.owner[schedule.chunk] == topology.src[link]
                assert schedule.start_us[on_link & ~own].min() >= schedule.end_us[on_link & own].max() - 1e-6


@every_engine
def test_no_send_carries_more_chunks_than_the_limit(engine: OnProblem) -> None:
    dear = problem(ring(3, alpha_us=20.0), "allgather", 6, max_group=4)
    for schedule in found(engine, dear, 60):
        assert schedule.sends.count.max() <= 4


@every_engine
def test_where_nothing_has_to_move_the_schedule_is_empty(engine: OnProblem) -> None:
    (schedule,) = found(engine, problem(machine(1, []), "allgather"), 120)
    assert len(schedule) == 0


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems(names=_COPIES, limited=True, betas=ENGINE_BETAS))
def test_the_first_greedy_schedule_of_any_problem_is_valid(small: Problem) -> None:
    (schedule,) = found(greedy, small, 0)
    assert schedule.problem is small


def test_the_greedy_engine_finds_the_same_again_with_the_same_seed() -> None:
    gather = problem(ndv2_node(), "allgather", 2)

    def first_times(seed: int) -> list[float]:
        updates = greedy(gather, SearchOptions(seed=seed), Budget(60.0), None)
        return [_schedule(update).makespan_us for update in islice(updates, 2)]

    assert first_times(3) == first_times(3)


def _schedule(update: Update) -> Schedule:
    assert update.schedule is not None
    return update.schedule


def last(engine: OnProblem, problem: Problem, seconds: float, enough_us: float) -> Schedule:
    """What an engine has found when it is done, or has found what is enough."""
    best = None
    for update in engine(problem, SearchOptions(), Budget(seconds), None):
        best = update.schedule or best
        if best is not None and best.makespan_us <= enough_us + 1e-6:
            break
    assert best is not None
    best.check()
    return best


@pytest.mark.parametrize("engine", [cp, milp], ids=["cp", "milp"])
def test_the_fastest_allgather_round_a_ring_of_four_takes_three_steps(engine: OnProblem) -> None:
    gather = problem(ring(4), "allgather")
    assert fastest(gather).makespan_us == pytest.approx(6.0)
    assert last(engine, gather, 5.0, 6.0).makespan_us == pytest.approx(6.0)
    assert lower_bound(gather).value_us == pytest.approx(6.0)


@pytest.mark.parametrize("engine", [greedy, milp], ids=["greedy", "milp"])
def test_chunks_share_sends_where_alpha_is_dear(engine: OnProblem) -> None:
    """8 pieces round a ring of 3: in one send each step, 2 (50 + 8) us."""
    dear = problem(ring(3, alpha_us=50.0), "allgather", 8)
    assert last(engine, dear, 20.0, 116.0).makespan_us == pytest.approx(116.0)


def test_cp_finds_the_fastest_allgather_of_an_ndv2_node() -> None:
    """Three alphas and 69 us; the bound is the shortest way to the farthest rank, 0.3 us below."""
    node = problem(ndv2_node(), "allgather")
    assert last(cp, node, 20.0, 69.9).makespan_us == pytest.approx(69.9)
    assert lower_bound(node).value_us == pytest.approx(69.6)


_KNOWN = [
    problem(two_nodes(), "allgather"),
    problem(two_nodes(occupancy="pipelined"), "allgather"),
    problem(two_nodes(), "gather"),
    problem(two_nodes(beta_between=0.5), "scatter"),
    problem(full(3), "broadcast", 2),
    problem(ring(3, alpha_us=5.0), "allgather", 2),
]


def test_cp_leaves_out_a_link_that_takes_longer_than_all_of_the_known_schedule() -> None:
    """0 -> 2 takes 10 us at once and 6 us by way of 1: a way that slack 2 allows, and none to take."""
    triangle = machine(3, [(0, 2, 0.0, 10.0), (0, 1, 0.0, 3.0), (1, 2, 0.0, 3.0)])
    pieces = Problem(triangle, custom(3, [((0,), (2,), False)]), 1.0)
    (known,) = found(greedy, pieces, 0)
    ticks = ticks_of(pieces, known.makespan_us)
    last = ticks.at_most(known.makespan_us)
    candidates = near_candidates(Instance(pieces), ticks, last, 2.0)
    assert candidates.allowed.sum() == 2
    model = build(pieces, ticks, (0, last), symmetry_group(pieces), candidates, 2)
    assert solved(model.cp)[1] == cp_model.OPTIMAL


@pytest.mark.parametrize("number", range(len(_KNOWN)))
def test_cp_finds_what_an_exhaustive_search_finds(number: int) -> None:
    known = _KNOWN[number]
    optimum = fastest(known).makespan_us
    assert last(cp, known, 10.0, optimum).makespan_us == pytest.approx(optimum)


@pytest.mark.parametrize("name", ["reducescatter", "allreduce", "reduce"])
def test_engines_of_copies_make_sums_by_being_wrapped(name: str) -> None:
    for engine in ENGINES.values():
        times = [
            schedule.makespan_us for schedule in found(reducing(engine), problem(two_nodes(), name), 120)
        ]
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == len(times) > 0


@pytest.mark.parametrize(
    ("name", "ranks", "finer"),
    [("broadcast", 16, ()), ("broadcast", 17, (64,)), ("broadcast", 65, (64, 256)), ("allgather", 17, ())],
)
def test_what_is_dealt_to_all_ranks_is_cut_into_as_many_chunks(
    name: str, ranks: int, finer: tuple[int, ...]
) -> None:
    assert usual_cuts(Instance(problem(ring(ranks), name))) == (1, 2, 4, 8, 16, *finer)
