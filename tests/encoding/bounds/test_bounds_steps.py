"""Bounds from doubling, by examples worked out by hand and held against exhaustive search."""

from __future__ import annotations

import random

import numpy as np
import pytest
from brute_force import TooLarge, fastest, program_before
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_problems import random_cluster_problem, random_problem
from small_problems import custom, machine, ndv2_node, networks, problem, ring, two_nodes
from studies import examples

from taccl.encoding import bounds
from taccl.encoding.bounds import Proof, View
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.broadcast_time import BROADCAST_TIME
from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.cuts import Cut
from taccl.encoding.bounds.gather_time import GATHER_TIME
from taccl.encoding.bounds.latency import LATENCY
from taccl.encoding.bounds.layer import Distances, Layer, held_at_start, nearest_us
from taccl.encoding.bounds.staged_copies import disjoint_sets
from taccl.encoding.bounds.staged_cut import staged_cut_bound
from taccl.encoding.bounds.steps import gathered, informed, port_at_end
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget
from taccl.support.jit import ahead_of_time


def is_just_below(value_us: float, exact_us: float) -> bool:
    """Whether a bound is what it is by hand, and never above."""
    return exact_us * (1 - 1e-9) <= value_us <= exact_us * (1 + 1e-9)


def _budget() -> Budget:
    """More work than any proof here takes."""
    return Budget.of_work(1_000_000)


def all_bounds(stated: Problem) -> tuple[Proof, ...]:
    return bounds.all_bounds(stated, _budget())


def lower_bound(stated: Problem) -> Proof:
    return bounds.lower_bound(stated, _budget())


def _best(bound: Bound, view: View, known_us: float) -> Proof:
    return max(bound.prove(view, known_us, _budget()), key=lambda proof: proof.value_us)


def broadcast_time(stated: Problem, known_us: float, backwards: bool = False) -> Proof:
    return _best(BROADCAST_TIME, View(Instance(stated), backwards), known_us)


def gather_time(stated: Problem, known_us: float, backwards: bool = False) -> Proof:
    return _best(GATHER_TIME, View(Instance(stated), backwards), known_us)


def staged_cut(stated: Problem, cut: Cut, known_us: float) -> Proof:
    *_, best = staged_cut_bound(View(Instance(stated)), cut, known_us, _budget())
    return best


def informed_steps(stated: Problem, at_ends: bool = False) -> list[Steps]:
    """Of chunk 0, up to 40 us."""
    instance = Instance(stated)
    layer = Layer.of(instance, np.array([0]))
    distances = instance.once(Distances).over(layer.uses())
    return informed(stated, layer, distances, 40.0, _budget(), at_ends)


def gathered_steps(stated: Problem, at_ends: bool = False) -> list[Steps]:
    """Of all chunks, up to 40 us."""
    instance = Instance(stated)
    layer = Layer.of(instance, np.arange(stated.num_chunks))
    held, near = held_at_start(instance, layer), nearest_us(instance, layer)
    return gathered(stated, layer, held, 40.0, _budget(), near, at_ends=at_ends)


def one_port(ranks: int, alpha_us: float, beta: float, occupancy: Occupancy = "serial") -> LogicalTopology:
    """A switch: each rank sends through one port and receives through another."""
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    out = [[i for i, (a, _) in enumerate(pairs) if a == rank] for rank in range(ranks)]
    into = [[i for i, (_, b) in enumerate(pairs) if b == rank] for rank in range(ranks)]
    return machine(ranks, [(a, b, alpha_us, beta) for a, b in pairs], occupancy, [*out, *into])


def pairs_of_nodes(alpha_between: float, beta_between: float) -> LogicalTopology:
    """Two nodes of four ranks behind a switch each; only 0 -> 4 and 4 -> 0 join them."""
    pairs = [(a, b) for n in (0, 4) for a in range(n, n + 4) for b in range(n, n + 4) if a != b]
    links = [(a, b, 1.0, 0.0) for a, b in pairs]
    links += [(0, 4, alpha_between, beta_between), (4, 0, alpha_between, beta_between)]
    out = [[i for i, (a, _) in enumerate(pairs) if a == rank] for rank in range(8)]
    into = [[i for i, (_, b) in enumerate(pairs) if b == rank] for rank in range(8)]
    return machine(8, links, shared=[*out, *into], node_of=[0] * 4 + [1] * 4)


@pytest.mark.parametrize(("ranks", "rounds"), [(2, 1), (4, 2), (5, 3), (8, 3)])
def test_through_one_port_each_the_ranks_that_have_a_chunk_double(ranks: int, rounds: int) -> None:
    copies = problem(one_port(ranks, 1.0, 2.0), "broadcast")
    bound = broadcast_time(copies, known_us=1.0)
    assert is_just_below(bound.value_us, rounds * 3.0)
    assert bound.witness == "spread of chunk 0 (piece 0 of rank 0's part), alone on the network"


@pytest.mark.parametrize(
    ("name", "ranks", "spread"),
    [
        ("scatter", 4, "the 3 chunks at rank 0 as if they were one"),
        ("alltoall", 4, "the 3 chunks at rank 0 as if they were one"),
        ("alltoall", 2, "chunk 1 (from rank 0 to rank 1)"),  # chunk 0 stays
        ("allgather", 4, "chunk 0 (piece 0 of rank 0's part)"),
    ],
)
def test_what_spreads_is_a_chunk_that_all_wait_for_or_else_those_that_move_taken_for_one(
    name: str, ranks: int, spread: str
) -> None:
    bound = broadcast_time(problem(one_port(ranks, 1.0, 2.0), name), known_us=1.0)
    assert is_just_below(bound.value_us, (ranks // 2) * 3.0)
    assert bound.witness == f"spread of {spread}, alone on the network"


@pytest.mark.parametrize(("max_group", "before_us"), [(1, 2 * (1 + 3)), (2, 1 + 2 * 3), (3, 2 * 3)])
@pytest.mark.parametrize("name", ["broadcast", "reduce", "allreduce"])
def test_before_the_last_chunk_leaves_a_rank_the_others_keep_its_port_busy(
    name: str, max_group: int, before_us: float
) -> None:
    """Three chunks, an alpha of 1 and a beta of 3: one by itself is with three ranks after two sends."""
    chunks = 1 if name == "allreduce" else 3
    stated = problem(one_port(3, 1.0, 3.0), name, chunks, max_group=max_group)
    (proof,) = (
        each for each in all_bounds(stated) if each.kind == "broadcast-time" and not each.holds_for_any_chunks
    )
    assert is_just_below(proof.value_us, before_us + 2 * (1 + 3))
    what = "collection of" if name == "reduce" else "spread of"
    when = "the first to be complete at its rank" if name == "reduce" else "the last to leave its rank"
    assert proof.witness.startswith(what) and proof.witness.endswith(when)


def test_a_gather_collects_what_a_scatter_spreads() -> None:
    proofs = all_bounds(problem(one_port(4, 1.0, 2.0), "gather"))
    assert "collection of the 3 chunks at rank 0 as if they were one, alone on the network" in {
        proof.witness for proof in proofs
    }


def test_where_ranks_keep_different_parts_a_bound_says_how_much_one_receives_at_most() -> None:
    """Rank 0 has one of the three chunks that 0 and 1 want, rank 1 none."""
    wanted = custom(3, [((0,), (0, 1), False), ((2,), (0, 1), False), ((2,), (0, 1), False)])
    bound = gather_time(Problem(one_port(3, 1.0, 2.0), wanted, 1.0), known_us=1.0)
    assert bound.witness == "some rank receives up to 3 chunks, in growing groups"


def test_where_alpha_keeps_no_port_busy_the_ranks_grow_as_in_the_postal_model() -> None:
    """Sent every 1 us, there 3 us later: 1, 2, 3, 4, 6, 9 ranks at 0, 3, 4, 5, 6, 7 us."""
    copies = problem(one_port(9, 2.0, 1.0, "pipelined"), "broadcast")
    w = informed_steps(copies)[0]
    assert [w.at(moment) for moment in range(8)] == [1, 1, 1, 2, 3, 4, 6, 9]
    assert is_just_below(broadcast_time(copies, 1.0).value_us, 7.0)


def test_what_has_come_no_way_at_all_is_not_counted_twice() -> None:
    """In an NDv2 node 8 counts are there after 46.6 us, but not the 8 ranks: the farthest is 69.6 us away."""
    copies = problem(ndv2_node(), "allgather")
    assert is_just_below(broadcast_time(copies, 60.0).value_us, 69.6)


def any_chunks(bound: Bound, stated: Problem) -> float:
    """What a bound proves for any number of chunks."""
    proofs = bounds.all_bounds(stated, _budget(), [LATENCY, bound], any_chunks=True)
    return max(proof.value_us for proof in proofs if proof.kind == bound.name)


@pytest.mark.parametrize(("ranks", "rounds"), [(2, 1), (4, 2), (5, 3), (8, 3)])
def test_however_small_a_chunk_is_the_ranks_that_have_it_double_with_each_alpha(
    ranks: int, rounds: int
) -> None:
    copies = problem(one_port(ranks, 1.0, 2.0), "broadcast")
    assert is_just_below(any_chunks(BROADCAST_TIME, copies), rounds * 1.0)


def test_however_finely_data_is_cut_what_a_rank_holds_doubles_with_each_alpha() -> None:
    """Of 1, 2 and 4 chunks a part of a chunk less counts each time, in groups of any size."""
    for pieces in (1, 2, 64):
        copies = problem(one_port(8, 10.0, 1.0), "allgather", pieces, chunk_mb=1 / pieces)
        assert is_just_below(any_chunks(GATHER_TIME, copies), 3 * 10.0 + 7 * 1.0 - 3 / pieces)
    in_eighths = problem(one_port(8, 1.0, 1.0), "allgather")  # of an alpha, so less is lost
    assert is_just_below(any_chunks(GATHER_TIME, in_eighths), 3 * 1.0 + 7 * 1.0 - 3 / 8)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_what_holds_for_any_number_of_chunks_holds_for_finer_ones(seed: int, pieces: int) -> None:
    dice = random.Random(seed)
    drawn = (random_cluster_problem if seed % 3 == 0 else random_problem)(dice, sums=seed % 2 == 0)
    of = drawn.collective
    chunks = [
        (np.flatnonzero(there), np.flatnonzero(wanted), bool(adds))
        for there, wanted, adds in zip(of.pre, of.post, of.reduces, strict=True)
    ]
    coarse, fine = (
        Problem(
            *(drawn.topology, custom(of.num_ranks, [each for each in chunks for _ in range(many)])),
            drawn.chunk_mb / many,
        )
        for many in (1, pieces)
    )
    proofs = bounds.all_bounds(coarse, _budget(), [LATENCY, BROADCAST_TIME, GATHER_TIME], any_chunks=True)
    try:
        faster = program_before(fine, max(proof.value_us for proof in proofs) - 1e-6, 800)
    except TooLarge:
        assume(False)
    assert faster is None, (proofs, faster)


def test_a_rank_that_gathers_through_one_port_needs_an_alpha_for_each_doubling() -> None:
    """1, 2, 4 chunks come in groups as large as what their senders hold: 3 alphas and 7 bodies."""
    copies = problem(one_port(8, 10.0, 1.0), "allgather")
    bound = gather_time(copies, known_us=10.0)
    assert is_just_below(bound.value_us, 3 * 10.0 + 7 * 1.0)
    assert bound.witness == "some rank receives 7 chunks, in growing groups"


@pytest.mark.parametrize("backwards", [False, True])
def test_along_a_chain_a_rank_waits_for_all_that_came_there_before_its_last_group(backwards: bool) -> None:
    """Four chunks of 1 us over three links with alphas of 2 us: two groups of 2, as in the best pipeline."""
    chain = machine(4, [(0, 1, 2.0, 1.0), (1, 2, 2.0, 1.0), (2, 3, 2.0, 1.0)])
    stated = problem(chain, "broadcast", 4)
    assert is_just_below(gather_time(stated, 1.0, backwards).value_us, 2 * (2.0 + 2.0) + 2 * (2.0 + 2.0))
    assert fastest(stated).makespan_us == pytest.approx(16.0)


def test_groups_that_may_not_be_larger_than_one_chunk_do_not_double() -> None:
    copies = problem(one_port(4, 10.0, 1.0), "allgather", max_group=1)
    assert is_just_below(gather_time(copies, 10.0).value_us, 3 * 11.0)
    assert lower_bound(copies).value_us <= fastest(copies).makespan_us


def test_a_rank_holds_no_more_than_shortest_paths_can_have_brought() -> None:
    copies = problem(ring(4), "allgather")
    held = gathered_steps(copies)[0]
    assert [held.at(moment) for moment in range(8)] == [1, 1, 2, 2, 3, 3, 4, 4]


def test_chunks_that_may_not_use_a_link_do_not_come_by_it() -> None:
    """Rank 2's chunk must take its own dear link to rank 1, though 2 -> 0 -> 1 is fast."""
    links = [(0, 1, 1.0, 1.0), (2, 0, 1.0, 1.0), (2, 1, 10.0, 1.0), (1, 2, 1.0, 1.0)]
    may_use = np.ones((3, 4), dtype=np.bool_)
    may_use[2, 0] = False
    kept = problem(machine(3, links), "allgather", limits=RoutingLimits(may_use=may_use))
    held = gathered_steps(kept)[1]
    assert [held.at(moment) for moment in range(13)] == [1, 1] + [2] * 9 + [3, 3]


def test_what_enters_a_node_late_has_no_time_left_to_double_there() -> None:
    """4 chunks in one send, at 2 us the earliest: 2 + (10 + 4) us on the link, then two doublings of 1 us."""
    copies = problem(pairs_of_nodes(10.0, 1.0), "allgather")
    bound = staged_cut(copies, Cut(frozenset({4, 5, 6, 7}), "into node 1"), known_us=15.0)
    assert is_just_below(bound.value_us, 2.0 + 14.0 + 2.0)
    assert bound.witness == "4 chunks into node 1 through 0-4, gathered before and spread after"


def test_a_dear_alpha_is_paid_again_only_if_waiting_costs_more() -> None:
    """With an alpha of 1 us, each chunk as it comes: the last of four leaves at 2 us or later."""
    copies = problem(pairs_of_nodes(1.0, 4.0), "allgather")
    bound = staged_cut(copies, Cut(frozenset({4, 5, 6, 7}), "into node 1"), 10.0)
    together, apart = 2.0 + (1.0 + 16.0) + 2.0, (1.0 + 4.0) + (1.0 + 12.0) + 2.0
    assert is_just_below(bound.value_us, min(together, apart))


def test_the_entry_bound_of_two_pairs_of_ranks_is_met() -> None:
    """Chunk 2 is late at rank 3, so both it and chunk 3 pay an alpha: 12 + 12 us, then 2 us to rank 1."""
    copies = problem(two_nodes(), "allgather")
    bound = staged_cut(copies, Cut(frozenset({0, 1}), "into node 0"), 10.0)
    assert is_just_below(bound.value_us, 26.0)
    assert fastest(copies).makespan_us == pytest.approx(26.0)
    assert lower_bound(copies) == max(all_bounds(copies), key=lambda each: each.value_us)


def test_chunks_from_one_rank_to_different_ranks_spread_like_one_chunk() -> None:
    everyone = np.ones(4, dtype=np.bool_)
    scattered = problem(ring(4), "alltoall", 2)
    sets = disjoint_sets(Instance(scattered), np.arange(scattered.num_chunks), everyone)
    wanted = scattered.collective.post
    for number in np.unique(sets):
        assert wanted[sets == number].sum(axis=0).max() == 1
    assert len(np.unique(sets)) == 4 * 2
    gathered = problem(ring(4), "allgather", 2)
    assert len(np.unique(disjoint_sets(Instance(gathered), np.arange(8), everyone))) == 8


def test_what_has_collected_little_and_what_has_no_time_left_to_spread_is_worth_little() -> None:
    """A switch of four: each of 4 sums comes from 3 ranks to one port, 4 at a time, in 2 rounds of 1.08."""
    sums = problem(one_port(4, 1.0, 0.02), "allreduce")
    for ranks in ((0,), (1, 2, 3)):
        bound = staged_cut(sums, Cut(frozenset(ranks), "there"), known_us=2.0)
        assert is_just_below(bound.value_us, 2 * (1.0 + 4 * 0.02)), "as long as recursive doubling takes"
        assert bound.witness.startswith("4 sums there through ")


def test_a_sum_of_two_nodes_is_doubled_inside_crosses_and_is_spread_inside() -> None:
    """Four ranks behind a switch each, joined at 0 and 4: 2 rounds of 1 us, 10 + 1 us between, 2 rounds."""
    everyone = tuple(range(8))
    one = Problem(pairs_of_nodes(10.0, 1.0), custom(8, [(everyone, everyone, True)]), 1.0)
    bound = lower_bound(one)
    assert is_just_below(bound.value_us, 2.0 + 11.0 + 2.0)
    assert bound.kind == "staged-cut"


def test_a_port_that_is_busy_at_the_beginning_of_a_send_is_busy_at_its_end_backwards() -> None:
    """A sum for rank 0, whose port in serves 3 for 1 us from 0 us on, and then 2, with what 1 sent it: 3 us.

    Copies from rank 0 on the reversed links take 4: its port out is busy with 3 first, or 3 is served late.
    """
    links = [(1, 2, 0.0, 1.0), (2, 0, 0.0, 2.0), (3, 0, 2.0, 1.0)]
    sums = Problem(
        machine(4, links, "pipelined", shared=[(1, 2)]), custom(4, [((0, 1, 2, 3), (0,), True)]), 1.0
    )
    assert not sums.topology.reads_backwards
    assert fastest(sums).makespan_us == pytest.approx(3.0)
    assert fastest(sums.reversed()).makespan_us == pytest.approx(4.0)
    assert is_just_below(broadcast_time(sums.reversed(), 3.0).value_us, 4.0)
    assert is_just_below(broadcast_time(sums.reversed(), 3.0, backwards=True).value_us, 3.0)
    assert is_just_below(lower_bound(sums).value_us, 3.0)


def test_with_one_alpha_on_each_port_backwards_is_counted_as_forwards() -> None:
    pipelined = problem(one_port(5, 1.0, 2.0, "pipelined"), "broadcast")
    assert informed_steps(pipelined, at_ends=True) == informed_steps(pipelined)
    gather = problem(pipelined.topology, "allgather")
    assert gathered_steps(gather, at_ends=True) == gathered_steps(gather)


@settings(max_examples=examples(7), deadline=None)
@given(networks(alphas=(0.0, 1.0, 2.0), betas=(1.0, 2.0, 3.0)), st.sampled_from([1, 2, 71]), st.booleans())
def test_the_steps_are_what_the_recurrences_say(topology: LogicalTopology, most: int, at_ends: bool) -> None:
    """With costs that are whole ticks, at each tick what is written in the docstring of `steps`."""
    stated = problem(topology, "allgather", max_group=most)
    for steps, said in (
        (informed_steps(stated, at_ends), Recurrences(stated, at_ends).informed(60)),
        (gathered_steps(stated, at_ends), Recurrences(stated, at_ends).gathered(60)),
    ):
        for rank in range(topology.num_ranks):
            assert [steps[rank].at(tick * _TICK_US + 1e-9) for tick in range(60)] == [
                row[rank] for row in said
            ]


#: All costs of `networks` with whole alphas and betas are multiples of it.
_TICK_US = 0.25


class Recurrences:
    """The recurrences of `steps`, tick by tick; every send takes a tick or more."""

    def __init__(self, stated: Problem, at_ends: bool) -> None:
        self.stated, self.at_ends, topology = stated, at_ends, stated.topology
        self.links, self.ranks = range(topology.num_links), range(topology.num_ranks)
        self.ends = list(zip(topology.src.tolist(), topology.dst.tolist(), strict=True))
        self.far = Instance(stated).distances_us / _TICK_US

    def costs(self, link: int, pair: int, many: int) -> tuple[float, float]:
        """How long so many chunks take, and keep the port of a pair busy, in ticks."""
        topology, size_mb = self.stated.topology, np.array([many * self.stated.chunk_mb])
        takes = topology.duration_us(np.array([link]), size_mb)
        busy = topology.port_busy_us(np.array([pair]), size_mb)
        return float(takes[0]) / _TICK_US, float(busy[0]) / _TICK_US

    def slots(self, end: int) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """For each rank at that end of links and each port the links that share it, with their pairs."""
        topology, slots = self.stated.topology, {}
        pairs = port_at_end(self.stated, (topology.src, topology.dst)[end])
        for link in self.links:
            key = self.ends[link][end], int(topology.incidence[1][pairs[link]])
            slots.setdefault(key, []).append((link, int(pairs[link])))
        return slots

    def informed(self, ticks: int) -> list[list[int]]:
        wants = [True for _ in self.ranks]
        w: list[list[int]] = []
        served: dict[tuple[int, int], list[int]] = {slot: [] for slot in self.slots(0)}
        for now in range(ticks):
            row = [int(each) for each in wants]
            for slot, links in self.slots(0).items():
                costs = [(self.ends[link][1], *self.costs(link, pair, 1)) for link, pair in links]
                once = sum(_ago(w, now, takes, dst) for dst, takes, _ in costs)
                if all(busy for *_, busy in costs):
                    turns = max(
                        _ago(w, now, busy if self.at_ends else takes, dst) + _then(served[slot], now, busy)
                        for dst, takes, busy in costs
                    )
                    served[slot].append(turns if self.at_ends else min(turns, once))
                    lag = min(takes - busy for _, takes, busy in costs) if self.at_ends else 0
                    once = min(once, _then(served[slot], now, lag))
                row[slot[0]] += once
            near = [sum(self.far[rank][to] <= now for to in self.ranks if wants[to]) for rank in self.ranks]
            w.append([min(one, other) for one, other in zip(row, near, strict=True)])
        return w

    def gathered(self, ticks: int) -> list[list[int]]:
        chunks, many = range(self.stated.num_chunks), self.stated.num_chunks
        start = [int(rank) for rank in self.stated.collective.source]
        k: list[list[int]] = []
        came: dict[tuple[int, int], list[int]] = {slot: [] for slot in self.slots(1)}
        lags = dict.fromkeys(came, 0.0)
        for slot, links in self.slots(1).items():
            if not self.at_ends:
                lags[slot] = min(np.subtract(*self.costs(link, pair, 1)) for link, pair in links)
        for now in range(ticks):
            row = [start.count(rank) for rank in self.ranks]
            for slot, links in self.slots(1).items():
                groups = [
                    (self.ends[link][0], n, *self.costs(link, pair, n))
                    for link, pair in links
                    for n in range(1, min(many, self.stated.max_group) + 1)
                ]
                leave = [(src, n, takes if self.at_ends else busy, busy) for src, n, takes, busy in groups]
                count = sum(_ago(k, now, left, src) for src, n, left, _ in leave if n == 1)
                if all(busy for *_, busy in leave):
                    is_as_slow = self.stated.topology.port_betas is None or not self.at_ends
                    most = many if len(links) > 1 or not is_as_slow else 0
                    turns = (
                        min(
                            min(n, _ago(k, now, left, src)) + _then(came[slot], now, busy),
                            max(most, _ago(k, now, left, src)),
                        )
                        for src, n, left, busy in leave
                    )
                    count = min(count, max(turns))
                came[slot].append(min(count, many - start.count(slot[0])))
                row[slot[0]] += _then(came[slot], now, lags[slot])
            near = [sum(self.far[start[chunk]][rank] <= now for chunk in chunks) for rank in self.ranks]
            k.append([min(one, other) for one, other in zip(row, near, strict=True)])
        return k


def _ago(rows: list[list[int]], now: int, ticks: float, column: int) -> int:
    """What a column was so many ticks ago; 0 before the first."""
    return rows[round(now - ticks)][column] if ticks <= now else 0


def _then(column: list[int], now: int, ticks: float) -> int:
    return column[round(now - ticks)] if ticks <= now else 0


@pytest.mark.parametrize("at_ends", [False, True])
def test_compiled_loops_count_what_they_count_as_they_stand(at_ends: bool) -> None:
    stated = random_problem(random.Random(4), sums=False)
    plain = informed_steps(stated, at_ends), gathered_steps(stated, at_ends)
    with ahead_of_time():
        assert (informed_steps(stated, at_ends), gathered_steps(stated, at_ends)) == plain


@pytest.mark.parametrize("seed", range(20))
def test_on_a_coarser_grid_nothing_is_counted_later(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stated = random_problem(random.Random(seed), sums=False)

    def steps() -> list[Steps]:
        both = ([*informed_steps(stated, each), *gathered_steps(stated, each)] for each in (False, True))
        return [each for steps in both for each in steps]

    exact = steps()
    monkeypatch.setattr("taccl.encoding.bounds.steps.STEPS_LARGE_PAIRS", 0)
    monkeypatch.setattr("taccl.encoding.bounds.steps.STEPS_ON_A_GRID", 100)
    for one, other in zip(exact, steps(), strict=True):
        assert one.last <= other.last
        assert all(
            other.at(time_us + 1e-9) >= count for time_us, count in zip(one.times, one.counts, strict=True)
        )


def test_links_that_take_no_time_are_in_nobodys_way() -> None:
    free = problem(machine(3, [(0, 1, 0.0, 0.0), (1, 2, 1.0, 1.0), (2, 0, 1.0, 1.0)]), "allgather")
    kinds = {bound.kind: bound.value_us for bound in reversed(all_bounds(free))}
    assert kinds["gather-time"] == pytest.approx(4.0) == fastest(free).makespan_us
