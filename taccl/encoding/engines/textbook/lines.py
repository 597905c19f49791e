"""Which algorithms there are for a line of this many ranks, which differ there, and which fit along axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from taccl.encoding.engines.textbook.all_pairs import ALL_PAIRS
from taccl.encoding.engines.textbook.bruck import BRUCK, PAT
from taccl.encoding.engines.textbook.doubling import DOUBLING, DOUBLING_FAR_FIRST
from taccl.encoding.engines.textbook.grid import GridAlgorithm
from taccl.encoding.engines.textbook.line import LineAlgorithm, Lines
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.path import PATH
from taccl.encoding.engines.textbook.ring import RING, RING_BOTH_DIRECTIONS
from taccl.model.collective import IntArray
from taccl.model.problem import Problem

#: All algorithms for a line.
LINE_ALGORITHMS = (RING, RING_BOTH_DIRECTIONS, ALL_PAIRS, DOUBLING, DOUBLING_FAR_FIRST, BRUCK, PAT, PATH)


def spreads_of(size: int) -> tuple[LineAlgorithm, ...]:
    """Algorithms to spread along a line of this many: those that differ."""
    if size == 2:
        return (ALL_PAIRS,)
    doubling = (DOUBLING, DOUBLING_FAR_FIRST) if DOUBLING.fits(size) else (BRUCK,)
    return (RING, *((RING_BOTH_DIRECTIONS,) if size > 3 else ()), ALL_PAIRS, *doubling)


def totals_of(size: int) -> tuple[LineAlgorithm, ...]:
    """Algorithms to sum up along a line of this many at all of them: those that differ."""
    return (ALL_PAIRS,) if size == 2 else (ALL_PAIRS, DOUBLING if DOUBLING.fits(size) else BRUCK)


def routes_of(size: int) -> tuple[LineAlgorithm, ...]:
    """Algorithms to route along a line of this many: those that differ."""
    if size == 2:
        return (ALL_PAIRS,)
    return (ALL_PAIRS, RING_BOTH_DIRECTIONS, RING, DOUBLING if DOUBLING.fits(size) else BRUCK)


def lines_for(parts: Parts) -> Lines:
    """Algorithms for what is requested."""
    return routes_of if parts.kind == "routed" else spreads_of


def lines_along(
    problem: Problem, parts: Parts, grid: IntArray, lines: Lines
) -> list[tuple[LineAlgorithm, ...]]:
    """For each axis those that there are, or, where neighbours are linked and the ends are not, the path.

    Next to a path, two in a line are one, too, so that each part of the data may begin along another axis.
    """
    index = problem.topology.link_index

    def has(axis: int, algorithm: LineAlgorithm) -> bool:
        return GridAlgorithm(grid, ((axis, algorithm),)).has_links(index, parts.stages)

    has_ends = [size > 2 and has(axis, PATH) and not has(axis, RING) for axis, size in enumerate(grid.shape)]
    is_mesh = any(has_ends)
    return [
        (PATH,) if is_path or (is_mesh and size == 2) else lines(size)
        for is_path, size in zip(has_ends, grid.shape, strict=True)
    ]


def totals_along(problem: Problem, parts: Parts, grid: IntArray) -> Iterator[tuple[LineAlgorithm, ...]]:
    """For each axis algorithms to sum up along it at all ranks: round, where not all of a line are linked."""
    index = problem.topology.link_index
    for axis, size in enumerate(grid.shape):
        are_linked = GridAlgorithm(grid, ((axis, ALL_PAIRS),)).has_links(index, parts.stages)
        yield totals_of(size) if are_linked or size == 2 else (RING_BOTH_DIRECTIONS,)


def for_all(
    every: Sequence[tuple[LineAlgorithm, ...]], combined: bool, axes: tuple[int, ...] | None = None
) -> Iterator[tuple[LineAlgorithm, ...]]:
    """Line algorithms for the axes that count: all combinations, or the same along all where that can be.

    `every` : those that there are for each axis.
    """
    choices = [each if axes is None or axis in axes else (ALL_PAIRS,) for axis, each in enumerate(every)]
    if combined:
        yield from product(*choices)
        return
    for algorithm in max(choices, key=len):
        yield tuple(algorithm if algorithm in choice else choice[0] for choice in choices)
