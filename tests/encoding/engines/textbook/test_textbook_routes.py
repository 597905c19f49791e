"""What textbook algorithms go along: rings, chains, trees, sides of a torus, sums of steps."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from small_problems import (
    full,
    machine,
    ndv2_node,
    problem,
    ring,
    two_nodes,
)
from textbook_machines import all_built, railed_nodes, torus

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.textbook.bruck import addition_chain
from taccl.encoding.engines.textbook.cycles import chains, cycles, disjoint, snakes, through_doors
from taccl.encoding.engines.textbook.engine import built, of_libraries
from taccl.encoding.engines.textbook.grid import sides
from taccl.encoding.engines.textbook.trees import depths, double
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.solve import solve
from taccl.model.network import LogicalTopology
from taccl.support.budget import Budget


@pytest.mark.parametrize("n", range(1, 34))
def test_what_is_inside_one_of_two_trees_is_a_leaf_of_the_other(n: int) -> None:
    trees = double(n)
    inner = []
    for above in trees:
        (top,) = np.flatnonzero(above < 0).tolist()
        parents = np.delete(above, top).tolist()
        assert max(map(parents.count, parents), default=0) <= 2
        assert depths(above).max() <= n.bit_length()
        inner.append(set(parents) - {top})
    assert len(inner) == 1 or not inner[0] & inner[1]


# Rings.


def test_rank_order_is_a_ring_where_there_are_the_links() -> None:
    assert cycles(problem(ring(5), "allgather"))[0] == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    "topology",
    [torus(4, 4), torus(3, 5), ndv2_node(), full(6), railed_nodes(2, 4), two_nodes()],
    ids=["torus:4x4", "torus:3x5", "ndv2", "full:6", "rails", "two nodes"],
)
def test_a_ring_passes_every_rank_once_over_links_that_are_there(topology: LogicalTopology) -> None:
    small = problem(topology, "allgather")
    found = cycles(small)
    assert found
    for cycle in [*found, *through_doors(small)]:
        assert sorted(cycle) == list(range(small.num_ranks))
        assert all(pair in topology.link_index for pair in pairwise((*cycle, cycle[0])))
    links = [set(pairwise((*cycle, cycle[0]))) for cycle in disjoint(found, both_directions=True)]
    assert sum(map(len, links)) == len(set.union(*links))


def test_the_ring_of_double_links_of_an_ndv2_node_is_found() -> None:
    """23 us per MB on every link: the cycle 0 1 3 2 6 7 5 4 and its reverse are all that there are."""
    small = problem(ndv2_node(), "allgather")
    assert (0, 1, 3, 2, 6, 7, 5, 4) in cycles(small) or (0, 4, 5, 7, 6, 2, 3, 1) in cycles(small)
    assert min(all_built(small).values()) <= 7 * 23.3 + 1e-6


def ring_with_chords(ranks: int, seed: int) -> LogicalTopology:
    """A ring one way through the ranks in a random order, and random links one way next to it."""
    dice = random.Random(seed)
    order = dice.sample(range(ranks), ranks)
    chords = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and dice.random() < 0.15]
    links = sorted({*pairwise((*order, order[0])), *chords})
    return machine(ranks, [(a, b, 1.0, 1.0) for a, b in links])


@pytest.mark.parametrize("seed", range(5))
def test_an_allreduce_goes_round_a_ring_that_leads_one_way(seed: int) -> None:
    """Sums n - 1 steps the way of the links, then copies n - 1 steps the same way: 2 * 9 * (1 + 1)."""
    small = problem(ring_with_chords(10, seed), "allreduce")
    assert min(all_built(small).values()) <= 36.0
    times = all_built(problem(ring(5), "allreduce"))
    assert times == {"ring, sums the same way": pytest.approx(2 * 4 * 2.0)}


def test_a_ring_one_way_down_the_ranks_is_a_ring() -> None:
    down = machine(5, [((rank + 1) % 5, rank, 1.0, 1.0) for rank in range(5)])
    assert cycles(problem(down, "allgather"))[0] == (0, 4, 3, 2, 1)


@pytest.mark.parametrize("seed", [1, 3, 4])
def test_a_walk_takes_ranks_first_that_have_few_ways_in(seed: int) -> None:
    assert cycles(problem(ring_with_chords(16, seed), "allgather"))


def test_a_machine_without_a_ring_has_none() -> None:
    hub = machine(4, [link for r in range(1, 4) for link in ((0, r, 1.0, 1.0), (r, 0, 1.0, 1.0))])
    assert cycles(problem(hub, "allgather")) == []
    assert chains(problem(hub, "broadcast"), 0) == []
    line = machine(3, [(0, 1, 1.0, 1.0), (1, 2, 1.0, 1.0)])
    assert chains(problem(line, "broadcast"), 0) == [(0, 1, 2)]


def test_rings_over_nodes_enter_and_leave_by_different_ranks() -> None:
    """With links between any two ranks of two nodes, four rings use each rank's way in and out once."""
    ranks = range(8)
    links = [(a, b, 1.0, 1.0 if a // 4 == b // 4 else 9.0) for a in ranks for b in ranks if a != b]
    small = problem(machine(8, links, node_of=[0] * 4 + [1] * 4), "allgather")
    crossings = [
        [pair for pair in pairwise((*ring, ring[0])) if pair[0] // 4 != pair[1] // 4]
        for ring in through_doors(small)
    ]
    assert [len(each) for each in crossings] == [2] * 4
    assert len({a for each in crossings for a, _ in each}) == 8


def mesh(rows: int, columns: int) -> LogicalTopology:
    """Links between neighbours, none round the edges."""
    place = {(y, x): y * columns + x for y in range(rows) for x in range(columns)}
    near = [(a, b) for a in place for b in place if abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    return machine(rows * columns, [(place[a], place[b], 1.0, 1.0) for a, b in near])


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (4, 3), (3, 4), (4, 4)])
def test_a_mesh_with_an_even_side_has_a_ring(rows: int, columns: int) -> None:
    found = cycles(problem(mesh(rows, columns), "allgather"))
    assert found
    for cycle in found:
        assert sorted(cycle) == list(range(rows * columns))


def test_a_snake_goes_past_all_ranks_of_a_grid_of_three_axes() -> None:
    """From neighbour to neighbour on 2 x 3 x 4, and back to where it began."""
    where = [np.array(place) for place in np.ndindex(2, 3, 4)]
    steps = [
        max(int(np.abs(where[a] - where[b]).sum()) for a, b in pairwise((*snake, snake[0])))
        for snake in snakes(24)
    ]
    assert 1 in steps


# Sums.


@pytest.mark.parametrize("n", range(1, 200))
def test_an_addition_chain_adds_an_earlier_number_to_the_last(n: int) -> None:
    chain = addition_chain(n)
    assert chain[0] == 1 and chain[-1] == n
    assert all(after - before in chain[: chain.index(after)] for before, after in pairwise(chain))
    assert len(chain) - 1 <= 2 * math.log2(n) + 1e-9


# The engine.


def two_cpus(between: float) -> LogicalTopology:
    """Four GPUs at each of two CPUs: a way into and out of each GPU, 1 us per MB; one way between the CPUs in
    each direction, for all that cross."""
    pairs = [(a, b) for a in range(8) for b in range(8) if a != b]
    crosses = [a // 4 != b // 4 for a, b in pairs]
    links = [
        (a, b, 1.5, between) if c else (a, b, 1.0, 1.0) for (a, b), c in zip(pairs, crosses, strict=True)
    ]
    out = [[link for link, (a, _) in enumerate(pairs) if a == rank] for rank in range(8)]
    into = [[link for link, (_, b) in enumerate(pairs) if b == rank] for rank in range(8)]
    there = [link for link, (a, b) in enumerate(pairs) if a < 4 <= b]
    back = [link for link, (a, b) in enumerate(pairs) if b < 4 <= a]
    return machine(8, links, shared=[*out, *into, there, back])


def test_a_plain_ring_is_found_on_two_cpus() -> None:
    """A way between CPUs as fast as a GPU's is used once in each direction in every step of a ring."""
    updates = solve(problem(two_cpus(1.0), "allgather", chunk_mb=128.0), SearchOptions("textbook", 30.0))
    times = [update.schedule.makespan_us for update in updates if update.schedule is not None]
    assert times[-1] <= 7 * (1.5 + 128.0) + 1e-6


def test_sides_of_a_torus() -> None:
    assert next(sides(12)).shape in ((3, 4), (4, 3))
    assert not list(sides(7))


@pytest.mark.parametrize(("shares", "shape"), [(2, (2, 36)), (3, (3, 24)), (4, (4, 18))])
def test_one_grid_has_as_few_ranks_on_an_axis_as_there_must_be_shares(
    shares: int, shape: tuple[int, int]
) -> None:
    """The most even grids of 72 ranks have sides of three and more."""
    assert [grid.shape for grid in sides(72, shares)] == [*(grid.shape for grid in sides(72)), shape]
    assert [grid.shape for grid in sides(12, shares)] == [grid.shape for grid in sides(12)]


def test_libraries_have_trees_of_nodes_and_no_grids_or_pipelines() -> None:
    instance = Instance(problem(railed_nodes(4, 2), "allreduce"))
    names = {name.partition(", ")[0] for name, _ in of_libraries(instance, Budget.of_work(20_000))}
    assert "double binary tree of nodes" in names
    assert not any("along axis" in name or name.startswith(("pipeline", "gateways")) for name in names)
    every = {name.partition(", ")[0] for name, _ in built(instance, Budget.of_work(20_000))}
    assert any("along axis" in name for name in every)
