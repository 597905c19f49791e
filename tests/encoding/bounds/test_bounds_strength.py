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
from taccl.encoding.instance import Instance
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget

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
    """Links of no alpha, both directions, of these betas."""
    ranks = 1 + max(max(a, b) for a, b, _ in pairs)
    return machine(ranks, [link for a, b, c in pairs for link in ((a, b, 0.0, c), (b, a, 0.0, c))])


def grid(width: int, height: int, slow: dict[tuple[int, int], float]) -> LogicalTopology:
    """A mesh of links of 1 us per MB, but some."""
    right = [(r, r + 1) for r in range(width * height) if (r + 1) % width]
    down = [(r, r + width) for r in range(width * (height - 1))]
    return two_way([(a, b, slow.get((a, b), 1.0)) for a, b in right + down])


def all_partitions(ranks: int) -> Iterator[Partition]:
    for parts in itertools.product(range(ranks), repeat=ranks):
        in_order = all(part <= max(parts[:at], default=-1) + 1 for at, part in enumerate(parts))
        if in_order and max(parts):
            yield Partition(np.array(parts), "a partition")


@st.composite
def two_way_networks(draw: st.DrawFn) -> LogicalTopology:
    ranks = draw(st.integers(3, 5))
    pairs = {(draw(st.integers(0, r - 1)), r) for r in range(1, ranks)}
    pairs |= draw(st.sets(st.sampled_from([(a, b) for b in range(ranks) for a in range(b)])))
    return two_way(
        [(a, b, draw(st.sampled_from([1.0, 2.0, 5.0, 1.0489130434782609]))) for a, b in sorted(pairs)]
    )


@settings(max_examples=12, deadline=None)
@given(two_way_networks())
def test_on_two_way_links_it_is_the_worst_of_all_partitions(topology: LogicalTopology) -> None:
    """Tutte and Nash-Williams: 2 (parts - 1) through the links between the parts."""
    stated = problem(topology, "allreduce")
    instance, rate = Instance(stated), 1.0 / topology.beta_us_per_mb
    counts = instance.once(Counts)
    worst = max(
        counts.least_crossings(each) / rate[each.crossing(stated)].sum()
        for each in all_partitions(len(topology.node_of))
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


def test_parts_that_no_list_has_are_found() -> None:
    """All that leads to 2 or to 3 shares a port: 2 x 2 crossings of each of 4 chunks, one by one."""
    links = [(0, 1, 0.0, 1.0), (1, 0, 0.0, 1.0)]
    links += [(0, 2, 0.0, 1.0), (2, 0, 0.0, 1.0), (1, 3, 0.0, 1.0), (3, 1, 0.0, 1.0)]
    stated = problem(machine(4, links, shared=[(2, 3, 4, 5)]), "allreduce")
    found = strength(stated)
    assert found is not None
    assert found.value_us == pytest.approx(16.0)
    assert found.witness == "transfers between 3 parts {0, 1} {2} {3} through 1 ports"
    assert others(stated) == pytest.approx(8.0)


def test_two_partitions_together_prove_more_than_each_alone() -> None:
    """Ports of ranks, one out and one in: 0 must serve 1, which hangs on it, and one of the far pair."""
    pairs = [(0, 1, 1.0), (0, 2, 4.0), (0, 3, 4.0), (2, 3, 1.0)]
    ends = [(a, b) for a, b, _ in pairs for a, b in ((a, b), (b, a))]
    one_way = [[i for i, link in enumerate(ends) if link[end] == r] for end in (0, 1) for r in range(4)]
    stated = problem(
        machine(4, [(a, b, 0.0, c) for x, y, c in pairs for a, b in ((x, y), (y, x))], shared=one_way),
        "allreduce",
    )
    found = strength(stated)
    assert found is not None
    # Each of 4 chunks enters and leaves rank 0 once on the link of 1 us, and once on one of 4 us.
    assert found.value_us == pytest.approx(20.0)
    assert "between 2" in found.witness
    assert "{2, 3} {0} {1}" in found.witness
    assert others(stated) == pytest.approx(16.0)


def test_any_prices_are_a_proof() -> None:
    """However little work: what it yields is never above what it comes to, and better and better."""
    stated = problem(grid(4, 3, {(0, 1): 2.0, (5, 6): 3.0}), "allreduce")
    at_last = strength(stated)
    assert at_last is not None
    values = [p.value_us for u in (1, 3, 10, 50) if (p := strength(stated, u)) is not None]
    assert values == sorted(values)
    assert values[-1] <= at_last.value_us


def test_helpers_are_no_parts() -> None:
    """Three ranks round a helper: no partition counts it, and sums may be made there: 3 in and 3 out."""
    star = machine(4, [(a, b, 0.0, 1.0) for r in range(3) for a, b in ((r, 3), (3, r))])
    helped = Problem(
        replace(star, is_helper=np.arange(4) == 3), make_collective("allreduce", 3).with_helpers(1), 1.0
    )
    found = strength(helped)
    assert found is not None
    assert 0 < found.value_us <= 3.0


def test_links_that_chunks_may_not_use_join_no_parts() -> None:
    """Chunks of 0 may not use the fast pair 0 - 1, so they cost the slow ones."""
    topology = two_way([(0, 1, 1.0), (1, 2, 5.0), (0, 2, 5.0)])
    allowed = np.ones((3, topology.num_links), dtype=np.bool_)
    allowed[:, [topology.link_index[pair] for pair in ((0, 1), (1, 0))]] = False
    free = strength(problem(topology, "allreduce"))
    limited = strength(problem(topology, "allreduce", limits=RoutingLimits(may_use=allowed)))
    assert free is not None and limited is not None
    assert limited.value_us == pytest.approx(3 * 4 * 5 / 4)
    assert free.value_us < limited.value_us


def test_sizes_count_as_they_are() -> None:
    topology = two_way([(0, 1, 1.0), (1, 2, 1.0)])
    plain = problem(topology, "allreduce")
    unequal = strength(replace(plain, sizes=np.array([1.0, 2.0, 6.0])))
    equal = strength(plain)
    assert equal is not None and unequal is not None
    assert unequal.value_us == pytest.approx(3 * equal.value_us)


@pytest.mark.parametrize("name", ["alltoall", "gather", "scatter"])
def test_what_goes_from_one_to_one_spans_nothing(name: str) -> None:
    stated = problem(full(4), name)
    assert not kinds(views(Instance(stated))[0])
    assert strength(stated) is None


def test_copies_need_a_tree_once_and_sums_to_one_rank_too() -> None:
    topology = ring(5, both=True)
    once = [strength(problem(topology, name)) for name in ("allgather", "reducescatter")]
    twice = strength(problem(topology, "allreduce"))
    assert twice is not None
    assert [found.value_us for found in once if found] == pytest.approx([twice.value_us / 2] * 2)


def test_sums_for_some_are_spanned_by_their_contributors_and_by_those_who_want_them() -> None:
    """0, 1 and 2 contribute, 2 and 3 want the sum, on a path: 2 crossings, then 1."""
    path = two_way([(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)])
    stated = Problem(path, custom(4, [((0, 1, 2), (2, 3), True)]), 1.0)
    found = kinds(views(Instance(stated))[0])
    assert sorted(int(kind.members.sum()) for kind in found) == [2, 3]
    assert strength(stated) is not None


def test_it_stops_where_more_is_known_than_it_could_prove() -> None:
    stated = problem(grid(3, 3, {}), "allreduce")
    instance = Instance(stated)
    first = [np.full(stated.topology.num_ports, 1 / stated.topology.num_ports)]
    spans = kinds(views(instance)[0])
    budget, plenty = Budget.of_work(_PLENTY), 1e9
    before = budget.read_s()
    assert len(list(best_prices(instance, spans, first, budget, plenty))) >= 1
    assert budget.read_s() - before < 1.0


def test_prices_that_a_mix_of_trees_proves_the_best_end_the_search() -> None:
    """All ten links of a ring are equivalent, so one price for all is the best: a tree or two, not a
    hundred."""
    instance = Instance(problem(ring(5, both=True), "allgather"))
    budget = Budget.of_work(_PLENTY)
    before = budget.read_s()
    (best,) = best_prices(instance, kinds(views(instance)[0]), (), budget)
    assert best.value_us == pytest.approx(5 * 4 / 10)
    assert budget.read_s() - before < 0.01


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_same_work_proves_the_same(seed: int) -> None:
    stated = random_problem(random.Random(seed), sums=True)
    once, again = (list(proofs(Instance(stated), Budget.of_work(100), (STRENGTH,))) for _ in range(2))
    assert once == again
