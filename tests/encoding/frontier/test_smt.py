from fractions import Fraction

import numpy as np
import pytest
import z3
from small_problems import custom, full, machine, ndv2_node, problem, ring

from taccl.encoding.frontier import (
    ModelVerdict,
    Point,
    Undecided,
    decide,
    fewest_steps,
    round_bound,
    round_network,
    walk,
)
from taccl.encoding.frontier.model import StepsModel
from taccl.encoding.frontier.points import copies_of
from taccl.encoding.instance import Instance
from taccl.errors import CollectiveError, SolverError, TopologyError
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget


def frontier(topology: LogicalTopology, name: str, more_steps: int = 1, chunks: int = 2) -> list[Point]:
    least = fewest_steps(copies_of(Instance(problem(topology, name))))
    budget = Budget.of_work(60_000)
    news = list(
        walk(lambda pieces: Instance(problem(topology, name, pieces)), least + more_steps, chunks, budget)
    )
    assert not any(isinstance(each, Undecided) for each in news)
    return [each for each in news if isinstance(each, Point)]


def figures(points: list[Point]) -> list[tuple[int, int, int]]:
    return [(point.steps, point.rounds, point.chunks) for point in points]


def answer(topology: LogicalTopology, name: str, steps: int, rounds: int, chunks: int = 1) -> str:
    stated = problem(topology, name, chunks)
    verdict = decide(Instance(stated), steps, rounds, Budget.of_work(60_000))
    return "sat" if verdict.decisions is not None else "unsat" if verdict.impossible else "unknown"


def test_a_round_is_one_chunk_on_the_slowest_link_and_more_on_the_others() -> None:
    topology = machine(2, [(0, 1, 1.0, 46.0), (1, 0, 1.0, 23.0)])
    network = round_network(topology)
    assert (network.rate.tolist(), network.units, network.weight.tolist()) == ([1, 2], 2, [2, 1])


def test_three_to_two_is_a_ratio_of_small_whole_numbers() -> None:
    assert round_network(machine(2, [(0, 1, 1.0, 3.0), (1, 0, 1.0, 2.0)])).rate.tolist() == [2, 3]


def test_measured_bandwidths_may_be_off_by_a_few_percent() -> None:
    assert round_network(machine(2, [(0, 1, 1.0, 46.3), (1, 0, 1.0, 23.9)])).rate.tolist() == [1, 2]


@pytest.mark.parametrize("beta", [0.0, 1 / 100.0, 1 / 1.13])
def test_other_bandwidths_are_refused(beta: float) -> None:
    with pytest.raises(TopologyError) as caught:
        round_network(machine(2, [(0, 1, 1.0, 1.0), (1, 0, 1.0, beta)]))
    assert caught.value.hint


def test_the_narrowest_cut_bounds_the_rounds_per_chunk() -> None:
    stated = problem(ndv2_node(), "allgather", 3)
    bound = round_bound(Instance(stated))
    assert bound.rounds_per_chunk == Fraction(7, 6)
    assert [bound.least_rounds(chunks) for chunks in (1, 2, 6)] == [2, 3, 7]
    assert bound.witness == "21 chunks into rank 0, 6 in a round"


def test_a_port_that_is_faster_than_its_links_lets_more_chunks_through_in_a_round() -> None:
    """Ranks 0 and 1 send to 2 and 3 through one port that is as fast as both, or twice as slow as that."""
    links = [(0, 2, 1.0, 4.0), (1, 3, 1.0, 4.0), (2, 0, 1.0, 4.0), (3, 1, 1.0, 4.0)]
    moved = custom(4, [([0], [2], False), ([1], [3], False)])
    for rate, rounds in ((0.5, 1), (1.0, 2)):
        topology = machine(4, links, shared=[(0, 1)], rates=[rate])
        network = round_network(topology)
        port = topology.incidence[1]
        per_round = network.rate[port == 4].tolist()
        assert per_round == [2 if rate == 0.5 else 1] * 2
        assert (network.rate * network.weight == network.units).all()
        stated = Problem(topology, moved, 1.0)
        verdicts = [decide(Instance(stated), 1, each, Budget.of_work(20_000)) for each in (1, 2)]
        assert [verdict.decisions is not None for verdict in verdicts] == [rounds == 1, True]


def test_links_that_share_a_port_count_once_in_a_cut() -> None:
    links = [(1, 0, 1.0, 1.0), (2, 0, 1.0, 1.0)]
    for shared, expected in (([], 1), ([[0, 1]], 2)):
        stated = problem(machine(3, links, shared=shared), "gather")
        assert round_bound(Instance(stated)).rounds_per_chunk == expected


def test_where_every_chunk_goes_far_the_load_of_all_links_is_a_bound() -> None:
    stated = problem(ring(4), "alltoall")
    bound = round_bound(Instance(stated))
    assert bound.rounds_per_chunk == 6  # each rank's chunks travel 1 + 2 + 3 links, and it has one link


@pytest.mark.parametrize(
    ("topology", "name", "steps", "rounds", "chunks"),
    [
        (ring(4, both=True), "allgather", 2, 2, 1),
        (ring(3), "allgather", 2, 2, 1),
        (full(3), "alltoall", 1, 1, 1),
        (ring(4, both=True), "broadcast", 2, 2, 1),
        (ring(4, both=True), "scatter", 2, 2, 1),
        (ring(4, both=True), "gather", 2, 2, 1),
        (ndv2_node(), "allgather", 2, 3, 2),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_satisfiable_at_the_optimum_and_not_below(
    topology: LogicalTopology, name: str, steps: int, rounds: int, chunks: int
) -> None:
    assert answer(topology, name, steps, rounds, chunks) == "sat"
    assert answer(topology, name, steps, rounds - 1, chunks) == "unsat"
    assert answer(topology, name, steps - 1, rounds, chunks) == "unsat"


def test_two_steps_cannot_reach_four_thirds_of_a_round_per_chunk_on_a_dgx1() -> None:
    assert answer(ndv2_node(), "allgather", 2, 4, 3) == "unsat"


def test_links_that_share_a_port_take_turns() -> None:
    links = [(0, 1, 1.0, 1.0), (0, 2, 1.0, 1.0)]
    apart, together = machine(3, links), machine(3, links, shared=[[0, 1]])
    assert answer(apart, "scatter", 1, 1) == "sat"
    assert answer(together, "scatter", 1, 1) == "unsat"
    assert answer(together, "scatter", 1, 2) == "sat"


def test_open_rounds_and_given_ones_agree() -> None:
    stated = problem(ring(4, both=True), "allgather", 2)
    for rounds, expected in ((2, z3.unsat), (3, z3.sat), (4, z3.sat)):
        assert StepsModel(Instance(stated), 2, rounds).solver.check() == expected
        routes = [(first, rounds - first) for first in range(1, rounds)]
        given = [StepsModel(Instance(stated), 2, rounds, way).solver.check() for way in routes]
        assert (z3.sat in given) == (expected == z3.sat)


def test_limits_on_routes_hold() -> None:
    topology = ring(3, both=True)
    one_way = np.tile((topology.src + 1) % 3 == topology.dst, (3, 1))
    stated = problem(topology, "allgather", limits=RoutingLimits(may_use=one_way))
    assert fewest_steps(Instance(stated)) == 2
    assert decide(Instance(stated), 1, 3, Budget.of_work(10_000)).impossible


def test_without_time_nothing_is_claimed() -> None:
    stated = problem(ring(4), "allgather")
    verdict = decide(Instance(stated), 3, 3, Budget(0.0))
    assert (verdict.decisions, verdict.impossible) == (None, False)


def test_an_instance_that_is_too_large_is_refused() -> None:
    stated = problem(full(16), "alltoall", 8)
    with pytest.raises(SolverError, match="too many"):
        decide(Instance(stated), 2, 40, Budget.of_work(1_000))


def test_the_walk_goes_from_few_steps_to_few_rounds_and_each_point_is_a_valid_schedule() -> None:
    points = frontier(ndv2_node(), "allgather", more_steps=0)
    assert figures(points) == [(2, 2, 1), (2, 3, 2)]
    assert all(point.is_minimal for point in points)
    for point in points:
        point.schedule.check()
        assert point.schedule.problem.collective.chunks_per_rank == point.chunks


@pytest.mark.parametrize("name", ["reducescatter", "reduce"])
def test_sums_are_the_mirror_image_of_copies(name: str) -> None:
    points = frontier(ring(4, both=True), name)
    mirror = {"reducescatter": "allgather", "reduce": "broadcast"}[name]
    assert figures(points) == figures(frontier(ring(4, both=True), mirror))
    for point in points:
        assert point.schedule.problem.collective.name == name
        point.schedule.check()


def test_more_steps_are_tried_only_while_rounds_can_still_be_saved() -> None:
    assert figures(frontier(ring(4), "allgather", more_steps=3)) == [(3, 3, 1)]


def test_a_question_without_an_answer_is_named_and_what_follows_is_not_called_minimal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(*question: object) -> ModelVerdict:
        return ModelVerdict() if question[2] == 2 else decide(*question)

    monkeypatch.setattr("taccl.encoding.frontier.points.decide", forgetful)
    topology = ring(4, both=True)
    news = list(
        walk(lambda pieces: Instance(problem(topology, "allgather", pieces)), 2, 1, Budget.of_work(60_000))
    )
    assert news[0] == Undecided(2, 2, 1)
    assert isinstance(news[1], Point)
    assert (news[1].rounds, news[1].is_minimal) == (3, False)


def test_an_allreduce_has_two_frontiers() -> None:
    with pytest.raises(CollectiveError, match="both sums and copies"):
        copies_of(Instance(problem(ring(4), "allreduce")))


def test_ctrl_c_inside_the_solver_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(z3.Solver, "check", lambda self: z3.unknown)
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda self: "interrupted from keyboard")
    with pytest.raises(KeyboardInterrupt):
        answer(ring(4), "allgather", 3, 3)
