"""The bottleneck cut: the set of ranks whose ports are the narrowest for what must pass them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_problems import full, machine, problem, two_nodes

from taccl.encoding import bounds
from taccl.encoding.bounds import Proof
from taccl.encoding.bounds.bottleneck import bottleneck_cut
from taccl.encoding.bounds.cuts import Cut, simple_cuts
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: More work than any proof here takes: what is proved does not depend on the clock.
_PLENTY = 1_000_000


def lower_bound(stated: Problem) -> Proof:
    return bounds.lower_bound(stated, Budget.of_work(_PLENTY))


def _bottleneck(stated: Problem) -> Cut | None:
    return bottleneck_cut(Instance(stated))


def test_the_bottleneck_cut_may_be_neither_a_rank_nor_a_node() -> None:
    """Two pairs of ranks with fast links inside and slow ones between, on what is called one node."""
    inside = [(a, b, 0.0, 1.0) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    between = [(a, b, 0.0, 4.0) for a, b in ((0, 2), (2, 0), (1, 3), (3, 1))]
    pieces = problem(machine(4, inside + between), "allgather", 4)
    cut = _bottleneck(pieces)
    assert cut is not None
    assert cut.ranks in ({0, 1}, {2, 3})
    bound = lower_bound(pieces)
    assert bound.value_us == pytest.approx(16.0), "8 chunks over two links of 4 us, none inside before 4"
    assert "{" in bound.witness


def _chunks_per_rate(problem: Problem, inside: set[int]) -> float:
    topology = problem.topology
    rate = sum(
        1.0 / topology.beta_us_per_mb[link]
        for link in range(topology.num_links)
        if topology.src[link] not in inside and topology.dst[link] in inside
    )
    outside = [rank for rank in range(problem.num_ranks) if rank not in inside]
    return float(problem.collective.pre[:, outside].sum() / rate)


@st.composite
def _measured(draw: st.DrawFn) -> LogicalTopology:
    """Plain links whose betas were measured: many decimals, and perhaps far from each other."""
    ranks = draw(st.integers(2, 5))
    pairs = {(r, (r + 1) % ranks) for r in range(ranks)}
    pairs |= draw(st.sets(st.sampled_from([(a, b) for a in range(ranks) for b in range(ranks) if a != b])))
    return machine(ranks, [(a, b, 0.0, draw(st.floats(1e-3, 1e3))) for a, b in sorted(pairs)])


@settings(max_examples=60, deadline=None)
@given(_measured(), st.sampled_from(["allgather", "broadcast"]))
def test_the_bottleneck_cut_is_the_best_of_all_sets_of_ranks(topology: LogicalTopology, name: str) -> None:
    copies = problem(topology, name)
    cut = _bottleneck(copies)
    assert cut is not None
    ranks = range(topology.num_ranks)
    sets = [set(s) for size in range(1, len(ranks)) for s in itertools.combinations(ranks, size)]
    best = max(_chunks_per_rate(copies, inside) for inside in sets)
    assert _chunks_per_rate(copies, set(cut.ranks)) == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("fast", [1e-6, 1e-9, 1e-12])
def test_a_link_far_faster_than_the_narrow_ones_does_not_break_the_bottleneck_cut(fast: float) -> None:
    links = [(0, 1, 0.0, fast), (1, 0, 0.0, fast), (1, 2, 0.0, 7.3), (2, 0, 0.0, 11.9)]
    copies = problem(machine(3, links), "allgather")
    with np.errstate(all="raise"):
        assert _bottleneck(copies) is not None
    assert lower_bound(copies).value_us == pytest.approx(2 * 7.3, rel=1e-6)


def test_of_two_narrow_links_much_alike_the_narrower_is_found() -> None:
    """A ring with links of 441.5 and 442 us per MB, next to one that is 50 000 times faster."""
    betas = [1.0, 1.0, 441.5, 442.0, 0.0078125]
    cut = _bottleneck(
        problem(machine(5, [(i, (i + 1) % 5, 0.0, b) for i, b in enumerate(betas)]), "allgather")
    )
    assert cut is not None
    assert cut.ranks == {4}


def test_the_bottleneck_cut_sees_that_links_share_a_port() -> None:
    """All that leaves rank 0 passes one port, so everyone else is short of rank 0's chunks."""
    links = [(0, r, 0.0, 1.0) for r in (1, 2, 3)] + [
        (a, b, 0.0, 1.0) for a in (1, 2, 3) for b in range(4) if a != b
    ]
    shared = problem(machine(4, links, shared=[(0, 1, 2)]), "broadcast", 5)
    cut = _bottleneck(shared)
    assert cut is not None
    assert cut.ranks == {1, 2, 3}


def test_the_bottleneck_cut_is_not_asked_for_where_it_has_no_meaning() -> None:
    assert _bottleneck(problem(full(3), "alltoall")) is None
    assert _bottleneck(problem(full(3), "reducescatter")) is None
    assert _bottleneck(problem(full(3, beta=0.0), "allgather")) is None
    assert _bottleneck(problem(machine(1, []), "allgather")) is None


def test_ranks_nodes_and_their_complements_are_always_cut() -> None:
    cuts = {cut.ranks for cut in simple_cuts(Instance(problem(two_nodes(), "allgather")))}
    alone = {frozenset({r}) for r in range(4)}
    assert alone | {frozenset(range(4)) - {r} for r in range(4)} <= cuts
    assert {frozenset({0, 1}), frozenset({2, 3})} <= cuts
