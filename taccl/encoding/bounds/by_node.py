r"""What a rank's own node has, and what others have, counted apart.

The recurrences of `steps` count chunks, and not which. A GPU that holds the eight chunks of its node is then
given eight more by a neighbour, an alpha later, though that one has the same eight. So let r be a rank of the
node B, S_B those of the chunks S that start in B, and K_S the recurrence for S. Of S_B and of all others r
holds no more than the recurrence allows for each of these sets by itself:

    K(r, t)  <=  K_{S_B}(r, t)  +  K_{S - S_B}(r, t).

In the second set no rank of B has anything before it came through the ports of B. It is the same with whom a
chunk that came to u, a rank of B, can inform, D being who wants it:

    w(u, t)  <=  w_{D and B}(u, t)  +  w_{D - B}(u, t).

The sums say when another chunk, or rank, can be there, as shortest paths do; so they take the place of those
in the recurrence, and what senders hold is bounded, too.

Nodes that an automorphism of the problem exchanges, the i-th rank of one with that of the other, have the
same counts, so these are worked out for one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.direct import sizeless
from taccl.encoding.bounds.layer import Distances, Layer, held_at_start, nearest_us
from taccl.encoding.bounds.steps import OutOfBudget, gathered, informed
from taccl.encoding.bounds.tuning import BY_NODE_EXCHANGED, BY_NODE_MOST, BY_NODE_SHARE
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.action import Action, action_of
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: Of the ranks of a node, shape (num_ranks,), what is counted of its own and of others; None: one of them is
#: all, so the recurrence says as much.
_Parts = Callable[[BoolArray, Budget], tuple[list[Steps], list[Steps]] | None]


def in_pieces(problem: Problem, layer: Layer, pieces: int) -> tuple[Problem, Layer]:
    """The problem with smaller chunks, and a layer of that many pieces of each; 0: chunks are whole."""
    if pieces < 2:
        return problem, layer
    finer = replace(problem, chunk_mb=problem.chunk_mb / pieces)
    chunks, class_of = (np.repeat(each, pieces) for each in (layer.chunks, layer.class_of))
    return finer, replace(layer, chunks=chunks, class_of=class_of)


def come_us(
    instance: Instance,
    layer: Layer,
    horizon_us: float,
    budget: Budget,
    at_ends: bool,
    pieces: int = 0,
) -> list[FloatArray]:
    """For each rank, in order, the moments at which another chunk of a layer can be there.

    `at_ends` : as of `gathered`; `pieces` : of `in_pieces`, by which the layer was cut.
    """
    problem, starts = in_pieces(instance.problem, layer, pieces)[0], instance.demand.starts
    alone = instance.once(sizeless) if pieces else instance
    near, chosen = nearest_us(alone, layer), np.zeros(problem.num_chunks, dtype=np.bool_)
    chosen[layer.chunks] = True

    def parts(inside: BoolArray, budget: Budget) -> tuple[list[Steps], list[Steps]] | None:
        is_own = np.zeros(problem.num_chunks, dtype=np.bool_)
        is_own[starts.chunk[inside[starts.rank]]] = True
        own = is_own[layer.chunks]
        if own.all() or not own.any():
            return None
        of_own, of_others = (
            gathered(
                *(problem, part, held_at_start(instance, part), horizon_us, budget),
                near=nearest_us(alone, part),
                enough=np.where(inside, len(part.chunks), 0),
                at_ends=at_ends,
                divisible=pieces > 0,
            )
            for part in (layer.part(own), layer.part(~own))
        )
        return of_own, of_others

    def keeps(action: Action) -> bool:
        return bool((chosen[action.chunks] == chosen).all())

    return _by_node(instance, layer, parts, keeps, near, budget)


def reach_us(
    instance: Instance, layer: Layer, horizon_us: float, budget: Budget, at_ends: bool
) -> list[FloatArray]:
    """For each rank the moments, in order, at which a chunk that came there can have informed another rank.

    `at_ends` : as of `informed`.
    """
    distances = instance.once(Distances).over(layer.uses())
    near = [np.sort(row[row <= horizon_us]) for row in distances[:, layer.wanted]]

    def parts(inside: BoolArray, budget: Budget) -> tuple[list[Steps], list[Steps]] | None:
        if not (layer.wanted & inside).any() or not (layer.wanted & ~inside).any():
            return None
        of_own, of_others = (
            informed(instance.problem, layer.restricted(region), distances, horizon_us, budget, at_ends)
            for region in (inside, ~inside)
        )
        return of_own, of_others

    def keeps(action: Action) -> bool:
        return bool((layer.wanted[action.ranks] == layer.wanted).all())

    return _by_node(instance, layer, parts, keeps, near, budget)


def _by_node(
    instance: Instance,
    layer: Layer,
    parts: _Parts,
    keeps: Callable[[Action], bool],
    near: list[FloatArray],
    budget: Budget,
) -> list[FloatArray]:
    """The moments of both parts together; `near`, those of shortest paths, where there is no time."""
    node_of, on, found = instance.problem.topology.node_of, layer.many_on(), list(near)
    budget, worked_out = budget.share(BY_NODE_SHARE), list[IntArray]()
    exchanges = instance.once(_Exchanges)

    def are_equivalent(ranks: IntArray, others: IntArray) -> bool:
        action = exchanges.of(ranks, others, budget)
        return action is not None and bool((on[action.links] == on).all()) and keeps(action)

    for node in np.unique(node_of).tolist():
        ranks = np.flatnonzero(node_of == node)
        try:
            equal = next((others for others in worked_out if are_equivalent(ranks, others)), None)
            if equal is not None:
                for rank, other in zip(ranks.tolist(), equal.tolist(), strict=True):
                    found[rank] = found[other]
                continue
            if len(worked_out) == BY_NODE_MOST:
                return found
            both = parts(node_of == node, budget)
        except OutOfBudget:
            return found
        worked_out.append(ranks)
        if both is not None:
            for rank in ranks.tolist():
                found[rank] = np.sort(np.concatenate([each[rank].moments() for each in both]))
    return found


class _Exchanges:
    """What exchanging two nodes does, the i-th rank of one with that of the other; each found once."""

    def __init__(self, instance: Instance) -> None:
        self._problem, self._of = instance.problem, dict[tuple[int, int], Action | None]()

    def of(self, ranks: IntArray, others: IntArray, budget: Budget) -> Action | None:
        """None: it is no automorphism of the problem that keeps costs to the last bit.

        Raises
        ------
        OutOfBudget : there is no time to find out.
        """
        key = int(ranks[0]), int(others[0])
        if key not in self._of:
            if not budget.remaining_s():
                raise OutOfBudget
            budget.spend(BY_NODE_EXCHANGED * self._problem.topology.num_links)
            self._of[key] = self._action(ranks, others)
        return self._of[key]

    def _action(self, ranks: IntArray, others: IntArray) -> Action | None:
        if len(ranks) != len(others):
            return None
        exchanged = np.arange(self._problem.num_ranks)
        exchanged[ranks], exchanged[others] = others, ranks
        action = action_of(self._problem, exchanged)
        return action if isinstance(action, Action) and action.is_exact else None
