"""Which algorithms on grids there are for a problem, and about how much work each is to build."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, permutations, product, zip_longest

import numpy as np

from taccl.encoding.engines.textbook.algorithm import Algorithm, InVariants
from taccl.encoding.engines.textbook.all_pairs import ALL_PAIRS
from taccl.encoding.engines.textbook.bruck import BRUCK, PAT
from taccl.encoding.engines.textbook.cycles import chains, cycles, disjoint, is_ring, through_doors
from taccl.encoding.engines.textbook.doors import by_doors
from taccl.encoding.engines.textbook.doubling import DOUBLING
from taccl.encoding.engines.textbook.gateways import by_copy_gateways, by_gateways
from taccl.encoding.engines.textbook.grid import GridAlgorithm, Stage, by_nodes, cubes, sends_of, sides
from taccl.encoding.engines.textbook.leaders import by_leaders
from taccl.encoding.engines.textbook.line import LineAlgorithm
from taccl.encoding.engines.textbook.lines import (
    LINE_ALGORITHMS,
    for_all,
    lines_along,
    lines_for,
    routes_of,
    spreads_of,
    totals_along,
    totals_of,
)
from taccl.encoding.engines.textbook.node_rounds import by_copy_rounds, by_sum_rounds
from taccl.encoding.engines.textbook.offsets import by_offsets
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.pipelines import by_pipelines
from taccl.encoding.engines.textbook.ring import RING, RING_BOTH_DIRECTIONS
from taccl.encoding.engines.textbook.scattered import by_scattering
from taccl.encoding.engines.textbook.shortest_ways import by_shortest_ways
from taccl.encoding.engines.textbook.sum_gateways import by_node_sums, by_sum_gateways
from taccl.encoding.engines.textbook.trees import on_trees
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem

#: One algorithm as plans: one for each variant.
Plans = tuple[GridAlgorithm, ...]
#: Axes with the algorithms along them.
Along = tuple[Stage, ...]


def algorithms(problem: Problem, parts: Parts) -> Iterator[Algorithm]:
    """All that there are, whether or not the machine has the links; the best known first, variants last."""
    ranks = problem.num_ranks
    yield from _of_plans(problem, parts, _on_lines(problem, parts))
    yield from on_trees(problem, parts)
    yield from by_shortest_ways(problem, parts)
    on_grids = list(_on_grids(problem, parts))
    usual = _of_plans(problem, parts, (plans for plans in on_grids if not _is_variant(plans)))
    # Which of both are faster, sizes say; so each has its turn, however short the time is.
    for both in zip_longest(usual, _of_nodes(problem, parts)):
        yield from (each for each in both if each is not None)
    over_axes = _over_axes(problem, parts)
    yield from by_scattering(problem, parts, routes_of(ranks), spreads_of(ranks), over_axes)
    yield from _of_plans(problem, parts, (plans for plans in on_grids if _is_variant(plans)))


def _of_nodes(problem: Problem, parts: Parts) -> Iterator[Algorithm]:
    """Those in which some ranks speak for their node."""
    nodes = problem.topology.num_nodes
    size = problem.num_ranks // max(1, nodes)
    yield from by_leaders(problem, parts, spreads_of(nodes), totals_of(nodes))
    yield from by_gateways(problem, parts, routes_of)
    yield from by_copy_gateways(problem, parts, spreads_of, DOUBLING)
    yield from by_copy_rounds(problem, parts, spreads_of)
    yield from by_node_sums(problem, parts, totals_of)
    yield from by_sum_rounds(problem, parts, totals_of)
    if nodes > 1:
        inside = totals_of(size)
        yield from by_doors(problem, parts, spreads_of, totals_of)
        yield from by_pipelines(problem, parts, inside, totals_of(nodes))
        yield from by_sum_gateways(problem, parts, inside, inside)


def algorithm_named(
    problem: Problem, parts: Parts, name: str, orders: Sequence[Sequence[int]] | None = None
) -> Algorithm:
    """The algorithm of that name; `orders` : the ranks in the order in which they stand, for each channel.

    Raises
    ------
    KeyError : there is none for this demand and number of ranks.
    """
    every = algorithms(problem, parts) if orders is None else _on_orders(problem, parts, orders)
    several = f"{len(orders or ())} routes: "
    return {algorithm.name.removeprefix(several): algorithm for algorithm in every}[name]


def _on_orders(problem: Problem, parts: Parts, orders: Sequence[Sequence[int]]) -> Iterator[Algorithm]:
    """All algorithms for ranks in a line, on given lines of this length, whether or not there are links."""
    lines = [algorithm for algorithm in LINE_ALGORITHMS if algorithm.fits(problem.num_ranks)]
    staged = (algorithm for algorithm in lines if parts.kind != "routed" or algorithm.route)
    every = [tuple(_one(order, algorithm) for order in orders) for algorithm in staged]
    if parts.kind == "summed":
        every += list(_with_sums_ahead(every))
        wholes = (algorithm for algorithm in lines if algorithm.total)
        every += [tuple(_whole_buffers(order, algorithm) for order in orders) for algorithm in wholes]
    yield from (_algorithm(plans, parts) for plans in every)
    yield from on_trees(problem, parts, orders[0])


def _is_variant(plans: Plans) -> bool:
    """Whether other plans are mostly as good."""
    return any(algorithm.is_variant for _, algorithm in (*plans[0].stages, *plans[0].whole))


def _of_plans(problem: Problem, parts: Parts, every: Iterator[Plans]) -> Iterator[Algorithm]:
    """Plans as algorithms; some that lack a link are left out."""
    topology, between_all = problem.topology, parts.is_between_all(problem.num_ranks)
    index, by_end = topology.link_index, topology.num_nodes == 1 and _has_several_ways(topology)
    for plans in _with_sums_ahead(every) if parts.kind == "summed" and _has_one_way(problem) else every:
        if between_all and not all(plan.has_links(index, parts.stages) for plan in plans):
            continue
        yield _algorithm(plans, parts, by_end and plans[0].grid.ndim > 1)


def _algorithm(plans: Plans, parts: Parts, by_end: bool = False) -> Algorithm:
    routes = tuple(partial(sends_of, plan, parts) for plan in plans)
    rows = max(_rows(plan, parts) for plan in plans)
    moves = min(rows, sum(_moves(plan, parts) for plan in plans))
    labels = math.prod(plans[0].grid.shape[axis] for axis, _ in plans[0].stages)
    merges = parts.kind == "summed" and labels < parts.num_parts
    return InVariants(
        *(_name(plans), rows, moves),
        routes=routes,
        plans=plans,
        labels=labels if merges else None,
        unit_labels=tuple(partial(_share, plan) for plan in plans) if merges else None,
        first=plans[0].position.sum(axis=1),
        deals_by_end=by_end and parts.kind == "routed",
        is_explicit=bool(plans[0].whole),
        is_combined=len(plans) > 1 and plans[0].grid.ndim > 1,
        of_libraries=plans[0].grid.ndim == 1 and _all_of_libraries(plans[0]),
    )


def _all_of_libraries(plan: GridAlgorithm) -> bool:
    return all(algorithm.of_libraries for _, algorithm in (*plan.stages, *plan.whole))


def _share(plan: GridAlgorithm, owner: IntArray) -> IntArray:
    """The share that each unit is of: those of one share are summed up together."""
    return np.asarray(plan.sharing(plan.stages)[owner])


def _has_one_way(problem: Problem) -> bool:
    """Whether some link has no link back that costs as much."""
    topology = problem.topology
    there = topology.src * topology.num_ranks + topology.dst
    back = topology.dst * topology.num_ranks + topology.src
    order, turned = np.argsort(there), np.argsort(back)
    costs = topology.alpha_us, topology.beta_us_per_mb
    is_back = [(there[order], back[turned]), *((cost[order], cost[turned]) for cost in costs)]
    return not all(np.array_equal(one, other) for one, other in is_back)


def _with_sums_ahead(every: Iterable[Plans]) -> Iterator[Plans]:
    """The plans, each followed by the same with sums that go the way of the copies."""
    for plans in every:
        yield plans
        if plans[0].stages:
            yield tuple(replace(plan, sums_ahead=True) for plan in plans)


def _name(plans: Plans) -> str:
    return (f"{len(plans)} routes: " if len(plans) > 1 else "") + plans[0].name


def _rows(plan: GridAlgorithm, parts: Parts) -> int:
    """About how many transfers of one part a plan makes."""
    many, shape = parts.num_parts, plan.grid.shape
    ranks = math.prod(shape)
    if parts.kind == "spread":
        return many * ranks
    if parts.kind == "routed":
        return math.ceil(many * sum(algorithm.mean_hops(shape[axis]) for axis, algorithm in plan.stages))
    shares = math.prod(shape[axis] for axis, _ in plan.stages)
    rows = 2 * many * ranks if plan.stages else 0
    for axis, algorithm in plan.whole:
        rows += math.ceil(many * ranks / shares * algorithm.adds(shape[axis]))
    return rows


def _moves(plan: GridAlgorithm, parts: Parts) -> int:
    """About how many sends a plan makes, however many parts each carries."""
    shape = plan.grid.shape
    staged = sum(algorithm.sends(shape[axis]) for axis, algorithm in plan.stages)
    whole = sum(algorithm.adds(shape[axis]) for axis, algorithm in plan.whole)
    return plan.grid.size * ((2 if parts.kind == "summed" else 1) * staged + whole)


def _one(line: Sequence[int] | IntArray, algorithm: LineAlgorithm) -> GridAlgorithm:
    """A plan of one stage, on ranks in a line."""
    return GridAlgorithm(np.asarray(line), ((0, algorithm),))


def _whole_buffers(line: Sequence[int] | IntArray, algorithm: LineAlgorithm) -> GridAlgorithm:
    """A plan by which ranks in a line sum up whole buffers, each for itself."""
    return GridAlgorithm(np.asarray(line), (), ((0, algorithm),))


def _grids(problem: Problem, parts: Parts) -> Iterator[tuple[IntArray, bool]]:
    """Grids of more than one axis, and whether all combinations of algorithms are worth trying on it."""
    topology = problem.topology
    nodes = by_nodes(topology)
    if nodes is None:
        if topology.num_nodes == 1:
            shares = -(-problem.num_chunks // problem.max_group) if parts.kind == "summed" else 1
            for grid in sides(problem.num_ranks, shares):
                yield grid, grid.ndim == 2
        return
    yield nodes, True
    for grid in sides(nodes.shape[1]):
        if grid.ndim == 2:
            yield nodes.reshape(-1, *grid.shape), False
    for inside in _ring_orders(problem, nodes):
        yield nodes[:, inside], True


def _on_lines(problem: Problem, parts: Parts) -> Iterator[Plans]:
    """Plans on all ranks in a line, and on rings."""
    ranks, line = problem.num_ranks, np.arange(problem.num_ranks)
    if parts.kind == "summed":
        for algorithm in dict.fromkeys((*totals_of(ranks), BRUCK)):
            yield (_whole_buffers(line, algorithm),)
    is_gathered = parts.kind == "spread" and not parts.is_from_one
    (along,) = lines_along(problem, parts, line, lines_for(parts))
    every = (*along, *lines_for(parts)(ranks), BRUCK, *([PAT] if is_gathered else []))
    every += tuple(by_offsets(problem, parts))
    for algorithm in dict.fromkeys(every):
        yield (_one(line, algorithm),)
    yield from _rings(problem, parts)


def _on_grids(problem: Problem, parts: Parts) -> Iterator[Plans]:
    """Plans on nodes and on the sides of a torus."""
    several_ways = _has_several_ways(problem.topology)
    for grid, combined in _grids(problem, parts):
        if parts.kind == "summed":
            totals = list(totals_along(problem, parts, grid))
            yield from _whole(grid, combined, lines_along(problem, parts, grid, spreads_of), totals)
            if several_ways and problem.topology.num_nodes == 1:
                yield from _whole_in_turns(grid, totals)
        yield from _staged(grid, combined, lines_along(problem, parts, grid, lines_for(parts)))
    if several_ways:
        yield from _on_cubes(problem, parts)


def _staged(grid: IntArray, combined: bool, lines: Sequence[tuple[LineAlgorithm, ...]]) -> Iterator[Plans]:
    """Plans of stages only: along one axis, and then along the next."""
    orders = list(permutations(range(grid.ndim)))
    for algorithms in for_all(lines, combined):
        plans = [GridAlgorithm(grid, tuple((axis, algorithms[axis]) for axis in order)) for order in orders]
        yield from ((plan,) for plan in plans)
        if len(set(algorithms)) == 1:
            # Each part of the data begins along another axis, so that all axes have work at all times.
            yield tuple(plan for order, plan in zip(orders, plans, strict=True) if _is_turned(order))


def _over_axes(problem: Problem, parts: Parts) -> Iterator[GridAlgorithm]:
    """Along one axis after another by what sums up along it, in all orders of the axes."""
    for grid, combined in _grids(problem, parts):
        totals = list(totals_along(problem, parts, grid))
        for along in for_all(totals, combined):
            for order in permutations(range(grid.ndim)):
                yield GridAlgorithm(grid, tuple((axis, along[axis]) for axis in order))


def _whole(
    grid: IntArray,
    combined: bool,
    spreads: Sequence[tuple[LineAlgorithm, ...]],
    totals: Sequence[tuple[LineAlgorithm, ...]],
) -> Iterator[Plans]:
    """Sums made at all ranks by all of them: of whole buffers, or of the shares of a ReduceScatter."""
    axes = range(grid.ndim)
    for count in axes:
        for stages in permutations(axes, count):
            whole = tuple(axis for axis in axes if axis not in stages)
            for first in for_all(spreads, combined, stages):
                for then in for_all(totals, combined, whole):
                    staged = tuple((axis, first[axis]) for axis in stages)
                    yield (GridAlgorithm(grid, staged, tuple((axis, then[axis]) for axis in whole)),)


def _whole_in_turns(grid: IntArray, totals: Sequence[tuple[LineAlgorithm, ...]]) -> Iterator[Plans]:
    """The same algorithms along all axes, each part of the data along another first."""
    spreads = [
        each for each in spreads_of(grid.shape[0]) if all(each in spreads_of(side) for side in grid.shape)
    ]
    for total in (each for each in totals[0] if all(each in others for others in totals)):
        yield _in_turns(grid, range(grid.ndim), 0, total=total)
        for count, spread in product(range(1, grid.ndim), spreads):
            yield _in_turns(grid, range(grid.ndim), count, spread, total)


def _on_cubes(problem: Problem, parts: Parts) -> Iterator[Plans]:
    """Exchanges along one axis of a cube after another, each part along another first; also in nodes."""
    nodes = by_nodes(problem.topology)
    if nodes is None:
        for cube in cubes(problem.num_ranks) if problem.topology.num_nodes == 1 else ():
            for count in range(cube.ndim + 1) if parts.kind == "summed" else (cube.ndim,):
                yield _in_turns(cube, range(cube.ndim), count)
        return
    for cube in cubes(nodes.shape[1]):
        grid, axes = nodes[:, cube], range(1, cube.ndim + 1)
        if parts.kind == "summed":
            for total, count in product(totals_of(len(nodes)), range(cube.ndim + 1)):
                yield _in_turns(grid, axes, count, whole=((0, total),))
            continue
        for across in lines_for(parts)(len(nodes)):
            yield _in_turns(grid, axes, cube.ndim, before=((0, across),))
            yield _in_turns(grid, axes, cube.ndim, after=((0, across),))


def _in_turns(
    grid: IntArray,
    axes: Sequence[int],
    count: int,
    spread: LineAlgorithm = ALL_PAIRS,
    total: LineAlgorithm = ALL_PAIRS,
    before: Along = (),
    after: Along = (),
    whole: Along = (),
) -> Plans:
    """Stages along `count` of the axes, and whole shares along the others.

    Each part of the data begins along another of these axes, so that all have work at all times.
    """
    plans = []
    for turn in range(len(axes)):
        order = [*axes[turn:], *axes[:turn]]
        stages = tuple((axis, spread) for axis in order[:count])
        wholes = tuple((axis, total) for axis in order[count:])
        plans.append(GridAlgorithm(grid, (*before, *stages, *after), (*whole, *wholes)))
    return tuple(plans)


def _has_several_ways(topology: LogicalTopology) -> bool:
    """Whether no port is on all ways out of a rank to its node: one link at a time leaves others idle."""
    out = np.flatnonzero((topology.src == topology.src[0]) & ~topology.internode)
    return len(out) > 1 and not set.intersection(*(set(topology.ports[link]) for link in out))


def _is_turned(order: tuple[int, ...]) -> bool:
    """Whether the axes stand in their order, begun somewhere."""
    return all((after - before) % len(order) == 1 for before, after in pairwise(order))


def _ring_orders(problem: Problem, nodes: IntArray) -> Iterator[list[int]]:
    """Orders of a node's ranks in which they are a ring, in every node."""
    index, size = problem.topology.link_index, nodes.shape[1]
    if size < 4:
        return
    first: list[int] = nodes[0].tolist()
    for ring in cycles(problem, first)[:2]:
        order = [first.index(rank) for rank in ring]
        if order != list(range(size)) and all(is_ring(here, index) for here in nodes[:, order].tolist()):
            yield order


def _rings(problem: Problem, parts: Parts) -> Iterator[Plans]:
    """Rings over all ranks: one, one and its reverse, several that use different links or NICs."""
    found = cycles(problem)
    for ring in found[:4]:
        if parts.kind == "summed" and len(ring) > 3:
            yield (_whole_buffers(ring, RING_BOTH_DIRECTIONS),)
        if ring != tuple(range(problem.num_ranks)):  # those are there already
            yield (_one(ring, RING),)
            yield (_one(ring, RING_BOTH_DIRECTIONS),)
        yield _one(ring, RING), _one(ring[::-1], RING)
    sets = (disjoint(found, False), disjoint(found, True), through_doors(problem))
    for rings, algorithm in product(sets, (RING, RING_BOTH_DIRECTIONS)):
        if len(rings) > 1:
            yield tuple(_one(ring, algorithm) for ring in rings)
    if parts.is_from_one and parts.kind != "summed":
        for chain in chains(problem, int(parts.begin[0]))[:3]:
            yield (_one(chain, RING),)
