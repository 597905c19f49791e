"""Staged cuts: groups that share a node, what comes last, one port into a node, the first of all ports."""

from __future__ import annotations

import random

import numpy as np
import pytest
from brute_force import TooLarge, fastest, program_before
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registered import greedy, reducing
from small_problems import custom, machine, ndv2_node, problem
from studies import examples

from taccl.api import make_problem
from taccl.encoding.bounds import Proof, all_bounds
from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.cut import CUT
from taccl.encoding.bounds.cuts import Crossings, members, narrow_cuts
from taccl.encoding.bounds.entering import Entering
from taccl.encoding.bounds.latency import LATENCY
from taccl.encoding.bounds.layer import Layer, held_at_start
from taccl.encoding.bounds.port_turns import Routes, StepTable, Turns
from taccl.encoding.bounds.staged_cut import STAGED_CUT, Look
from taccl.encoding.bounds.staged_one_group import has_one_port, one_group_us
from taccl.encoding.bounds.steps import OutOfBudget, TooManyRoutes, gathered
from taccl.encoding.bounds.views import views
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget


def _plenty() -> Budget:
    """More work than any proof here takes."""
    return Budget.of_work(1_000_000)


def best(stated: Problem, known_us: float) -> Proof:
    """The best that is proved of a problem in any of its views."""
    instance = Instance(stated)
    proofs = [proof for view in views(instance) for proof in STAGED_CUT.prove(view, known_us, _plenty())]
    return max(proofs, key=lambda proof: proof.value_us)


def best_us(stated: Problem, known_us: float) -> float:
    return best(stated, known_us).value_us


def behind_one_link(
    inside: int, alpha_inside: float, beta_inside: float, alpha_across: float = 4.0, beta_across: float = 1.0
) -> LogicalTopology:
    """Two nodes whose ranks have a port out and a port in each; only their first ranks are joined."""
    across = [(0, inside, alpha_across, beta_across), (inside, 0, alpha_across, beta_across)]
    return nodes_of(inside, inside, across, alpha_inside, beta_inside)


def nodes_of(
    outside: int, inside: int, across: list[tuple[int, int, float, float]], alpha: float, beta: float
) -> LogicalTopology:
    """Two nodes whose ranks have a port out and a port in each, joined by some links."""
    ranks, node_of = outside + inside, [0] * outside + [1] * inside
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and node_of[a] == node_of[b]]
    shared = [[i for i, pair in enumerate(pairs) if pair[end] == r] for end in (0, 1) for r in range(ranks)]
    links = [*((a, b, alpha, beta) for a, b in pairs), *across]
    return machine(ranks, links, shared=[each for each in shared if each], node_of=node_of)


def test_a_count_is_first_reached_with_the_step_that_passes_it() -> None:
    steps = Steps([0.0, 2.0, 5.0], [1, 3, 4])
    assert [steps.at(moment) for moment in (-1.0, 0.0, 1.9, 2.0, 9.0)] == [0, 1, 1, 3, 4]
    assert [steps.first(count) for count in (1, 2, 3, 4, 5)] == [0.0, 2.0, 2.0, 5.0, None]


def test_turns_end_when_groups_that_leave_in_time_are_worth_enough() -> None:
    """One chunk takes 3 us, two take 5 and are there to be sent from 1 us on, and each serves one at once."""
    one, two = (Turns([routes(early_us=0.0)] * ports, 40.0, _plenty()) for ports in (1, 2))
    assert [one.least_end_us(need, 0.5) for need in (1, 2, 3, 4)] == pytest.approx([3.0, 6.0, 8.0, 11.0])
    assert two.least_end_us(4, 0.5) == pytest.approx(6.0)
    assert (one.worth(6.0), one.allow(2, 6.0), one.allow(3, 6.0)) == (2, True, False)
    assert one.least_end_us(2, 7.0) == 0.0, "no better than what is known"
    near = Turns([routes(early_us=0.0)], 10.0, _plenty())
    assert near.least_end_us(9, 1.0) == 10.0, "it looks no further"


def test_where_ports_are_busy_at_the_ends_of_sends_others_may_be_under_way_until_then() -> None:
    """Each keeps the port busy for all but its first microsecond."""
    turns = Turns([routes(early_us=1.0)], 40.0, _plenty())
    assert [turns.least_end_us(need, 0.5) for need in (1, 2, 3)] == pytest.approx([3.0, 5.0, 7.0])


def routes(early_us: float) -> Routes:
    """One chunk, and two that are there from 1 us on."""
    table = StepTable.of([Steps([0.0], [1])])
    takes, counts, none = np.array([3.0, 5.0]), np.array([1, 2]), np.zeros(2, dtype=np.int64)
    early, from_us = np.full(2, early_us), np.array([0.0, 1.0])
    ways = counts, counts, counts, none, none
    return Routes(from_us, takes, takes - early, early, *ways, (table, table), 9)


def test_chunks_that_come_as_a_group_share_the_node_that_they_are_spread_in() -> None:
    """One hop of 11 us to gather two MB, and 60 us across as a group: sooner than twice, 50 us each time.

    Then the other rank has to get both through its one port. That takes 21 us; one by itself would take 11.
    """
    stated = problem(behind_one_link(2, 1.0, 10.0, alpha_across=40.0, beta_across=10.0), "allgather")
    proof = best(stated, 80.0)
    assert proof.value_us == pytest.approx(11.0 + 60.0 + 21.0)
    assert proof.witness == "2 chunks into node 0 through 2-0, all of a group gathered and spread at once"


def test_sums_that_cross_as_a_group_are_collected_and_spread_at_once() -> None:
    """Four sums cross in one group: their other parts come in one hop, and the sums go on in one hop."""
    stated = problem(behind_one_link(2, 1.0, 1.0, alpha_across=40.0), "allreduce")
    proof = best(stated, 46.0)
    assert proof.value_us == pytest.approx(5.0 + 44.0 + 5.0)
    assert proof.witness == "4 sums into node 0 through 2-0, all of a group gathered and spread at once"


def test_what_comes_last_is_gathered_in_growing_groups() -> None:
    """Each of four ranks lets in one chunk at the end, and no rank of the other four lets in any.

    Of these, each gathers four chunks: 1, 1 and 2 of them, since who has two had to get the other one first.
    """
    ranks, late = 16, [(8 + r, r, 4.0, 1.0) for r in range(4)]
    pairs = [(a, b) for a in range(8) for b in range(8) if a != b]
    shared = [[i for i, pair in enumerate(pairs) if pair[end] == r] for end in (0, 1) for r in range(8)]
    links = [*((a, b, 1.0, 0.0625) for a, b in pairs), *late]
    topology = machine(ranks, links, shared=shared, node_of=[0] * 8 + [1] * 8)
    wanted = [([8 + r], list(range(8)), False) for r in range(4)]
    proof = best(Problem(topology, custom(ranks, wanted), 1.0), 6.0)
    assert proof.value_us == pytest.approx(5.0 + 3 * 1.0 + 4 * 0.0625)
    assert proof.witness == "4 chunks into node 0 through 4 ports, the last gathered"


def test_a_budget_that_is_over_proves_nothing_and_breaks_nothing() -> None:
    stated = problem(behind_one_link(2, 1.0, 10.0), "allgather")
    instance = Instance(stated)
    layer = Layer.of(instance, np.arange(4))
    with pytest.raises(OutOfBudget):
        gathered(stated, layer, held_at_start(instance, layer), 100.0, Budget.of_work(0))
    proofs = [proof for view in views(instance) for proof in STAGED_CUT.prove(view, 30.0, Budget.of_work(3))]
    assert max(proof.value_us for proof in proofs) == 0.0


def test_cut_short_it_goes_on_where_it_stopped() -> None:
    """Twelve units of work are too few for all looks, and looks that ended are not begun again."""
    stated = problem(behind_one_link(2, 1.0, 10.0, alpha_across=40.0, beta_across=10.0), "allgather")
    [view], known_us = views(Instance(stated)), [80.0]
    for _ in range(4):
        proofs = STAGED_CUT.prove(view, known_us[-1], Budget.of_work(12))
        known_us.append(max(known_us[-1], *(proof.value_us for proof in proofs)))
    assert known_us[1] < 85.0
    assert known_us[-1] == pytest.approx(92.0)


def test_asked_again_it_says_what_it_said_before() -> None:
    """Also where it was cut short, and has nothing to add to that."""
    machine = behind_one_link(2, 1.0, 10.0, alpha_across=40.0, beta_across=10.0)
    instance, said_us = Instance(problem(machine, "allgather")), [0.0]
    for _ in range(5):
        proofs = all_bounds(instance, Budget.of_work(20), [LATENCY, CUT, STAGED_CUT])
        said_us.append(max((proof.value_us for proof in proofs if proof.kind == "staged-cut"), default=0.0))
    assert said_us == sorted(said_us)
    assert said_us[-1] == said_us[-2] == pytest.approx(92.0)


def look_at_two_pairs() -> Look:
    """At the crossing into a node of two ranks."""
    [view] = views(Instance(problem(behind_one_link(2, 1.0, 10.0), "allgather")))
    cut, *_ = narrow_cuts(view.instance)
    crossing, *_ = view.instance.once(Crossings).of(cut)
    return Look(Entering(view, members(4, cut.ranks), crossing, 100.0, _plenty()))


def test_a_case_that_lacked_work_is_taken_again_even_if_time_was_left() -> None:
    look, asked = look_at_two_pairs(), list[float]()

    def case(known_us: float) -> float:
        asked.append(known_us)
        raise OutOfBudget

    for _ in range(2):
        with pytest.raises(OutOfBudget):
            look.value_us(look.whole, (case, "an example"), 30.0, _plenty())
    assert len(asked) == 2


def test_too_many_routes_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    look, asked = look_at_two_pairs(), list[bool]()

    def turns(shared: bool) -> Turns:
        asked.append(shared)
        raise TooManyRoutes

    monkeypatch.setattr(look.whole, "turns", turns)
    for _ in range(2):
        with pytest.raises(TooManyRoutes):
            look.turns(look.whole, shared=True)
    assert asked == [True]


def test_in_an_ndv2_node_eight_chunks_from_one_rank_take_what_a_search_proves() -> None:
    """A search proves 0.9369 us for a broadcast of 8 chunks of 1 KB; the chunks alone would take 0.6674."""
    instance = Instance(problem(ndv2_node(), "broadcast", chunks_per_rank=8, chunk_mb=2**-10))
    layer = Layer.of(instance, np.arange(8))
    held = held_at_start(instance, layer)
    k = gathered(instance.problem, layer, held, 3.0, _plenty())
    all_there = [steps.first(8) for steps in k]
    assert None not in all_there
    assert max(all_there) == pytest.approx(0.936914, rel=1e-6)


@settings(max_examples=10, deadline=None)
@given(
    st.sampled_from(["allgather", "reducescatter", "alltoall", "allreduce"]),
    st.sampled_from([(1.0, 1.0), (0.5, 4.0), (2.0, 0.25)]),
    st.sampled_from([(1.0, 3.0), (4.0, 1.0), (2.0, 0.5)]),
    st.sampled_from([1, 2, 71]),
    st.integers(1, 2),
)
def test_it_is_not_above_a_schedule_of_two_nodes(
    name: str, inside: tuple[float, float], across: tuple[float, float], most: int, ranks: int
) -> None:
    """`test_bounds_brute_force` holds all bounds against all programs of smaller machines."""
    stated = problem(behind_one_link(ranks, *inside, *across), name, max_group=most)
    update = next(reducing(greedy)(stated, SearchOptions(), Budget.of_work(1), None))
    assert update.schedule is not None
    found_us = update.schedule.makespan_us
    assert best_us(stated, found_us / 2) <= found_us * (1 + 1e-9)


def test_no_closer_look_is_taken_at_a_cut_that_proved_far_less_than_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stated, looks = problem(behind_one_link(3, 1.0, 1.0), "allgather", 2), list[float]()
    proved_us = best_us(stated, 1.0)
    monkeypatch.setattr(
        "taccl.encoding.bounds.staged_cut.late_us", lambda _, known_us: looks.append(known_us) or 0.0
    )
    best(stated, 2 * proved_us)
    assert not looks
    best(stated, proved_us)
    assert looks


def two_pairs(alpha_across: float, inside: tuple[float, float] = (1.0, 1.0)) -> LogicalTopology:
    """Two nodes of two ranks each; only their first ranks are joined, at 1 us a MB."""
    links = [(a, b, *inside) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    across = [(0, 2, alpha_across, 1.0), (2, 0, alpha_across, 1.0)]
    return machine(4, [*links, *across], node_of=[0, 0, 1, 1])


def test_a_trunk_inside_a_node_is_a_line_to_draw() -> None:
    """1 us to gather a socket's chunks, 1.5 us between CPUs, 1 us to spread them; two groups take 4 us."""
    stated = make_problem("allgather", topology="pcie:2x2", size="4B", chunks=1, executor=False).problem
    names = {cut.name: sorted(cut.ranks) for cut in narrow_cuts(Instance(stated))}
    assert names == {"beyond cpu0 -> cpu1": [2, 3], "beyond cpu1 -> cpu0": [0, 1]}
    assert best_us(stated, 3.0) == pytest.approx(3.5, abs=0.01)


def test_pairs_behind_a_switch_each_are_a_line_to_draw() -> None:
    """A node of eight GPUs, two to a PCIe switch, which has a NIC and a CPU beyond it."""
    stated = make_problem("allgather", topology="l40s", nodes=2, size="1MB", chunks=1, executor=False).problem
    sets = {cut.ranks for cut in narrow_cuts(Instance(stated))}
    everyone = frozenset(range(16))
    for first in range(0, 16, 2):
        pair = frozenset({first, first + 1})
        assert {pair, everyone - pair} <= sets


def one_group(stated: Problem, known_us: float) -> float:
    """What the case proves of all that must enter some node."""
    view, *_ = views(Instance(stated))
    proved_us = 0.0
    for cut in narrow_cuts(view.instance):
        for crossing in view.instance.once(Crossings).of(cut)[-1:]:
            inside = members(stated.num_ranks, cut.ranks)
            at = Entering(view, inside, crossing, 2 * known_us, _plenty())
            if has_one_port(at):
                proved_us = max(proved_us, one_group_us(at, known_us))
    return proved_us


def test_one_group_is_gathered_crosses_and_is_spread() -> None:
    """2 us to gather a chunk of 1 MB, 42 us across for two, 3 us to spread both; twice would be 82 us."""
    stated = problem(two_pairs(40.0), "allgather")
    assert one_group(stated, 46.5) == pytest.approx(47.0)
    assert one_group(stated, 47.0) <= 47.0, "no better than what is known"


def test_two_groups_are_no_slower_than_two_alphas() -> None:
    """Where groups have one chunk there is no other case: twice 4 us and twice 1 us."""
    stated = problem(two_pairs(4.0), "allgather", max_group=1)
    assert one_group(stated, 9.9) == pytest.approx(10.0)
    assert one_group(stated, 10.0) <= 10.0


def test_it_says_nothing_where_some_link_takes_no_time() -> None:
    """Such a link is in nobody's way, and no tick is short enough for it."""
    free = [(a, b, 0.0, 0.0) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    across = [(0, 2, np.pi, 1.0), (2, 0, np.pi, 1.0)]
    stated = problem(machine(4, [*free, *across], node_of=[0, 0, 1, 1]), "allgather")
    assert fastest(stated).makespan_us == pytest.approx(np.pi + 2)
    assert one_group(stated, 5.0) == 0.0


@given(
    st.sampled_from([0.5, 2.0, 6.0]),
    st.sampled_from([(0.5, 1.0), (2.0, 0.5)]),
    st.sampled_from(["gather", "alltoall"]),
    st.sampled_from([1, 71]),
)
@settings(max_examples=6, deadline=None)
def test_no_program_through_one_port_is_faster(
    alpha: float, inside: tuple[float, float], name: str, max_group: int
) -> None:
    """Two ranks in one node, one in the other."""
    links = [(0, 1, *inside), (1, 0, *inside), (0, 2, alpha, 1.0), (2, 0, alpha, 1.0)]
    stated = problem(machine(3, links, node_of=[1, 1, 0]), name, max_group=max_group)
    optimum_us = fastest(stated).makespan_us
    for known_us in (0.9 * optimum_us, 0.99 * optimum_us):
        assert one_group(stated, known_us) <= optimum_us * (1 + 1e-9)


def test_first_groups_of_all_ports_are_collected_beside_each_other() -> None:
    """Four ranks sum four chunks, and each has a link to the other node, of 40 us + 1 us a chunk.

    Any one sum is there after two rounds of 3 us. Four sums, one at each rank, need three chunks one after
    the other through the port of each. In the other node what comes to one rank goes on to the other.
    """
    across = [(r, 4 + r % 2, 40.0, 1.0) for r in range(4)]
    sums = custom(6, [([0, 1, 2, 3], [4, 5], True)] * 4)
    one_each = Problem(nodes_of(4, 2, across, 1.0, 2.0), sums, 1.0, max_group=1)
    assert best_us(one_each, 47.0) == pytest.approx(9.0 + 41.0 + 3.0)
    assert best_us(one_each, 53.0) == 0.0, "no better than what is known"


def test_two_dgx2_nodes_collect_sixteen_sums_before_all_nics_have_begun() -> None:
    """Each NIC serves two GPUs, so two groups of two sums: 2 alphas and 4 bodies. Each by itself, 8.07 us.

    Before the last of eight NICs begins, each of 16 sums has come from 16 GPUs: some GPU passes 15 on, in 4
    groups. The sums that come last through that NIC go to 16 GPUs in 4 rounds.
    """
    stated = make_problem("allreduce", sketch="dgx2-sk-2").problem
    body = 2.0**-10
    nic, first, last = 2 * 2.6 + 4 * 105 * body, 4 * 0.3 + 15 * 8 * body, 4 * (0.3 + 8 * body)
    assert best_us(stated, 8.07) == pytest.approx(first + nic + last, rel=1e-4)


def tiny(draw: random.Random) -> Problem:
    """Two or three ranks whose sums two others want, over some links that are slow to begin with."""
    outside, inside = draw.choice([2, 2, 3]), 2
    crossing = draw.sample([(a, outside + b) for a in range(outside) for b in range(inside)], 2)
    alpha, slow = draw.choice([(0.5, 4.0), (1.0, 2.0), (1.0, 6.0), (0.25, 1.0)])
    across = [(a, b, slow, draw.choice([0.5, 1.0])) for a, b in crossing]
    back = [(b, a, slow, 1.0) for a, b in crossing if draw.random() < 0.3]
    topology = nodes_of(outside, inside, [*across, *back], alpha, draw.choice([0.5, 1.0, 2.0]))
    everyone = list(range(outside + inside))
    contributors = everyone[:outside] if draw.random() < 0.8 else everyone
    sums = custom(len(everyone), [(contributors, everyone[outside:], True)] * 2)
    return Problem(topology, sums, 1.0, limits=RoutingLimits(), max_group=draw.choice([1, 2, 71]))


@given(st.integers(0, 2**32 - 1), st.sampled_from([3.0, 6.0, 12.0]))
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_program_that_sums_before_a_cut_is_faster(seed: int, known_us: float) -> None:
    """However often and wherever it sums."""
    stated = tiny(random.Random(seed))
    bound_us = best_us(stated, known_us)
    try:
        faster = program_before(stated, bound_us - 1e-6, 1_000)
    except TooLarge:
        return
    assert faster is None, f"{bound_us} is above {faster.makespan_us}: {faster.steps}"
