"""The partition that is hardest to get sums and copies across, found."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem
from small_problems import custom, full, machine, problem, ring

from taccl.encoding.bounds import BOUNDS, Proof, proofs
from taccl.encoding.bounds.partitions import Counts, Partition
from taccl.encoding.bounds.spanning import kinds
from taccl.encoding.bounds.strength import STRENGTH
from taccl.encoding.bounds.tree_prices import best_prices
from taccl.encoding.bounds.views import views
from taccl.encoding.core.budget import Budget
from taccl.encoding.instance import Instance
from taccl.network import LogicalTopology
from taccl.problem import Problem, RoutingLimits

#: More work than any proof here takes.
_PLENTY = 1_000_000


def strength(stated: Problem, units: int = _PLENTY) -> Proof | None:
    """The best proof of that name, with nothing known before."""
    found = [p for p in proofs(Instance(stated), Budget.of_work(units), (STRENGTH,)) if p.kind == "strength"]
    return max(found, key=lambda proof: proof.value_us, default=None)


def others(stated: Problem) -> float:
    """The best of all other bounds that hold however finely chunks are cut."""
    rest = tuple(bound for bound in BOUNDS if bound is not STRENGTH)
    every = proofs(Instance(stated), Budget.of_work(_PLENTY), rest)
    return max(proof.value_us for proof in every if proof.holds_for_any_chunks)


def two_way(pairs: Sequence[tuple[int, int, float]]) -> LogicalTopology:
    """Links of no alpha, both ways, of these betas."""
    ranks = 1 + max(max(a, b) for a, b, _ in pairs)
    return machine(ranks, [link for a, b, c in pairs for link in ((a, b, 0.0, c), (b, a, 0.0, c))])


def grid(width: int, height: int, slow: dict[tuple[int, int], float]) -> LogicalTopology:
    """A mesh of links of 1 us per MB, but some."""
    right = [(r, r + 1) for r in range(width * height) if (r + 1) % width]
    down = [(r, r + width) for r in range(width * (height - 1))]
    return two_way([(a, b, slow.get((a, b), 1.0)) for a, b in right + down])


def all_partitions(ranks: int) -> Iterator[Partition]:
    for parts in itertools.product(range(ranks), repeat=ranks):
        if parts[0] == 0 and all(part <= max(parts[:at]) + 1 for at, part in enumerate(parts) if at):
            if max(parts):
                yield Partition(np.array(parts), "a partition")


@st.composite
def two_way_networks(draw: st.DrawFn) -> LogicalTopology:
    ranks = draw(st.integers(3, 5))
    pairs = {(draw(st.integers(0, r - 1)), r) for r in range(1, ranks)}
    pairs |= draw(st.sets(st.sampled_from([(a, b) for b in range(ranks) for a in range(b)])))
    return two_way([(a, b, draw(st.sampled_from([1.0, 2.0, 5.0, 1.0489130434782609]))) for a, b in sorted(pairs)])


@settings(max_examples=30, deadline=None)
@given(two_way_networks())
def test_on_two_way_links_it_is_the_worst_of_all_partitions(topology: LogicalTopology) -> None:
    """Tutte and Nash-Williams: 2 (parts - 1) through the links between the parts."""
    stated = problem(topology, "allreduce")
    instance, rate = Instance(stated), 1.0 / topology.beta_us_per_mb
    counts = instance.once(Counts)
    worst = max(
        counts.least_crossings(each) / rate[each.crossing(stated)].sum() for each in all_partitions(len(topology.node_of))
    )
    found = strength(stated)
    assert found is not None
    assert worst * (1 - 2e-3) <= found.value_us <= worst


def test_three_parts_that_are_neither_ranks_nor_nodes_are_found() -> None:
    """Three triangles of fast links in a ring of slow ones: 2 x 2 crossings over 6 slow links."""
    inside = [(a, b, 1.0) for t in (0, 3, 6) for a, b in ((t, t + 1), (t, t + 2), (t + 1, t + 2))]
    stated = problem(two_way([*inside, (0, 3, 10.0), (4, 6, 11.0), (7, 1, 12.0)]), "allreduce")
    found = strength(stated)
    assert found is not None
    rate = 2 * (1 / 10 + 1 / 11 + 1 / 12)
    assert found.value_us == pytest.approx(9 * 4 / rate, rel=1e-3)
    assert "3 parts {0, 1, 2} {3, 4, 5} {6, 7, 8}" in found.witness or "3 groups" in found.witness


def test_a_corner_of_a_mesh_with_slow_links_is_worse_than_any_partition_that_was_listed() -> None:
    slow = {(0, 1): 3.0, (0, 4): 3.0, (1, 2): 2.0, (5, 6): 2.0, (4, 8): 2.0, (5, 9): 2.0}
    stated = problem(grid(4, 4, slow), "allreduce")
    found = strength(stated)
    assert found is not None
    assert found.value_us > 1.02 * others(stated)
