"""Small AllReduces as a whole: who gives what to whom, the beginnings, and what the search makes of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from registered import exchange, greedy, reducing, serves
from small_problems import ENGINE_BETAS, full, machine, ndv2_node, networks, problem, ring
from studies import examples

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import in_order
from taccl.encoding.engines.combining.anneal import anneal
from taccl.encoding.engines.combining.beginnings import as_genes, rounds
from taccl.encoding.engines.combining.decode import Decoded
from taccl.encoding.engines.combining.exchange import ExchangeDecoder, chosen
from taccl.encoding.engines.combining.largest_first import largest_first
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.encoding.engines.combining.sends import decisions, without_unused
from taccl.encoding.engines.combining.subgroups import scattering, subgroups
from taccl.encoding.engines.combining.sums import expanded, in_one_block
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import kept_by, symmetry_group, without_shared_ports
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.model.schedule.derivation import derive
from taccl.support.budget import Budget


def switch(ranks: int, alpha_us: float = 10.0, beta: float = 1.0) -> LogicalTopology:
    """Every rank has one way into a switch and one out of it."""
    topology = full(ranks, alpha_us, beta)
    ports = tuple((int(a), ranks + int(b)) for a, b in zip(topology.src, topology.dst, strict=True))
    return replace(topology, ports=ports, port_names=tuple(map(str, range(2 * ranks))))


def rails(alpha_us: float = 10.0, beta: float = 1.0) -> LogicalTopology:
    """Two nodes of two ranks; inside a node alpha 1, beta 1; across from each rank to its like."""
    inside = [(a, b, 1.0, 1.0) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    across = [(a, b, alpha_us, beta) for a, b in ((0, 2), (2, 0), (1, 3), (3, 1))]
    return machine(4, inside + across, node_of=[0, 0, 1, 1])


def orbits_of(small: Problem, exchanges_first: bool = False) -> OrbitInstance:
    return OrbitInstance.of(small, Instance(small).assumed_group(exchanges_first))


def schedule_of(orbits: OrbitInstance, decoded: Decoded) -> Schedule:
    """A schedule that passed its checks."""
    schedule = in_order(orbits.problem, decisions(orbits, decoded, apart=True))
    schedule.check()
    return schedule


def at_once(small: Problem) -> Schedule:
    """The best of the textbook rounds: no search."""
    *_, last = exchange(small, SearchOptions(), Budget(0.0), None)
    assert last.schedule is not None
    last.schedule.check()
    return last.schedule


def filled(
    decoder: ExchangeDecoder, seed: int = 0, before: Decoded | None = None, hold: int | None = None
) -> Decoded:
    genes = largest_first(decoder, np.random.default_rng(seed), Budget(60.0).meter(), before, hold)
    assert genes is not None
    return decoder.decode(genes)


@pytest.mark.parametrize("ranks", range(2, 14))
def test_on_a_switch_it_takes_as_many_rounds_as_there_are_doublings(ranks: int) -> None:
    """Also where the number of ranks is no power of two: a window of ranks before each doubles, or so."""
    small = problem(switch(ranks), "allreduce")
    assert at_once(small).makespan_us == pytest.approx(math.ceil(math.log2(ranks)) * (10.0 + ranks * 1.0))


def test_where_all_are_linked_everyone_sends_its_own_to_everyone_at_once() -> None:
    orbits = orbits_of(problem(full(8, alpha_us=10.0), "allreduce"))
    decoded = filled(ExchangeDecoder(orbits))
    assert decoded.makespan_us == pytest.approx(10.0 + 8 * 1.0)
    assert schedule_of(orbits, decoded).makespan_us == pytest.approx(18.0)


def test_a_hypercube_of_nvlinks_takes_three_rounds() -> None:
    """NDv2: two rounds over double links and one over single ones."""
    small = problem(ndv2_node(), "allreduce", chunk_mb=1 / 8192)
    assert at_once(small).makespan_us <= 3 * 0.3 + (23 + 23 + 46) / 1024 + 1e-9


def test_halves_are_summed_inside_nodes_exchanged_across_and_spread_inside() -> None:
    by_hand_us = (1.0 + 2.0) + (10.0 + 2.0) + (1.0 + 2.0)
    assert at_once(problem(rails(), "allreduce")).makespan_us == pytest.approx(by_hand_us)


def test_across_slow_links_each_rank_carries_a_part() -> None:
    """Scattered inside the nodes, each half crosses on its own rail: 3 + 21 + 3, and not 5 + 41."""
    orbits = orbits_of(problem(rails(alpha_us=1.0, beta=10.0), "allreduce"))
    decoder, random = ExchangeDecoder(orbits), np.random.default_rng(0)
    genes = scattering(orbits, orbits.problem.topology.node_of, random)
    assert genes is not None
    mixed = filled(decoder, before=decoder.decode(genes), hold=2)
    assert schedule_of(orbits, mixed).makespan_us == pytest.approx(3.0 + 21.0 + 3.0)


def test_of_two_ranks_that_share_a_nic_one_sends_for_both() -> None:
    """Added up inside, sent across by one of the two, and copied to the other: 1.4 + 14 + 1.4."""
    inside = [(a, b, 1.0, 0.1) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    across = [(a, b, 10.0, 1.0) for a, b in ((0, 2), (1, 3), (2, 0), (3, 1))]
    topology = machine(4, inside + across, shared=[(4, 5), (6, 7)], node_of=[0, 0, 1, 1])
    small = problem(topology, "allreduce")
    group = Instance(small).assumed_group()
    paired = ExchangeDecoder(OrbitInstance.of(small, group))
    decoder = ExchangeDecoder(OrbitInstance.of(small, without_shared_ports(topology, group)))
    together, apart = (
        min(filled(each, seed).makespan_us for seed in range(20)) for each in (paired, decoder)
    )
    assert together == pytest.approx(1.4 + 2 * 14.0)
    assert apart == pytest.approx(1.4 + 14.0 + 1.4)


def test_what_does_not_overlap_is_given() -> None:
    choice = chosen((0b0001, 0b0010, 0b1100), (0b100000, 0b010100))
    assert choice is not None
    assert (choice.take, choice.union, choice.gain, choice.stay) == ((0, 1), 0b0011, 2, (0, 1))


def test_a_whole_sum_displaces_what_is_there() -> None:
    choice = chosen((0b1111,), (0b0001, 0b0110))
    assert choice is not None
    assert (choice.union, choice.gain, choice.stay) == (0b1111, 1, ())


def test_parts_that_together_bring_more_than_they_displace_are_given() -> None:
    """Each alone brings no more than the three that it displaces."""
    choice = chosen((0b000110, 0b111000), (0b001110,))
    assert choice is not None
    assert (choice.union, choice.gain) == (0b111110, 2)


@pytest.mark.parametrize("theirs", [(0b11,), (0b01, 0b10), (0b111,)])
def test_what_is_there_already_is_not_given(theirs: tuple[int, ...]) -> None:
    assert chosen((0b01, 0b10), theirs) is None


def test_nothing_is_given_of_nothing() -> None:
    assert chosen((), (0b1,)) is None


def test_one_part_more_than_are_kept_adds_up_two() -> None:
    """In a star of 13 the middle hears of twelve others, one after another, and then tells them all."""
    links = [(a, b, 1.0, 1.0) for rank in range(1, 13) for a, b in ((rank, 0), (0, rank))]
    orbits = OrbitInstance.of(star := problem(machine(13, links), "allreduce"), symmetry_group(star))
    decoder = ExchangeDecoder(orbits)
    decoded = filled(decoder)
    assert decoded.unmet == 0
    assert max(map(len, decoded.states[-1].parts)) <= 10
    schedule_of(orbits, decoded)


def test_a_sequence_can_be_played_on_from_the_middle() -> None:
    decoder = ExchangeDecoder(orbits_of(problem(switch(8), "allreduce")))
    one, other = filled(decoder, 1), filled(decoder, 2)
    genes = [*one.genes[:2], *other.genes]
    whole, continued = decoder.decode(genes), decoder.decode(genes, one, 2)
    assert (whole.score, whole.genes) == (continued.score, continued.genes)


def test_a_move_that_does_not_wait_leaves_with_what_is_there() -> None:
    orbits = orbits_of(replace(problem(ring(3), "allreduce"), symmetry=(np.arange(3),)))
    decoder = ExchangeDecoder(orbits)
    first, second = (int(np.flatnonzero(orbits.src[:, 0] == rank)[0]) for rank in (0, 1))
    waiting = decoder.decode([SendGene(first), SendGene(second)])
    going = decoder.decode([SendGene(first), SendGene(second, waits=False)])
    assert [waiting.sets[1][0], going.sets[1][0]] == [0b011, 0b010]
    assert [waiting.makespan_us, going.makespan_us] == [pytest.approx(8.0), pytest.approx(4.0)]


@given(
    networks(betas=ENGINE_BETAS),
    st.lists(st.integers(0, 99), max_size=12),
    st.integers(0, 9),
    st.integers(1, 2),
)
@settings(deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
def test_every_sequence_that_completes_all_sums_is_a_schedule(
    topology: LogicalTopology, link_orbits: list[int], seed: int, pieces: int
) -> None:
    collective = make_collective("allreduce", topology.num_ranks, pieces)
    orbits = orbits_of(Problem(topology, collective, 0.5, max_group=3))
    decoder = ExchangeDecoder(orbits)
    begun = decoder.decode(
        [SendGene(orbit % orbits.num_link_orbits, bool(orbit % 3)) for orbit in link_orbits]
    )
    decoded = filled(decoder, seed, begun)
    assume(not decoded.unmet)
    schedule = schedule_of(orbits, decoded)
    assert schedule.sends.count.max() <= 3
    pruned = without_unused(schedule)
    pruned.check()
    assert pruned.makespan_us <= schedule.makespan_us + 1e-9
    assert len(pruned) <= len(schedule)


@given(st.sampled_from([switch(4), switch(6), ring(5, both=True), rails(), ndv2_node()]), st.integers(0, 9))
@settings(deadline=None, max_examples=examples(8), suppress_health_check=[HealthCheck.too_slow])
def test_a_played_sequence_keeps_its_symmetries_and_takes_as_long_as_its_schedule(
    topology: LogicalTopology, seed: int
) -> None:
    orbits = orbits_of(problem(topology, "allreduce", chunk_mb=0.1), exchanges_first=seed % 2 == 0)
    decoder, random = ExchangeDecoder(orbits), np.random.default_rng(seed)
    decoded = anneal(filled(decoder, seed), Budget.of_work(20), random)
    schedule = schedule_of(orbits, decoded)
    assert schedule.makespan_us == pytest.approx(decoded.makespan_us)
    assert len(orbits.group) > 1
    assert len(kept_by(schedule, orbits.group)) == len(orbits.group)


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_schedule_is_a_sequence_that_plays_as_itself(seconds: float) -> None:
    small = problem(switch(6), "allreduce", 2)
    for compact in reducing(greedy)(small, SearchOptions(), Budget(seconds), None):
        assert compact.schedule is not None
        group = kept_by(compact.schedule, Instance(small).assumed_group())
        decoder = ExchangeDecoder(OrbitInstance.of(small, group))
        decoded = decoder.decode(as_genes(decoder.orbits, compact.schedule, with_chunks=True))
        assert decoded.unmet == 0
        assert decoded.makespan_us == pytest.approx(compact.schedule.makespan_us)


def test_a_schedule_that_is_given_is_only_improved_on() -> None:
    small = problem(switch(4), "allreduce")
    known = at_once(small)
    assert not list(exchange(small, SearchOptions(), Budget(0.2), known))


def test_rules_on_links_are_kept() -> None:
    """What is homed at i may only cross between i and i + 2: two halves, each over its own rail."""
    may_use = np.ones((4, 8), dtype=np.bool_)
    may_use[[0, 2], 6:] = may_use[[1, 3], 4:6] = False
    limited = problem(rails(), "allreduce", limits=RoutingLimits(may_use=may_use))
    updates = list(exchange(limited, SearchOptions(), Budget(1.0), None))
    best = updates[-1].schedule
    assert best is not None
    best.check()
    assert best.makespan_us == pytest.approx((1.0 + 2.0) + (10.0 + 2.0) + (1.0 + 2.0))


def test_what_no_output_is_made_of_is_left_out() -> None:
    orbits = orbits_of(replace(problem(full(3), "allreduce"), symmetry=(np.arange(3),)))
    decoder = ExchangeDecoder(orbits)
    decoded = filled(decoder)
    # A sum of two that everyone receives anyway, and then whole, from a third.
    detour = decoder.decode([SendGene(0), *decoded.genes])
    schedule = schedule_of(orbits, detour)
    kept = without_unused(schedule)
    kept.check()
    facts = derive(kept)
    used = {row for parts in (*facts.rows.values(), *facts.outputs.values()) for row in parts}
    assert set(range(len(kept))) <= used


def test_many_links_without_symmetry_are_looked_at_in_one_block() -> None:
    topology = switch(6)
    uneven = replace(topology, alpha_us=10.0 + 0.01 * np.arange(topology.num_links))
    small = problem(uneven, "allreduce")
    block = in_one_block(small)
    assert block is not None
    assert (block.problem.num_chunks, block.problem.chunk_mb) == (1, 6.0)
    decoder = ExchangeDecoder(block)
    decoded = min((decoder.decode(genes) for genes in rounds(block)), key=lambda decoded: decoded.score)
    schedule = in_order(small, expanded(small, block, decisions(block, decoded, apart=True)))
    schedule.check()
    assert schedule.makespan_us == pytest.approx(decoded.makespan_us)
    assert set(schedule.sends.count.tolist()) == {6}


def test_chunks_that_differ_or_do_not_fit_in_one_send_are_no_block() -> None:
    assert in_one_block(problem(switch(4), "allreduce", max_group=3)) is None
    assert in_one_block(problem(switch(4), "reducescatter")) is None
    may_use = np.ones((4, 12), dtype=np.bool_)
    may_use[0, 0] = False
    assert in_one_block(problem(switch(4), "allreduce", limits=RoutingLimits(may_use=may_use))) is None


def test_only_small_sums_that_several_ranks_want_are_for_exchange() -> None:
    small = problem(switch(4), "allreduce")
    assert serves("exchange", small)
    first = np.ones(12, dtype=np.bool_)
    for other in (
        problem(switch(4), "reducescatter"),
        problem(switch(4), "allgather"),
        problem(switch(4), "allreduce", chunk_mb=1000.0),
        replace(small, limits=RoutingLimits(own_first=first)),
        problem(full(65), "allreduce"),
    ):
        assert not serves("exchange", other)
        assert not list(exchange(other, SearchOptions(), Budget(0.1), None))


def test_subgroups_are_nodes_neighbours_and_ranks_at_equal_distances() -> None:
    found = [subgroup_of.tolist() for subgroup_of in subgroups(problem(rails(), "allreduce"))]
    assert sorted(found) == [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1]]


def test_subgroups_without_links_inside_cannot_scatter() -> None:
    orbits = orbits_of(problem(ring(4), "allreduce"))
    assert scattering(orbits, np.array([0, 1, 0, 1]), np.random.default_rng(0)) is None


def work_for(ranks: int) -> float:
    """What a sequence of largest sends first costs where all ranks are linked."""
    decoder = ExchangeDecoder(orbits_of(problem(full(ranks, alpha_us=10.0), "allreduce")))
    budget = Budget.of_work(100_000)
    meter = budget.meter()
    for _ in range(20):
        assert largest_first(decoder, np.random.default_rng(0), meter) is not None
    return 100_000 - 1000 * budget.remaining_s()


def test_a_sequence_costs_work_by_the_transfers_that_it_looks_at() -> None:
    """Between 16 ranks 240 transfers are looked at for each send, between 4 only 12."""
    assert work_for(16) > 10 * work_for(4)
