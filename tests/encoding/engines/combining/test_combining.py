"""Few sends that carry much: sequences, what they come to, and the engine that searches them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registered import combining, combining_at_once, owners, reducing, serves
from small_problems import (
    ENGINE_BETAS,
    WORK_FOR_BOUNDS,
    custom,
    full,
    machine,
    ndv2_node,
    problem,
    problems,
    ring,
    two_nodes,
)
from studies import examples

from taccl.encoding.bounds import lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.phases import owners_of
from taccl.encoding.core.timing import in_order
from taccl.encoding.engines.combining.anneal import anneal
from taccl.encoding.engines.combining.beginnings import as_genes, doubling
from taccl.encoding.engines.combining.decode import BroadcastDecoder, Decoded, PathDecoder
from taccl.encoding.engines.combining.engine import searched
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import symmetry_group
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def switch(ranks: int, alpha_us: float = 10.0, beta: float = 1.0) -> LogicalTopology:
    """Every rank has one way into a switch and one out of it."""
    topology = full(ranks, alpha_us, beta)
    ports = tuple((int(a), ranks + int(b)) for a, b in zip(topology.src, topology.dst, strict=True))
    return replace(topology, ports=ports, port_names=tuple(map(str, range(2 * ranks))))


def shared_nics() -> tuple[LogicalTopology, RoutingLimits]:
    """Two nodes of two ranks that share a NIC; what starts at i may only cross between i and i + 2."""
    inside = [(a, b, 1.0, 0.1) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    across = [(a, b, 10.0, 1.0) for a, b in ((0, 2), (1, 3), (2, 0), (3, 1))]
    topology = machine(4, inside + across, shared=[(4, 5), (6, 7)], node_of=[0, 0, 1, 1])
    may_use = np.ones((4, 8), dtype=np.bool_)
    may_use[[0, 2], 5] = may_use[[0, 2], 7] = may_use[[1, 3], 4] = may_use[[1, 3], 6] = False
    return topology, RoutingLimits(may_use=may_use)


def orbits_of(problem: Problem) -> OrbitInstance:
    return OrbitInstance.of(problem, symmetry_group(problem))


def best(problem: Problem, units: int = 120) -> Schedule:
    """The last schedule of the engine within so much work, every one checked."""
    budget = Budget.of_work(units)
    schedules = [u.schedule for u in reducing(combining)(problem, SearchOptions(), budget, None)]
    times = []
    for schedule in schedules:
        assert schedule is not None
        schedule.check()
        times.append(schedule.makespan_us)
    assert all(later < earlier for earlier, later in pairwise(times))
    assert schedules[-1] is not None
    return schedules[-1]


def orbit_of(orbits: OrbitInstance, src: int, dst: int) -> int:
    (orbit, _), *_ = np.argwhere((orbits.src == src) & (orbits.dst == dst)).tolist()
    return int(orbit)


@pytest.mark.parametrize("name", ["allgather", "reducescatter"])
def test_on_a_switch_every_rank_has_twice_as_much_after_each_round(name: str) -> None:
    assert best(problem(switch(8), name)).makespan_us == pytest.approx(3 * 10.0 + 7 * 1.0)


def test_an_alltoall_of_small_chunks_passes_on_half_of_them_in_each_round() -> None:
    """Bruck et al. 1997: two rounds for four ranks, two chunks in each send."""
    assert best(problem(switch(4), "alltoall")).makespan_us == pytest.approx(2 * (10.0 + 2 * 1.0))


@pytest.mark.parametrize("name", ["broadcast", "scatter", "gather", "reduce"])
def test_one_root_takes_as_many_rounds_as_there_are_doublings(name: str) -> None:
    volume = {"broadcast": 2.0, "reduce": 2.0, "scatter": 3.0, "gather": 3.0}[name]
    assert best(problem(switch(4), name)).makespan_us == pytest.approx(2 * 10.0 + volume)


def test_a_sequence_that_takes_longer_than_there_is_time_is_decoded_only_for_a_first_schedule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small, options = Instance(problem(switch(4), "allgather")), SearchOptions()
    assert list(searched(small, options, Budget.of_work(100), None))
    monkeypatch.setattr("taccl.encoding.engines.combining.engine.UNITS_PER_COPIED", 1e3)
    assert not list(searched(small, options, Budget.of_work(100), None))
    assert list(searched(small, options, Budget.of_work(100), None, at_once=True))


def test_a_group_larger_than_a_step_holds_is_cut() -> None:
    narrow = best(problem(switch(8), "allgather", max_group=2))
    assert narrow.sends.count.max() <= 2
    assert narrow.makespan_us > 3 * 10.0 + 7 * 1.0


@given(problems(betas=ENGINE_BETAS, most_sends=8, limited=True), WORK_FOR_BOUNDS)
@settings(deadline=None, max_examples=examples(13), suppress_health_check=[HealthCheck.too_slow])
def test_no_schedule_is_wrong_or_faster_than_the_bound(small: Problem, units: int) -> None:
    updates = islice(reducing(combining)(small, SearchOptions(), Budget.of_work(20), None), 6)
    times = []
    for update in updates:
        assert update.schedule is not None
        update.schedule.check()
        times.append(update.schedule.makespan_us)
    assert not times or lower_bound(small, Budget.of_work(units)).value_us <= times[-1] + 1e-6


def test_large_messages_are_not_for_combining() -> None:
    assert serves("combining", problem(ndv2_node(), "allgather", chunk_mb=0.001))
    assert not serves("combining", problem(ndv2_node(), "allgather", chunk_mb=1.0))


def test_chunks_with_several_sources_or_some_targets_are_not_for_combining() -> None:
    topology = full(3)
    for chunk in (([0, 1], [2], False), ([0], [1, 2], False)):
        assert not serves("combining", Problem(topology, custom(3, [chunk]), 0.001))


def test_a_gene_carries_all_that_the_receiver_lacks() -> None:
    orbits = orbits_of(problem(ring(3), "allgather"))
    genes = [
        SendGene(orbit_of(orbits, 0, 1)),
        SendGene(orbit_of(orbits, 1, 2)),
        SendGene(orbit_of(orbits, 1, 2)),
    ]
    decoded = BroadcastDecoder(orbits).decode(genes)
    assert [int(transfers.sum()) for transfers in decoded.transfers] == [1, 2]
    assert decoded.makespan_us == pytest.approx(2.0 + 3.0)
    assert decoded.unmet == 3


def test_a_gene_that_does_not_wait_leaves_with_what_is_there() -> None:
    orbits = orbits_of(problem(ring(3), "allgather"))
    first, second = orbit_of(orbits, 0, 1), orbit_of(orbits, 1, 2)
    decoded = BroadcastDecoder(orbits).decode(
        [SendGene(first), SendGene(second, waits=False), SendGene(second, waits=False)]
    )
    assert [int(transfers.sum()) for transfers in decoded.transfers] == [1, 1, 1]
    assert decoded.makespan_us == pytest.approx(4.0)


def test_what_stays_behind_can_go_later() -> None:
    orbits = orbits_of(problem(ring(3), "allgather"))
    first, second = orbit_of(orbits, 0, 1), orbit_of(orbits, 1, 2)
    stay = orbits.held[[1]]
    decoded = BroadcastDecoder(orbits).decode(
        [SendGene(first), SendGene(second, without=stay), SendGene(second)]
    )
    assert [int(transfers.sum()) for transfers in decoded.transfers] == [1, 1, 1]


def test_a_sequence_can_be_decoded_from_the_middle_on() -> None:
    small = problem(switch(8), "allgather")
    orbits = OrbitInstance.of(small, Instance(small).assumed_group())
    decoder, random = BroadcastDecoder(orbits), np.random.default_rng(0)
    one, other = (decoder.decode(doubling(orbits, random)) for _ in range(2))
    genes = [*one.genes[:2], *other.genes]
    whole, continued = decoder.decode(genes), decoder.decode(genes, one, 2)
    assert whole.score == continued.score
    assert whole.genes == continued.genes


def test_a_chunk_takes_the_cheapest_path_that_a_sequence_has() -> None:
    links = [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0), (0, 2, 1.0, 9.0)]
    orbits = orbits_of(Problem(machine(3, links), custom(3, [([0], [2], False)]), 1.0))
    near, far, straight = (orbit_of(orbits, *ends) for ends in ((0, 1), (1, 2), (0, 2)))
    assert PathDecoder(orbits).decode([SendGene(straight)]).makespan_us == pytest.approx(10.0)
    assert PathDecoder(orbits).decode(
        [SendGene(near), SendGene(far), SendGene(straight)]
    ).makespan_us == pytest.approx(4.0)
    assert PathDecoder(orbits).decode(
        [SendGene(far), SendGene(near), SendGene(straight)]
    ).makespan_us == pytest.approx(10.0)
    assert PathDecoder(orbits).decode([SendGene(far), SendGene(near)]).unmet == 1


@pytest.mark.parametrize("name", ["allgather", "alltoall"])
def test_a_decoded_sequence_takes_as_long_as_its_schedule(name: str) -> None:
    small = problem(two_nodes(), name, symmetry=[[2, 3, 0, 1]])
    orbits = orbits_of(small)
    gossip = BroadcastDecoder(orbits_of(problem(two_nodes(), "allgather", symmetry=[[2, 3, 0, 1]])))
    genes = gossip.decode(doubling(gossip.orbits, np.random.default_rng(0))).genes
    decoder = BroadcastDecoder(orbits) if name == "allgather" else PathDecoder(orbits)
    decoded: Decoded = anneal(decoder.decode(genes), Budget.of_work(50), np.random.default_rng(0))
    schedule = in_order(small, decoded.decisions(orbits, apart=True))
    schedule.check()
    assert schedule.makespan_us == pytest.approx(decoded.makespan_us)


def test_where_alpha_takes_no_port_chunks_go_one_by_one_and_none_waits_for_another() -> None:
    """Two chunks over two links of alpha 10: the second is there one beta after the first, not two."""
    line = machine(3, [(0, 1, 10.0, 1.0), (1, 2, 10.0, 1.0)], "pipelined")
    small = Problem(line, custom(3, [([0], [2], False)] * 2), 1.0)
    orbits = orbits_of(small)
    for decoder in (BroadcastDecoder(orbits), PathDecoder(orbits)):
        decoded = decoder.decode([SendGene(0), SendGene(1)])
        schedule = in_order(small, decoded.decisions(orbits, apart=True))
        schedule.check()
        assert schedule.makespan_us == pytest.approx(10 + 1 + 10 + 2)
        assert (schedule.sends.count == 1).all()


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(problems(names=["allgather", "broadcast", "alltoall"], betas=ENGINE_BETAS), st.integers(0, 99))
def test_a_schedule_is_never_later_than_its_sequence(small: Problem, seed: int) -> None:
    topology = replace(small.topology, occupancy="pipelined", port_betas=None)
    small = replace(small, topology=topology)
    orbits = orbits_of(small)
    decoder = BroadcastDecoder(orbits)
    decoded = decoder.decode(doubling(orbits, np.random.default_rng(seed), few=False))
    schedule = in_order(small, decoded.decisions(orbits, apart=True))
    assert schedule.makespan_us <= decoded.makespan_us * (1 + 1e-9)


def test_a_schedule_as_genes_has_each_orbit_once() -> None:
    small = problem(ring(4), "allgather", symmetry=[[1, 2, 3, 0]])
    schedule = best(small, 200)
    genes = as_genes(orbits_of(small), schedule)
    assert [gene.orbit for gene in genes] == [0] * (len(schedule.sends) // 4)


def test_rotations_and_exchanges_are_found_where_a_machine_has_them() -> None:
    assert len(Instance(problem(ring(6), "allgather")).assumed_group()) == 6
    assert len(Instance(problem(two_nodes(), "alltoall")).assumed_group()) == 2
    assert len(Instance(problem(full(4), "broadcast")).assumed_group()) == 1


def test_unequal_costs_ports_and_limits_are_no_symmetry() -> None:
    uneven = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0), (2, 0, 1.0, 2.0)])
    shared = machine(3, [(a, b, 1.0, 1.0) for a in range(3) for b in range(3) if a != b], shared=[(0, 1)])
    may_use = np.ones((3, 3), dtype=np.bool_)
    may_use[0, 1] = False
    limited = problem(ring(3), "allgather", limits=RoutingLimits(may_use=may_use))
    for small in (problem(uneven, "allgather"), problem(shared, "allgather"), limited):
        assert len(Instance(small).assumed_group()) == 1


def test_symmetries_that_are_asked_for_are_the_only_ones() -> None:
    requested = Instance(problem(ring(6), "allgather", symmetry=[[3, 4, 5, 0, 1, 2]]))
    assert requested.assumed_group() is requested.group
    assert len(requested.group) == 2


def test_sums_are_made_on_both_sides_of_a_shared_nic() -> None:
    """One rank's link carries sums while its neighbour's carries copies: 2 sends through each NIC, not 4."""
    topology, limits = shared_nics()
    reduced = problem(topology, "allreduce", limits=limits, symmetry=[[2, 3, 0, 1]])
    at_owner = best(reduced)
    schedules = [u.schedule for u in owners(reduced, SearchOptions(), Budget.of_work(500), at_owner)]
    assert schedules
    assert schedules[-1] is not None
    schedules[-1].check()
    assert schedules[-1].makespan_us < 0.75 * at_owner.makespan_us
    assert set(topology.node_of[owners_of(schedules[-1])].tolist()) == {0, 1}
    assert (owners_of(at_owner) == reduced.collective.owner).all()


def test_only_small_allreduces_look_for_other_places_for_their_sums() -> None:
    for other in (problem(two_nodes(), "allgather"), problem(ndv2_node(), "allreduce", chunk_mb=1.0)):
        assert not list(owners(other, SearchOptions(), Budget.of_work(100), None))


def test_phases_keep_the_symmetries_that_their_owners_have() -> None:
    reduced = problem(full(4), "allreduce", symmetry=[[1, 2, 3, 0]])
    for roots, order in (([0, 1, 2, 3], 4), ([2, 3, 0, 1], 4), ([0, 0, 2, 2], 2), ([0, 0, 0, 0], 1)):
        spread = Instance(reduced).phases_at(np.array(roots)).broadcast_phase
        assert spread is not None
        assert len(spread.group) == order


@pytest.mark.parametrize("name", ["allgather", "alltoall", "reducescatter", "allreduce"])
def test_a_first_schedule_takes_no_search(name: str) -> None:
    updates = list(
        reducing(combining_at_once)(problem(two_nodes(), name), SearchOptions(), Budget(0.0), None)
    )
    assert updates[0].schedule is not None
    updates[0].schedule.check()
