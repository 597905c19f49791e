r"""What one chunk needs with the network to itself, and what one rank needs to hold all that it wants.

*Spread.* With w from `growth`, a chunk with sources U and wanting ranks D has, for every region N (each
node, and the whole machine),

    T  >=  min{t : sum over u in U of w_N(u, t) >= |D and N|},  w_N counting the ranks of D and N.

*Holdings.* With K from `growth` for the chunks S(r) that rank r wants,

    T  >=  max over r of  min{t : K(r, t) >= |S(r)|}.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.growth import Layer, holdings, reach
from taccl.encoding.bounds.ticks import in_ticks
from taccl.encoding.symmetry.group import symmetry_group
from taccl.problem import Problem

#: More kinds of chunks or ranks than this are not looked at.
_MOST_KINDS = 8


def spread_bound(problem: Problem, known_us: float, backwards: bool = False) -> Bound:
    """The longest spread of a chunk; chunks that start and may go alike count as one that all of them are.

    `known_us` is another bound, as a yardstick; `backwards` as in `growth`.
    """
    best = Bound(0.0, "nothing has to move", "spread")
    for chunks in alike(problem):

        def least(tick_us: float, rows: int, chunks: IntArray = chunks) -> int | None:
            sources = problem.collective.pre[chunks[0]]
            layer = Layer.of(problem, chunks)
            spread = served(problem, layer, layer.wanted, sources[None, :], tick_us, rows, backwards)
            return int(spread[0]) if spread[0] < rows else None

        value_us = in_ticks(problem, known_us, problem.topology.num_links, least)
        if value_us > best.value_us:
            what = problem.collective.describe_chunk(int(chunks[0]))
            best = Bound(value_us, f"spread of {what}, alone on the network", "spread")
    return best


def holdings_bound(problem: Problem, known_us: float, backwards: bool = False) -> Bound:
    """The longest that some rank takes to come to hold all that it wants; `backwards` as in `growth`."""
    collective = problem.collective
    wants, of_rank = np.unique(collective.post, axis=1, return_inverse=True)
    best = Bound(0.0, "nothing has to move", "holdings")
    for kind in _one_of_each_orbit(problem, of_rank.ravel()):
        chunks, ranks = np.flatnonzero(wants[:, kind]), np.flatnonzero(of_rank.ravel() == kind)
        if not len(chunks):
            continue

        def least(
            tick_us: float, rows: int, chunks: IntArray = chunks, ranks: IntArray = ranks
        ) -> int | None:
            held = holdings(problem, [Layer.of(problem, chunks)], tick_us, rows, backwards)[:, 0, ranks]
            first = first_row(held >= len(chunks)).max()
            return int(first) if first < rows else None

        value_us = in_ticks(problem, known_us, problem.topology.num_links, least)
        if value_us > best.value_us:
            rank = f"rank {ranks[0]}" if len(ranks) == 1 else "some rank"
            best = Bound(
                value_us, f"{rank} comes to hold {len(chunks)} chunks, in growing groups", "holdings"
            )
    return best


def alike(problem: Problem) -> list[IntArray]:
    """Sets of chunks that start at the same ranks and may go the same ways; one of an orbit, and not many."""
    collective = problem.collective
    kinds = [collective.pre]
    if problem.limits.may_use is not None:
        kinds.append(problem.limits.may_use[collective.home])
    kind = np.unique(np.concatenate(kinds, axis=1), axis=0, return_inverse=True)[1].ravel()
    representative = symmetry_group(problem).chunk_representative
    chosen = np.unique(kind[representative == np.arange(problem.num_chunks)])
    return [np.flatnonzero(kind == number) for number in _some(chosen)]


def _one_of_each_orbit(problem: Problem, kind: IntArray) -> list[int]:
    """Kinds of ranks, one of each orbit of the problem's symmetry; `kind` has shape (num_ranks,)."""
    least = kind[symmetry_group(problem).rank_map].min(axis=0)
    return [int(number) for number in _some(np.unique(least))]


def _some(kinds: IntArray) -> IntArray:
    """At most `_MOST_KINDS` of them, evenly spread: each alone gives a bound."""
    return kinds[:: -(-len(kinds) // _MOST_KINDS)] if len(kinds) else kinds


def served(
    problem: Problem,
    layer: Layer,
    wanted: BoolArray,
    sources: BoolArray,
    tick_us: float,
    rows: int,
    backwards: bool = False,
) -> IntArray:
    """The first tick at which the chunk of a layer can have served all wanting ranks, in every region.

    `sources`, shape (number of cases, num_ranks), is where the chunk is in each case; the result has shape
    (number of cases,). `rows` stands for that or more.
    """
    node_of = problem.topology.node_of
    regions = [wanted & (node_of == node) for node in np.unique(node_of)] + [wanted]
    regions = [region for region in regions if region.any()]
    w = reach(problem, [replace(layer, wanted=region) for region in regions], tick_us, rows, backwards)
    together = np.einsum("tnu,cu->tnc", w, sources.astype(np.int64))
    need = np.array([region.sum() for region in regions])
    return np.asarray(first_row(together >= need[:, None]).max(axis=0, initial=0))


def first_row(reached: BoolArray) -> IntArray:
    """The first row that is true, along axis 0; the number of rows where none is."""
    return np.where(reached.any(axis=0), reached.argmax(axis=0), len(reached))
