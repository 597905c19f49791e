"""Which textbook algorithms there are for a problem: each as plans on grids, with how much work it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from taccl.collectives import IntArray
from taccl.encoding.textbook.all_pairs import ALL_PAIRS
from taccl.encoding.textbook.bruck import BRUCK
from taccl.encoding.textbook.cycles import chains, cycles, disjoint, through_doors
from taccl.encoding.textbook.demand import Demand
from taccl.encoding.textbook.doubling import DOUBLING, DOUBLING_FAR_FIRST
from taccl.encoding.textbook.grid import Plan, steps_of
from taccl.encoding.textbook.layouts import by_nodes, line, sides
from taccl.encoding.textbook.line import LineAlgorithm, is_power_of_two
from taccl.encoding.textbook.ring import RING, RING_BOTH_WAYS
from taccl.encoding.textbook.transfer import Steps, together
from taccl.problem import Problem


@dataclass(frozen=True, eq=False)
class Algorithm:
    """One textbook algorithm for one problem, not built yet.

    Parameters
    ----------
    name : for messages and tests.
    rows : about how many transfers of one chunk it makes.
    most_batches : into so many batches can the chunks of a part be split that follow each other.
    build : number of batches -> what is sent; None where it does not fit.
    """

    name: str
    rows: int
    most_batches: int
    build: Callable[[int], Steps | None]


def algorithms(problem: Problem, demand: Demand) -> Iterator[Algorithm]:
    """All that there are, whether or not the machine has the links."""
    for plans in {"spread": _spreading, "routed": _routing, "summed": _summing}[demand.kind](problem, demand):
        yield _of_plans(problem, demand, plans)


def _of_plans(problem: Problem, demand: Demand, plans: tuple[Plan, ...]) -> Algorithm:
    def build(batches: int) -> Steps | None:
        streams = []
        for variant, chunks in demand.streams(tuple(range(len(plans))), batches):
            steps = steps_of(plans[variant], demand, chunks)
            if steps is None:
                return None
            streams.append(steps)
        return together(streams)

    rows = max(_rows(plan, demand, problem) for plan in plans)
    batches = -(-demand.most_pieces // len(plans))
    return Algorithm(_name(plans), rows, batches, build)


def _name(plans: tuple[Plan, ...]) -> str:
    plan = plans[0]
    shape = "x".join(map(str, plan.grid.shape))
    named = [f"{algorithm.name} on axis {axis}" for axis, algorithm in plan.stages]
    named += [f"{algorithm.name} of whole shares on axis {axis}" for axis, algorithm in plan.whole]
    several = f", {len(plans)} ways" if len(plans) > 1 else ""
    return f"{shape}: {', '.join(named)}{several}"


def _rows(plan: Plan, demand: Demand, problem: Problem) -> int:
    """About how many transfers of one chunk a plan makes."""
    chunks, ranks, shape = problem.num_chunks, problem.num_ranks, plan.grid.shape
    if demand.kind == "spread":
        return chunks * ranks
    if demand.kind == "routed":
        hops = sum(_mean_hops(algorithm, shape[axis]) for axis, algorithm in plan.stages)
        return math.ceil(chunks * hops)
    shares = math.prod(shape[axis] for axis, _ in plan.stages)
    total = 2 * chunks * ranks if plan.stages else 0
    for axis, algorithm in plan.whole:
        moves = algorithm.total(shape[axis])
        sends = sum(map(len, moves)) / shape[axis] if moves else 0
        total += math.ceil(chunks * ranks / shares * sends)
    return total


def _mean_hops(algorithm: LineAlgorithm, size: int) -> float:
    return sum(len(algorithm.hops(size, 0, end) or ()) for end in range(size)) / size


def _one(grid: IntArray, *stages: LineAlgorithm, order: tuple[int, ...] | None = None) -> Plan:
    """A plan with one algorithm for each axis, in the given order of the axes."""
    axes = range(grid.ndim) if order is None else order
    return Plan(grid, tuple((axis, stages[axis]) for axis in axes))


def _spreads(size: int) -> tuple[LineAlgorithm, ...]:
    """Ways to spread along a line of so many: those that differ."""
    if size == 2:
        return (ALL_PAIRS,)
    doubling = (DOUBLING, DOUBLING_FAR_FIRST) if is_power_of_two(size) else (BRUCK,)
    return (RING, *((RING_BOTH_WAYS,) if size > 3 else ()), ALL_PAIRS, *doubling)


def _totals(size: int) -> tuple[LineAlgorithm, ...]:
    """Ways to sum up along a line of so many at all of them: those that differ."""
    return (ALL_PAIRS,) if size == 2 else (ALL_PAIRS, DOUBLING if is_power_of_two(size) else BRUCK)


def _routes(size: int) -> tuple[LineAlgorithm, ...]:
    if size == 2:
        return (ALL_PAIRS,)
    return (ALL_PAIRS, RING_BOTH_WAYS, RING, DOUBLING if is_power_of_two(size) else BRUCK)


def _spreading(problem: Problem, demand: Demand) -> Iterator[tuple[Plan, ...]]:
    yield from _staged(problem, demand, _spreads, (*_spreads(problem.num_ranks), BRUCK))


def _routing(problem: Problem, demand: Demand) -> Iterator[tuple[Plan, ...]]:
    yield from _staged(problem, demand, _routes, (*_routes(problem.num_ranks), BRUCK))


def _summing(problem: Problem, demand: Demand) -> Iterator[tuple[Plan, ...]]:
    ranks = problem.num_ranks
    for algorithm in dict.fromkeys((*_totals(ranks), BRUCK)):
        yield (Plan(line(ranks), (), ((0, algorithm),)),)
    yield from _staged(problem, demand, _spreads, (*_spreads(ranks), BRUCK))
    nodes = by_nodes(problem.topology)
    for grid in [*([] if nodes is None else [nodes]), *sides(ranks)]:
        for order in permutations(range(grid.ndim)):
            for wholes in range(1, grid.ndim + 1):
                yield from _partly_whole(grid, order[: grid.ndim - wholes], order[grid.ndim - wholes :])


def _partly_whole(
    grid: IntArray, stages: tuple[int, ...], whole: tuple[int, ...]
) -> Iterator[tuple[Plan, ...]]:
    """Shares along some axes, summed up whole along the others, by all combinations of algorithms."""
    for first in product(*(_spreads(grid.shape[axis]) for axis in stages)):
        for then in product(*(_totals(grid.shape[axis]) for axis in whole)):
            yield (
                Plan(grid, tuple(zip(stages, first, strict=True)), tuple(zip(whole, then, strict=True))),
            )


def _staged(
    problem: Problem,
    demand: Demand,
    ways: Callable[[int], tuple[LineAlgorithm, ...]],
    on_line: tuple[LineAlgorithm, ...],
) -> Iterator[tuple[Plan, ...]]:
    """Plans of stages only: on the line of all ranks, on rings, on nodes, on the sides of a torus."""
    for algorithm in dict.fromkeys(on_line):
        yield (_one(line(problem.num_ranks), algorithm),)
    yield from _rings(problem, demand)
    nodes = by_nodes(problem.topology)
    if nodes is not None:
        for grid in (nodes, *_with_node_rings(problem, nodes)):
            for order in ((1, 0), (0, 1)):
                for pair in product(ways(grid.shape[0]), ways(grid.shape[1])):
                    yield (_one(grid, *pair, order=order),)
    for grid in sides(problem.num_ranks):
        for algorithm in ways(max(grid.shape)):
            orders = list(permutations(range(grid.ndim)))
            plans = [_one(grid, *(algorithm,) * grid.ndim, order=order) for order in orders]
            yield from ((plan,) for plan in plans)
            # Each part of the data begins along another axis, so that all axes have work at all times.
            turned = [plan for plan, order in zip(plans, orders, strict=True) if _is_turned(order)]
            yield tuple(turned)


def _is_turned(order: tuple[int, ...]) -> bool:
    """Whether the axes stand in their order, begun somewhere."""
    return all((after - before) % len(order) == 1 for before, after in zip(order, order[1:], strict=False))


def _with_node_rings(problem: Problem, nodes: IntArray) -> Iterator[IntArray]:
    """Nodes with their ranks in the order of a ring that all nodes have the links for."""
    index, size = problem.topology.link_index, nodes.shape[1]
    if size < 4:
        return
    for ring in cycles(problem, nodes[0].tolist())[:2]:
        order = [int(np.flatnonzero(nodes[0] == rank)[0]) for rank in ring]
        grid = nodes[:, order]
        ends = np.roll(grid, -1, axis=1)
        if order != list(range(size)) and all(
            pair in index for pair in zip(grid.ravel().tolist(), ends.ravel().tolist(), strict=True)
        ):
            yield grid


def _rings(problem: Problem, demand: Demand) -> Iterator[tuple[Plan, ...]]:
    """Rings over all ranks: one, one and its reverse, several that use different links or NICs."""
    found = cycles(problem)
    for ring in found[:4]:
        grid = np.array(ring)
        yield (_one(grid, RING),)
        yield (_one(grid, RING_BOTH_WAYS),)
        yield (_one(grid, RING), _one(grid[::-1], RING))
    for sets in (disjoint(found, False), disjoint(found, True), through_doors(problem)):
        if len(sets) > 1:
            yield tuple(_one(np.array(ring), RING) for ring in sets)
            yield tuple(_one(np.array(ring), RING_BOTH_WAYS) for ring in sets)
    if demand.is_from_one and demand.kind != "summed":
        for chain in chains(problem, int(demand.begin[0]))[:3]:
            yield (_one(np.array(chain), RING),)
