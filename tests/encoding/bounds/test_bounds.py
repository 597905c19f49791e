"""Each bound by an example worked out by hand, with its witness."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from brute_force import fastest
from hypothesis import given
from hypothesis import strategies as st
from small_problems import custom, full, machine, ndv2_node, problem, ring, two_nodes

from taccl.api import make_problem
from taccl.encoding import bounds
from taccl.encoding.bounds import Proof, quick_bound
from taccl.encoding.bounds.capacity import least_time
from taccl.encoding.bounds.cut import cut_bound
from taccl.encoding.bounds.cuts import simple_cuts
from taccl.encoding.bounds.flow import flows
from taccl.encoding.bounds.latency import LATENCY
from taccl.encoding.bounds.partitions import partitions
from taccl.encoding.bounds.volume import volume_bound
from taccl.encoding.bounds.whole_flow import whole_flow
from taccl.encoding.instance import Instance
from taccl.model.collectives import COLLECTIVES
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget

#: More work than any proof here takes: what is proved does not depend on the clock.
_PLENTY = 1_000_000


def all_bounds(stated: Problem) -> tuple[Proof, ...]:
    return bounds.all_bounds(stated, Budget.of_work(_PLENTY))


def lower_bound(stated: Problem) -> Proof:
    return bounds.lower_bound(stated, Budget.of_work(_PLENTY))


def _cut(stated: Problem) -> Proof:
    return cut_bound(Instance(stated), simple_cuts(Instance(stated)))


def _volume(stated: Problem) -> Proof:
    return volume_bound(Instance(stated), partitions(stated, simple_cuts(Instance(stated))))


def _flow_us(stated: Problem) -> float:
    found = flows(Instance(stated), Budget.of_work(_PLENTY))
    return found[0].alone_us if found else 0.0


def _whole_flow(stated: Problem, known_us: float) -> tuple[float, str]:
    return max(whole_flow(Instance(stated), known_us, Budget.of_work(_PLENTY)), default=(0.0, "nothing"))


def _whole_flow_us(stated: Problem, known_us: float) -> float:
    return _whole_flow(stated, known_us)[0]


def test_seven_chunks_enter_a_rank_of_an_ndv2_node_over_two_double_and_two_single_nvlinks() -> None:
    """By 0.3 + 69 us the double links can bring 3 chunks each and the single ones 1: 8; before, only 6."""
    node = Instance(problem(ndv2_node(), "allgather"))
    node.distances_us = np.zeros((8, 8))  # so that no chunk is late, and none has far to go
    bound = cut_bound(node, simple_cuts(node))
    assert bound.value_us == pytest.approx(69.3)
    assert bound.witness == "7 chunks into rank 0 through 4 ports"


def test_the_best_bound_of_an_ndv2_node_is_a_way_over_a_double_and_a_single_nvlink() -> None:
    bound = lower_bound(problem(ndv2_node(), "allgather"))
    assert bound.value_us == pytest.approx(0.3 + 23 + 0.3 + 46)
    assert bound.witness.startswith("latency of chunk")


def test_what_enters_a_node_through_its_nic_still_has_to_reach_the_other_rank() -> None:
    """Alpha 2 and two chunks of 10 us through 3 -> 0, then 2 us from 0 to 1."""
    serial = problem(two_nodes(), "allgather")
    bound = _cut(serial)
    assert bound.value_us == pytest.approx(24.0)
    assert bound.witness == "2 chunks into node 0 through 3-0"
    assert lower_bound(serial).value_us == pytest.approx(26.0), "chunk 2 is late, so both pay an alpha"
    assert fastest(serial).makespan_us == pytest.approx(26.0)


def test_where_alpha_keeps_no_port_busy_the_bound_through_the_nic_is_met() -> None:
    pipelined = problem(two_nodes(occupancy="pipelined"), "allgather")
    assert lower_bound(pipelined).value_us == pytest.approx(24.0)
    assert fastest(pipelined).makespan_us == pytest.approx(24.0)


def test_chunks_that_reach_the_nic_late_leave_it_later() -> None:
    """Gather to rank 0: chunk 2 needs 2 us to rank 3, and 12 us from there."""
    gathered = problem(two_nodes(), "gather")
    bound = _cut(gathered)
    assert bound.value_us == pytest.approx(22.0), "both through the NIC in one send, from 0 us on"
    assert lower_bound(gathered).value_us == pytest.approx(24.0), "but chunk 2 is not there then"
    alone = quick_bound(problem(two_nodes(beta_between=0.5), "gather"))
    assert alone.value_us == pytest.approx(2.0 + 2.5), "the way of chunk 2 is longer than the NIC is busy"
    assert alone.witness.startswith("latency of chunk 2")


def test_the_latency_bound_is_the_longest_of_the_shortest_ways() -> None:
    halved = problem(ring(4, alpha_us=1.0, beta=4.0), "broadcast", chunk_mb=0.5)
    assert quick_bound(halved).value_us == pytest.approx(3 * (1.0 + 0.5 * 4.0))
    assert quick_bound(halved).witness == "latency of chunk 0 (piece 0 of rank 0's part)"


def test_a_sum_waits_for_its_farthest_contribution_and_a_copy_for_its_nearest_source() -> None:
    summed = replace(problem(ring(4), "allreduce"), collective=custom(4, [((0, 1, 2), (3,), True)]))
    copied = replace(summed, collective=custom(4, [((0, 1, 2), (3,), False)]))
    assert lower_bound(summed).value_us == pytest.approx(3 * 2.0)
    assert lower_bound(copied).value_us == pytest.approx(2.0)


def test_a_sum_that_no_contributor_must_start_spreading_is_bounded_without_its_spread() -> None:
    """The owner, 1, adds nothing: the sum can stay at rank 0, so the dear link 1 -> 0 is never needed."""
    topology = machine(2, [(0, 1, 1.0, 1.0), (1, 0, 50.0, 50.0)])
    sums = Problem(topology, custom(2, [((0,), (1, 0), True)]), 1.0)
    assert lower_bound(sums).value_us == pytest.approx(2.0)
    assert fastest(sums).makespan_us == pytest.approx(2.0)


def test_reduce_scatter_is_bounded_by_all_gather_on_the_reversed_links() -> None:
    one_way = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 5.0), (2, 0, 1.0, 2.0), (2, 1, 1.0, 3.0)])
    scattered = problem(one_way, "reducescatter", 2)
    gathered = problem(one_way.reversed(), "allgather", 2)
    backwards, forwards = lower_bound(scattered), lower_bound(gathered)
    assert (backwards.value_us, backwards.kind) == (forwards.value_us, forwards.kind)
    assert backwards.witness == "some rank gives away 4 chunks, in shrinking groups"
    assert forwards.witness == "some rank receives 4 chunks, in growing groups"
    assert (
        "more ports out of that rank" in backwards.remedy and "more ports into that rank" in forwards.remedy
    )
    leaving = next(bound for bound in all_bounds(scattered) if bound.kind == "cut")
    assert leaving.value_us == pytest.approx(1.0 + 4 * 5.0), "4 sums leave rank 1 by 1 -> 2"
    assert lower_bound(scattered).value_us == pytest.approx(2.0 + 4 * 5.0), "not all in one send"


def test_all_reduce_takes_two_n_minus_two_transfers_of_each_chunk() -> None:
    """3 chunks, 2 sums and 2 copies each: 12 over 3 links, 4 each, in one send at best: 1 + 4 us."""
    bound = _volume(problem(ring(3), "allreduce"))
    assert bound.value_us == pytest.approx(5.0)
    assert bound.witness == "12 transfers between 3 ranks through 3 ports"


def test_all_reduce_over_four_nodes_crosses_between_them_six_times() -> None:
    """NDv2: each node lets in 8 us a MB through one NIC. 6 x 32 MB through 4 of them, and an alpha."""
    nodes = make_problem("allreduce", topology="ndv2", nodes=4, size="32MB").problem
    bound = _volume(nodes)
    assert bound.witness == "192 transfers between 4 nodes through 4 ports"
    assert 5040.0 < bound.value_us < 5043.0
    assert lower_bound(nodes) == bound


def test_a_sum_that_no_part_both_contributes_to_and_wants_crosses_once_more() -> None:
    """From 0 and 1 to 2 and 3: one brings them together, and the sum goes to both; or both to one, and on."""
    four = custom(4, [((0, 1), (2, 3), True)])
    assert _volume(Problem(full(4), four, 1.0)).witness.startswith("3 transfers between 4 ranks")


def test_groups_that_fast_links_join_are_parts_of_their_own() -> None:
    """Two pairs on one node: 2 crossings of each of 4 chunks over two links of 4 us each."""
    inside = [(a, b, 0.0, 1.0) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    between = [(a, b, 0.0, 4.0) for a, b in ((0, 2), (2, 0))]
    bound = _volume(problem(machine(4, inside + between), "allreduce"))
    assert bound.value_us == pytest.approx(4 * 4.0)
    assert bound.witness == "8 transfers between 2 groups joined by links under 4 us/MB through 2 ports"


def test_copies_count_where_they_are_wanted_and_lacking() -> None:
    moved = Problem(ring(3), custom(3, [((0, 1), (1, 2), False)]), 1.0)
    assert _volume(moved).witness.startswith("1 transfer between")
    stays = Problem(ring(3), custom(3, [((0, 1), (1,), False)]), 1.0)
    assert lower_bound(stays).value_us == 0.0


def test_all_to_all_round_a_ring_loads_each_link_with_the_hops_of_all_pairs() -> None:
    """From each of 4 ranks 1 + 2 + 3 hops: 24 chunk-hops over 4 links of 1 us per chunk."""
    bound_us = _flow_us(problem(ring(4, alpha_us=0.0), "alltoall"))
    assert bound_us == pytest.approx(6.0, rel=2e-6)
    assert bound_us <= 6.0


def test_all_to_all_round_a_ring_both_ways_splits_the_farthest_pairs() -> None:
    """From each rank 1 + 1 + 2 hops: 16 over 8 links, the two-hop pairs half each way round."""
    both = problem(ring(4, alpha_us=0.0, both=True), "alltoall")
    assert _flow_us(both) == pytest.approx(2.0, rel=2e-6)


def test_the_flow_bound_is_the_same_with_one_variable_per_orbit() -> None:
    turn = [1, 2, 3, 0]
    for topology in (ring(4), ring(4, both=True), full(4)):
        plain, folded = (problem(topology, "alltoall", 2, symmetry=s) for s in ((), (turn,)))
        assert _flow_us(folded) == pytest.approx(_flow_us(plain), rel=1e-6)


def test_the_flow_bound_counts_links_that_share_a_port_together() -> None:
    """Rank 0 scatters 2 chunks over two links behind one port: 3 us each, one after the other."""
    shared = machine(3, [(0, 1, 0.0, 3.0), (0, 2, 0.0, 3.0)], shared=[(0, 1)])
    assert _flow_us(problem(shared, "scatter")) == pytest.approx(6.0, rel=2e-6)


def test_links_that_a_symmetry_makes_alike_may_share_a_port() -> None:
    """All 8 chunks that leave a node pass its NIC, 10 us each: those of ranks 0 and 1, an orbit."""
    across = [(a, b, 0.0, 10.0) for a, b in ((0, 2), (1, 3), (2, 0), (3, 1))]
    inside = [(a, b, 0.0, 1.0) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    topology = machine(4, inside + across, shared=[(4, 5), (6, 7)], node_of=[0, 0, 1, 1])
    for symmetry in ((), ([1, 0, 3, 2],)):
        both = problem(topology, "alltoall", 2, symmetry=symmetry)
        assert _flow_us(both) == pytest.approx(80.0, rel=2e-6)


def test_chunks_that_may_not_use_a_link_do_not_flow_over_it() -> None:
    """Rank 0's chunk for 2 is kept off the direct link and has to share 0 -> 1."""
    topology = machine(3, [(0, 1, 0.0, 3.0), (0, 2, 0.0, 3.0), (1, 2, 0.0, 1.0)])
    may_use = np.ones((3, 3), dtype=np.bool_)
    free = problem(topology, "scatter", limits=RoutingLimits(may_use=may_use.copy()))
    may_use[0, 1] = False
    kept = problem(topology, "scatter", limits=RoutingLimits(may_use=may_use))
    assert _flow_us(free) == pytest.approx(3.0, rel=2e-6)
    assert _flow_us(kept) == pytest.approx(6.0, rel=2e-6)
    assert lower_bound(kept).value_us == pytest.approx(6.0, rel=2e-6)


def test_there_is_no_flow_bound_where_a_chunk_has_several_destinations() -> None:
    assert _flow_us(problem(full(3), "allgather")) == 0.0


def test_all_to_all_in_an_ndv2_node_waits_for_the_sixth_chunk_over_a_double_nvlink() -> None:
    """Fluid, 122.67 us are enough; but a double link passes 5 chunks and a single one 2 before 138.3 us.

    The sixth and the third pay a second alpha: they are forwarded, so not all are there from 0 to the end.
    """
    pairs = problem(ndv2_node(), "alltoall")
    assert _flow_us(pairs) == pytest.approx(368 / 3)
    value_us, witness = _whole_flow(pairs, known_us=368 / 3)
    assert value_us == pytest.approx(2 * 0.3 + 6 * 23.0)
    assert witness == "flow of whole chunks over all links"


@pytest.mark.parametrize("alpha", [0.5, 1.5, 5.0])
def test_a_link_that_forwards_has_two_groups_or_is_idle_before_or_after_one(alpha: float) -> None:
    """0 -> 1 -> 2, one chunk to 1 and two to 2: 6 us and an alpha, and another or the 2 us of the way on."""
    line = machine(3, [(0, 1, alpha, 2.0), (1, 2, 0.0, 2.0)])
    chunks = [((0,), (1,), False), ((0,), (2,), False), ((0,), (2,), False)]
    one_way = Problem(line, custom(3, chunks), 1.0)
    bound = _whole_flow_us(one_way, known_us=1.0)
    assert bound == pytest.approx(alpha + 3 * 2.0 + min(alpha, 2.0))
    assert bound <= fastest(one_way).makespan_us + 1e-9


def test_chunks_that_share_no_group_pay_an_alpha_each() -> None:
    two = machine(2, [(0, 1, 1.0, 2.0)])
    chunks = custom(2, [((0,), (1,), False)] * 3)
    assert _whole_flow_us(Problem(two, chunks, 1.0), known_us=1.0) == pytest.approx(7.0)
    assert _whole_flow_us(Problem(two, chunks, 1.0, max_group=2), known_us=1.0) == pytest.approx(8.0)


def test_chunks_of_two_owners_may_share_a_group_and_its_alpha() -> None:
    """A bound charged it to each owner, and stood above this: 2 us and two bodies of 3 us."""
    topology = machine(2, [(0, 1, 2.0, 3.0), (1, 0, 0.0, 1.0)])
    two = Problem(topology, custom(2, [((0,), (1,), True), ((0,), (1,), False)]), 1.0)
    assert len(set(two.collective.owner.tolist())) == 2
    assert lower_bound(two).value_us == pytest.approx(8.0) == fastest(two).makespan_us


def test_behind_one_port_each_every_pair_pays_its_alpha_or_a_detour() -> None:
    """15 us of bodies and 3 alphas: forwarding to save an alpha of 1 us costs 5 us more."""
    links = [(a, b, 1.0, 5.0) for a in range(4) for b in range(4) if a != b]
    out = [[i for i, (a, *_) in enumerate(links) if a == rank] for rank in range(4)]
    pairs = problem(machine(4, links, shared=out), "alltoall")
    value_us, witness = _whole_flow(pairs, known_us=16.0)
    assert value_us == pytest.approx(18.0)
    assert witness == "a detour or an alpha for each pair of ranks"


def test_an_alpha_that_keeps_no_port_busy_is_not_paid_by_pairs() -> None:
    pipelined = problem(ring(3, both=True, occupancy="pipelined"), "alltoall")
    assert _whole_flow_us(pipelined, 1.0) <= fastest(pipelined).makespan_us
    assert _whole_flow_us(problem(full(3), "allgather"), 1.0) == 0.0


def test_an_owner_that_may_only_enter_by_a_slow_link_is_bounded_by_it() -> None:
    """Two pieces of rank 0 reach rank 1 by 4 us each, though others have a link of 1 us."""
    topology = machine(
        3, [(0, 1, 0.0, 4.0), (0, 2, 0.0, 1.0), (2, 1, 0.0, 1.0), (1, 2, 0.0, 1.0), (1, 0, 0.0, 1.0)]
    )
    may_use = np.ones((3, 5), dtype=np.bool_)
    may_use[0, 2] = False
    free = problem(topology, "broadcast", 2)
    kept = replace(free, limits=RoutingLimits(may_use=may_use))
    assert lower_bound(kept).value_us == pytest.approx(8.0)
    assert lower_bound(kept).witness == "2 chunks into rank 1 through 0-1"
    assert lower_bound(free).value_us < 8.0


#: Of every collective on every machine, but for relays and trees.
_FOR_ANY_CHUNKS = {
    *("latency", "cut", "flow", "waits", "volume", "copying"),
    *("timed-flow", "broadcast-time", "gather-time"),
}
#: Where all data start or end at one rank.
_ROOTED = ("broadcast", "reduce", "scatter", "gather")


@pytest.mark.parametrize("name", COLLECTIVES)
@pytest.mark.parametrize("topology", [ring(4), two_nodes(), full(3, alpha_us=2.0)], ids=repr)
def test_some_bounds_hold_however_finely_the_same_size_is_cut(name: str, topology: LogicalTopology) -> None:
    coarsely, finely = (problem(topology, name, pieces, chunk_mb=1 / pieces) for pieces in (1, 12))
    coarse = _by_kind(all_bounds(coarsely))
    with_any_chunks = [bound for bound in bounds.BOUNDS if bound.has_any_chunks]
    fine = _by_kind(bounds.all_bounds(finely, Budget.of_work(_PLENTY), with_any_chunks))
    spanning = {"strength"} if name not in ("alltoall", "gather", "scatter") else set()
    kinds = {kind for kind, for_any_chunks in coarse if for_any_chunks}
    assert kinds - {"relay", "fan-out"} == {*_FOR_ANY_CHUNKS, *spanning}
    assert "fan-out" not in kinds or (topology.num_nodes > 1 and name in _ROOTED)
    assert ("relay" in kinds) == (
        name not in ("alltoall", "gather", "scatter") and is_passed_on(topology, name)
    )
    for kind in kinds:
        close = 0.05 if kind in ("fan-out", "timed-flow") else 1e-6  # they end their search somewhere
        finely_us = fine[kind, True].value_us
        if kind == "copying":  # as far as prices were found: no more than is proved of either number
            assert max(coarse[kind, True].value_us, finely_us) <= max(each.value_us for each in fine.values())
        elif kind == "gather-time":  # it rounds up to chunks
            assert 0 < coarse[kind, True].value_us <= finely_us * (1 + 1e-9)
        else:
            assert coarse[kind, True].value_us == pytest.approx(finely_us, rel=close)
    for each, kind in itertools.product((coarse, fine), ("cut", "volume")):
        assert 0 < each[kind, True].value_us <= each[kind, False].value_us


def is_passed_on(topology: LogicalTopology, name: str) -> bool:
    """Whether much crosses into several ranks that all want it: into a node, or out of a root."""
    return topology.num_nodes > 1 or name in ("broadcast", "reduce")


def _by_kind(proofs: Sequence[Proof]) -> dict[tuple[str, bool], Proof]:
    return {(proof.kind, proof.holds_for_any_chunks): proof for proof in proofs}


def test_for_any_chunks_a_cut_is_the_data_over_the_bandwidth_of_its_ports() -> None:
    """7 MB enter each rank of an NDv2 node over links of 23, 23, 46 and 46 us per MB."""
    cut = _by_kind(bounds.all_bounds(problem(ndv2_node(), "allgather"), any_chunks=True))["cut", True]
    assert cut.value_us == pytest.approx(7 / (2 / 23 + 2 / 46))
    assert cut.witness == "7 MB into rank 0 through 4 ports"


def test_where_only_what_holds_for_any_chunks_is_requested_nothing_else_is_proved() -> None:
    proofs = bounds.all_bounds(problem(two_nodes(), "alltoall"), any_chunks=True)
    assert {proof.kind for proof in proofs} == _FOR_ANY_CHUNKS
    assert all(proof.holds_for_any_chunks for proof in proofs)


def test_links_that_cost_no_time_are_bounded_by_their_alphas() -> None:
    bound = lower_bound(problem(full(3, alpha_us=2.0, beta=0.0), "allgather", 4))
    assert bound.value_us == pytest.approx(2.0)


def test_a_machine_that_costs_nothing_has_no_bound_but_zero() -> None:
    for name in COLLECTIVES:
        assert lower_bound(problem(full(3, alpha_us=0.0, beta=0.0), name)).value_us == 0.0


def test_where_nothing_moves_the_bound_is_zero() -> None:
    for name in COLLECTIVES:
        assert lower_bound(problem(machine(1, []), name)).value_us == 0.0


@pytest.mark.parametrize(
    ("count", "ports", "time_us"),
    [
        (1, [(0.3, 23.0)], 23.3),
        (7, [(0.3, 23.0), (0.3, 23.0), (0.3, 46.0), (0.3, 46.0)], 69.3),
        (5, [(0.0, 1.0), (5.0, 10.0)], 5.0),
        (3, [(4.0, 0.0)], 4.0),
        (1, [(5.0, 0.0), (0.1, 0.1)], 0.2),
        (60, [(5.0, 0.0), (0.1, 0.1)], 5.0),
        (0, [(1.0, 1.0)], 0.0),
    ],
)
def test_whole_chunks_leave_ports_at_alpha_and_multiples_of_their_cost(
    count: int, ports: list[tuple[float, float]], time_us: float
) -> None:
    assert least_time(count, ports) == pytest.approx(time_us, abs=1e-7)


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.floats(0, 10), st.floats(1e-3, 1e3)), min_size=1, max_size=4),
)
def test_the_least_time_is_the_moment_when_enough_chunks_are_through(
    count: int, ports: list[tuple[float, float]]
) -> None:
    """The count-th smallest of all the moments alpha + k * cost."""
    moments = sorted(alpha + k * cost for alpha, cost in ports for k in range(1, count + 1))
    assert least_time(count, ports) == pytest.approx(moments[count - 1], rel=1e-6)


def test_whole_chunks_flow_in_steps() -> None:
    """On an NDv2 node 2 and 5 chunks per link are too few, whatever their routes; 3 take two groups."""
    proofs = _by_kind(all_bounds(problem(ndv2_node(), "alltoall")))
    assert proofs["flow", True].value_us == pytest.approx(368 / 3, rel=1e-6)
    assert proofs["flow", False].value_us == pytest.approx(138.6, rel=1e-6)


def test_the_alphas_of_the_longest_path_remain_however_finely_a_size_is_cut() -> None:
    """Three hops of 2 us each: with chunks of any size a Broadcast down the line takes 6 us.

    What is sent to rank 1 comes directly, all 1.5 MB of it: 2 + 7.5 us.
    """
    line = Instance(
        problem(machine(4, [(0, 1, 2.0, 5.0), (1, 2, 2.0, 5.0), (2, 3, 2.0, 5.0)]), "broadcast", 3, 0.5)
    )
    alphas, direct = bounds.proofs(line, Budget.of_work(_PLENTY), [LATENCY], any_chunks=True)
    assert alphas.value_us == pytest.approx(6.0)
    assert alphas.witness.startswith("the alphas on the way of chunk")
    assert direct.value_us == pytest.approx(9.5)


def test_a_gather_is_bounded_as_the_scatter_that_it_is_read_backwards() -> None:
    """On links that lead both ways at the same costs both take as long: 4.1 us, and 3.0 one way only."""
    gather, scatter = (
        make_problem(name, topology="dgx-h100", nodes=2, size="4KB", chunks=1, executor=False).problem
        for name in ("gather", "scatter")
    )
    exact = [bound for bound in bounds.BOUNDS if bound.name != "fan-out"]  # which ends its search somewhere
    one, other = (bounds.lower_bound(each, bounds=exact).value_us for each in (gather, scatter))
    assert one == pytest.approx(other, rel=1e-6)
    assert one > 4.0
    assert lower_bound(gather).value_us == pytest.approx(lower_bound(scatter).value_us, rel=5e-3)
