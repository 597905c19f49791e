r"""Which rules together leave a chunk no way from its sources to a rank.

With a literal for each rule and at(v, k) for "the chunk can be at rank v after at most k links":

    1. at(v, 0) exactly at the sources.
    2. at(v, k) implies at(v, k - 1), or at(u, k - 1) for a link u -> v none of whose forbidding rules holds.
    3. at(destination, K).

Rules that contradict these leave no way of at most K links. Where any number of links will do, ranks that
reach each other over links that no rule forbids are taken as one, and K is one less than what is left.
With the rules assumed, unit propagation alone decides step after step, so calls take milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import z3

from taccl.encoding.conflicts.core import Core, minimal_core
from taccl.model.network import LogicalTopology
from taccl.model.problem import Rule
from taccl.support.budget import Budget

if TYPE_CHECKING:
    import networkx as nx

#: A way from one place to another, and the rules that forbid it; a place is a set of ranks, by number.
_Step = tuple[int, int, frozenset[int]]


def no_way(
    everything: LogicalTopology,
    rules: Sequence[Rule],
    owner: int,
    sources: Sequence[int],
    dst: int,
    budget: Budget,
    max_hops: int | None = None,
) -> Core | None:
    """Rules, by their positions, that leave no way from any source to `dst`; None if they leave one.

    All of them, not minimal, if the solver cannot tell in time.

    Parameters
    ----------
    everything : the links that there are without any rule.
    owner : of the chunks that are to go there; it decides which rules are about them.
    max_hops : how many links a way may have; None: any number.

    Raises
    ------
    KeyboardInterrupt : the user stopped the solver.
    SolverError : z3 failed.
    """
    places = np.arange(everything.num_ranks)
    if max_hops is None:
        places = _places(everything, rules, owner)
    steps = _steps(everything, rules, owner, places)
    starts, target = {int(places[source]) for source in sources}, int(places[dst])
    length = len(np.unique(places)) - 1 if max_hops is None else max_hops
    holds = [z3.Bool(f"rule {number}") for number in range(len(rules))]
    solver: Any = z3.SolverFor("QF_FD")
    for constraint in _walk(steps, starts, target, length, holds):
        solver.add(constraint)
    return minimal_core(solver, holds, budget)


def _forbidding(rules: Sequence[Rule], owner: int) -> Iterator[tuple[int, Rule]]:
    return ((number, rule) for number, rule in enumerate(rules) if rule.owners[owner])


def _places(everything: LogicalTopology, rules: Sequence[Rule], owner: int) -> np.ndarray:
    """Ranks that reach each other over links that no rule forbids have one number, shape (num_ranks,)."""
    free = np.ones(everything.num_links, dtype=np.bool_)
    for _, rule in _forbidding(rules, owner):
        free &= ~rule.forbids
    import networkx as nx  # takes long, and few calls need it

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(everything.num_ranks))
    graph.add_edges_from(zip(everything.src[free].tolist(), everything.dst[free].tolist(), strict=True))
    place = np.zeros(everything.num_ranks, dtype=np.int64)
    for number, ranks in enumerate(nx.strongly_connected_components(graph)):
        place[list(ranks)] = number
    return place


def _steps(everything: LogicalTopology, rules: Sequence[Rule], owner: int, places: np.ndarray) -> list[_Step]:
    """The links between places. Of two between the same, one that more rules forbid says nothing."""
    forbids = [(number, rule.forbids) for number, rule in _forbidding(rules, owner)]
    found: dict[tuple[int, int], set[frozenset[int]]] = {}
    for link, (src, dst) in enumerate(zip(places[everything.src], places[everything.dst], strict=True)):
        if src != dst:
            by = frozenset(number for number, links in forbids if links[link])
            found.setdefault((int(src), int(dst)), set()).add(by)
    return [
        (*ends, by)
        for ends, options in sorted(found.items())
        for by in sorted(options, key=sorted)
        if not any(other < by for other in options)
    ]


def _walk(
    steps: Sequence[_Step], sources: set[int], target: int, length: int, holds: Sequence[Any]
) -> Iterator[Any]:
    """Rules 1 to 3, over places that a shortest way can pass at that moment."""
    into: dict[int, list[_Step]] = {}
    for step in steps:
        into.setdefault(step[1], []).append(step)
    earliest = _levels(((src, dst) for src, dst, _ in steps), sources)
    latest = _levels(((dst, src) for src, dst, _ in steps), {target})
    at: dict[tuple[int, int], Any] = {(source, 0): z3.BoolVal(True) for source in sources}
    no: Any = z3.BoolVal(False)
    for k in range(1, length + 1):
        for place in earliest:
            if earliest[place] > k or latest.get(place, length + 1) > length - k:
                continue
            before = [at[place, k - 1]] if (place, k - 1) in at else []
            routes = [
                z3.And(at[src, k - 1], *(z3.Not(holds[number]) for number in sorted(by)))
                for src, _, by in into.get(place, ())
                if (src, k - 1) in at
            ]
            at[place, k] = z3.Bool(f"at {place} {k}")
            yield z3.Implies(at[place, k], z3.Or(*before, *routes))
    yield at.get((target, length), no)


def _levels(steps: Iterator[tuple[int, int]], starts: set[int]) -> dict[int, int]:
    """How many steps each place is from the nearest start, nearest first, for all that can be reached."""
    after: dict[int, list[int]] = {}
    for src, dst in steps:
        after.setdefault(src, []).append(dst)
    level = dict.fromkeys(sorted(starts), 0)
    queue = list(level)
    for place in queue:
        for follower in after.get(place, ()):
            if follower not in level:
                level[follower] = level[place] + 1
                queue.append(follower)
    return level
