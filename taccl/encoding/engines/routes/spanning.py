r"""A tree for each chunk, so that together they use no port much more than others.

Trees are chosen one after another. Port p has a price that rises with what it carries already,

    y_p = exp((load_p - largest load) / (largest load / number of trees so far)),

and the next tree is one that is cheap at these prices: a tree of least price (Prim 1957), or a shallower one
that costs a little more, by blending the price of an arc with that of the way from the root (Alpert et al.
1995). The more trees, the nearer rising prices come to the optimum of the linear program over all trees
(multiplicative weights: Plotkin, Shmoys and Tardos 1995). Each tree is then chosen once more next to all
others.

Deep trees balance loads no better than shallow ones on meshes, and their pipeline takes longer to fill and
to drain. So trees may be requested to be hardly deeper than they must be: an arc of least price is taken only
if all ranks can still be reached in time.

An AllReduce uses each tree twice, upwards to sum and downwards to copy. On two-way links such trees reach the
optimum of all programs (Tutte 1961, Nash-Williams 1961; `bounds.partitions` has the other side of it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from taccl.encoding.core.costs import Costs
from taccl.encoding.core.heaps import pop, push
from taccl.encoding.engines.routes.arcs import NO_LINK, Arcs
from taccl.encoding.engines.routes.spread import ANYWHERE
from taccl.encoding.engines.routes.tuning import (
    CHOOSE_ARCS_BETWEEN_LOOKS,
    CHOOSE_DEPTH,
    CHOOSE_GOLDEN,
    CHOOSE_LEAST_ROOTS,
    CHOOSE_LEAST_TREES,
    CHOOSE_MOST_ROOTS,
    CHOOSE_OFF_CENTRE,
    CHOOSE_PLASTIC,
    CHOOSE_ROOT_ARCS,
    CHOOSE_SHARPNESS,
    CHOOSE_TIES,
    CHOOSE_TREE_ARCS,
)
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.support.budget import Budget
from taccl.support.jit import compiled, is_at_hand

#: Below this exponent a price is as good as none.
_LEAST = -30.0
#: Relative differences of prices that are rounding.
_SAME = 1e-12
#: How often each tree is chosen, and how sharply prices rise each time, next to what a tree adds to a load.
_ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees by number.

    Parameters
    ----------
    root : shape (num_trees,).
    arc : shape (num_trees, num_ranks); the arc from its parent to each rank, -1 for the root.
    load_us : shape (num_ports,); how long all trees keep each port busy.
    """

    root: IntArray
    arc: IntArray
    load_us: FloatArray


class TreeShape(NamedTuple):
    """What trees are preferred.

    Parameters
    ----------
    blend : how much the way from the root counts next to the price of an arc: 0 for least prices, 1 for
        least routes.
    slack : no rank is farther from the root than 1 + slack times the farthest must be; infinite: any may be.
    took_us : shape (num_arcs,); how long a chunk takes for each arc.
    central : ranks that may be roots, where any may be.
    """

    blend: float
    slack: float
    took_us: FloatArray
    central: IntArray


def shape_of(arcs: Arcs, costs: Costs, mb: float, blend: float, slack: float, any_root: bool) -> TreeShape:
    """A shape for chunks of this many MB: with finite slack, roots that may be any rank are in the middle."""
    took_us = np.zeros(len(arcs.child))
    for links in (arcs.up, arcs.down):
        used = links != NO_LINK
        took_us[used] += costs.alpha_us[links[used]] + mb * costs.beta_us[links[used]]
    num_ranks = len(arcs.first) - 1
    central = np.arange(num_ranks)
    if slack < np.inf and any_root:
        network = csr_array((took_us, (arcs.parent, arcs.child)), shape=(num_ranks, num_ranks))
        farthest = dijkstra(network).max(axis=1)
        central = np.flatnonzero(farthest <= (1 + CHOOSE_OFF_CENTRE) * farthest.min())
    return TreeShape(blend, slack, took_us, central)


def choose(
    arcs: Arcs,
    costs: Costs,
    allowed: BoolArray,
    kind: IntArray,
    root: IntArray,
    mb: FloatArray,
    shape: TreeShape,
    seed: int,
    budget: Budget | None = None,
) -> Forest | None:
    """A tree for each batch of chunks; None if one cannot reach all ranks, or not in time.

    Batches of one kind, root and size use the same trees by turns where there are very many of them.

    Parameters
    ----------
    allowed : shape (num_kinds, num_arcs); the arcs that batches of a kind may use.
    kind, root, mb : shape (num_batches,); the kind of each batch, its root or `ANYWHERE`, its size in MB.
    shape : what trees are preferred.
    budget : looked at now and then: when it is over, trees stay as they were first chosen.
    """
    tree = _turns(kind, root, mb, max(CHOOSE_LEAST_TREES, CHOOSE_TREE_ARCS // max(len(arcs.child), 1)))
    _, first, times = np.unique(tree, return_index=True, return_counts=True)
    arc = np.full((len(first), len(arcs.first) - 1), -1, dtype=np.int64)
    load = np.zeros(costs.num_ports)
    roots = root[first]
    many, together = len(first), _together(len(arcs.child), bool((roots == ANYWHERE).any()))
    for begin in range(0, _ROUNDS * many, together):
        if begin and budget is not None and not budget.remaining_s():
            return Forest(roots[tree], arc[tree], load) if begin >= many else None
        whole = _choose(
            arcs, costs, allowed, kind[first], roots, root[first] == ANYWHERE, mb[first],
            times.astype(np.float64), shape, seed, begin, min(begin + together, _ROUNDS * many), arc, load,
        )  # fmt: skip
        if not whole:
            return None
    return Forest(roots[tree], arc[tree], load)


def _together(num_arcs: int, is_any_free: bool) -> int:
    """How many trees are chosen between two looks at the budget: several roots are tried where any may be."""
    return max(1, CHOOSE_ARCS_BETWEEN_LOOKS // max(num_arcs * (_tries(num_arcs) if is_any_free else 1), 1))


def _turns(kind: IntArray, root: IntArray, mb: FloatArray, most: int) -> IntArray:
    """The tree of each batch, by number, in the order of their first batches: some `most` different ones."""
    _, equivalent = np.unique(np.stack([kind, root, mb]), axis=1, return_inverse=True)
    equivalent = equivalent.ravel()
    each = max(1, most // (int(equivalent.max()) + 1))
    order = np.argsort(equivalent, kind="stable")
    place = np.arange(len(equivalent)) - np.searchsorted(equivalent[order], equivalent[order])
    tree = np.empty(len(equivalent), dtype=np.int64)
    tree[order] = equivalent[order] * each + place % each
    _, first, number = np.unique(tree, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number.ravel()]


def choosing_is_compiled() -> bool:
    """Whether the loops of this module are machine code already."""
    return is_at_hand(_choose)


@compiled
def _use(
    times: float,
    a: int,
    mb: float,
    arcs: Any,
    costs: Any,
    load: Any,
) -> None:
    """Add what an arc keeps busy, this many times, to the load of each of its ports."""
    for link in (arcs.up[a], arcs.down[a]):
        if link == NO_LINK:
            continue
        for pair in range(costs.first[link], costs.first[link + 1]):
            load[costs.port[pair]] += times * (costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair])


@compiled
def _price_of(
    a: int,
    mb: float,
    arcs: Any,
    costs: Any,
    price: Any,
    turn: float,
) -> float:
    """What an arc costs at these prices; equal ones are distinguished, in another way at each turn."""
    total = 0.0
    for link in (arcs.up[a], arcs.down[a]):
        if link == NO_LINK:
            continue
        for pair in range(costs.first[link], costs.first[link + 1]):
            total += price[costs.port[pair]] * (costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair])
    return total * (1.0 + CHOOSE_TIES * ((a * CHOOSE_GOLDEN + turn) % 1.0))


@compiled
def _latest(arcs: Any, took_us: Any, allowed: Any, root: int, slack: float, turn: float, latest: Any) -> None:
    """When each rank must be reached at the latest, so that all are within `1 + slack` of the longest way.

    Each rank is later than one of its neighbours by the arc from there: as long as no rank is reached later
    than it must be, all others can still be reached in time, by these arcs if by no others.
    """
    num_ranks = len(arcs.first) - 1
    soonest, below, order = np.full(num_ranks, np.inf), np.zeros(num_ranks), np.zeros(num_ranks, np.int64)
    above = np.full(num_ranks, -1, np.int64)
    keys, items = np.zeros(len(arcs.child) + 1), np.zeros(len(arcs.child) + 1, np.int64)
    done = np.zeros(num_ranks, np.bool_)
    soonest[root] = 0.0
    push(keys, items, 0, 0, 0.0, root)
    size, known = 1, 0
    while size:
        rank = items[0]
        pop(keys, items, 0, size)
        size -= 1
        if done[rank]:
            continue
        done[rank] = True
        order[known] = rank
        known += 1
        for a in range(arcs.first[rank], arcs.first[rank + 1]):
            child = arcs.child[a]
            way = soonest[rank] + took_us[a] * (1.0 + CHOOSE_TIES * ((a * CHOOSE_GOLDEN + turn) % 1.0))
            if allowed[a] and way < soonest[child]:
                soonest[child], above[child] = way, a
                push(keys, items, 0, size, way, child)
                size += 1
    for at in range(known - 1, 0, -1):
        rank = order[at]
        a = above[rank]
        below[arcs.parent[a]] = max(below[arcs.parent[a]], below[rank] + took_us[a])
    for rank in range(num_ranks):
        latest[rank] = below[root] * (1.0 + slack + CHOOSE_TIES) - below[rank]


@compiled
def _raise_prices(arcs: Any, costs: Any, a: int, slope: float, most: float, load: Any, price: Any) -> None:
    """Set the prices of the ports of an arc, by their loads."""
    for link in (arcs.up[a], arcs.down[a]):
        if link == NO_LINK:
            continue
        for pair in range(costs.first[link], costs.first[link + 1]):
            p = costs.port[pair]
            price[p] = np.exp(min(max(slope * (load[p] - most), _LEAST), -_LEAST))


@compiled
def _grow(
    arcs: Any,
    costs: Any,
    allowed: Any,
    root: int,
    mb: float,
    times: float,
    blend: float,
    slope: float,
    most: float,
    turn: float,
    took_us: Any,
    latest: Any,
    arc: Any,
    load: Any,
    price: Any,
) -> float:
    """Grow a tree from its root into `arc`; what it costs, more for a deep one; infinite if it does not span.

    Each arc that it takes raises the prices of its ports, in `load` and `price`, so prices of arcs that wait
    are looked at again when their turn comes.
    """
    num_ranks = len(arcs.first) - 1
    way, depth, reached_us = np.zeros(num_ranks), np.zeros(num_ranks), np.zeros(num_ranks)
    done = np.zeros(num_ranks, np.bool_)
    arc[:] = -1
    # An arc is on the heap once; the root stands there as one arc more.
    root_arc = len(arcs.child)
    keys, items = np.zeros(len(arcs.child) + 1), np.zeros(len(arcs.child) + 1, np.int64)
    push(keys, items, 0, 0, 0.0, root_arc)
    size = 1
    reached, cost, deepest = 0, 0.0, 0.0
    while size:
        key, a = keys[0], items[0]
        pop(keys, items, 0, size)
        size -= 1
        rank = root if a == root_arc else arcs.child[a]
        if done[rank]:
            continue
        if a != root_arc:
            above = arcs.parent[a]
            if reached_us[above] + took_us[a] > latest[rank]:
                continue
            weight = _price_of(a, mb, arcs, costs, price, turn)
            now = blend * way[above] + weight
            if now > key * (1.0 + _SAME):
                push(keys, items, 0, size, now, a)
                size += 1
                continue
            arc[rank] = a
            way[rank], depth[rank] = way[above] + weight, depth[above] + 1.0
            reached_us[rank] = reached_us[above] + took_us[a]
            cost += weight
            deepest = max(deepest, depth[rank])
            _use(times, a, mb, arcs, costs, load)
            _raise_prices(arcs, costs, a, slope, most, load, price)
        done[rank] = True
        reached += 1
        for other in range(arcs.first[rank], arcs.first[rank + 1]):
            if allowed[other] and not done[arcs.child[other]]:
                weight = _price_of(other, mb, arcs, costs, price, turn)
                push(keys, items, 0, size, blend * way[rank] + weight, other)
                size += 1
    return cost * (1.0 + CHOOSE_DEPTH * deepest) if reached == num_ranks else np.inf


@compiled
def _copy(column: Any, into: Any) -> None:
    """Write a column into another: an assignment of slices would compile three seconds of its own errors."""
    for at in range(len(column)):
        into[at] = column[at]


@compiled
def _tries(num_arcs: int) -> int:
    """How many roots are tried for a tree whose root may be any rank."""
    return min(CHOOSE_MOST_ROOTS, max(CHOOSE_LEAST_ROOTS, CHOOSE_ROOT_ARCS // max(num_arcs, 1)))


@compiled
def _choose(
    arcs: Any,
    costs: Any,
    allowed: Any,
    kind: Any,
    root: Any,
    is_free: Any,
    mb: Any,
    times: Any,
    shape: Any,
    seed: int,
    begin: int,
    end: int,
    arc: Any,
    load: Any,
) -> bool:
    """Fill `root`, `arc` and `load` in turns from `begin` to before `end`; whether all reach all ranks."""
    num_ranks, many = len(arcs.first) - 1, len(root)
    tries = _tries(len(arcs.child))
    latest = np.full(num_ranks, np.inf)
    price, trial_load, trial_price = np.zeros(len(load)), np.zeros(len(load)), np.zeros(len(load))
    trial, best = np.zeros(num_ranks, np.int64), np.zeros(num_ranks, np.int64)
    for number in range(begin, end):
        tree = number % many
        if number >= many:
            for a in arc[tree]:
                if a >= 0:
                    _use(-times[tree], a, mb[tree], arcs, costs, load)
        most = load.max()
        slope = min(number + 1, many) / max(most, 1e-300) * CHOOSE_SHARPNESS[number // many]
        for p in range(len(load)):
            price[p] = np.exp(max(slope * (load[p] - most), _LEAST))
        least, chosen = np.inf, -1
        for attempt in range(tries if is_free[tree] else 1):
            start = root[tree]
            turn = (tree + seed) * CHOOSE_GOLDEN + attempt / tries + (number // many) * CHOOSE_PLASTIC
            if is_free[tree]:
                start = shape.central[int(turn % 1.0 * len(shape.central))]
            if shape.slack < np.inf:
                _latest(arcs, shape.took_us, allowed[kind[tree]], start, shape.slack, turn + attempt, latest)
            _copy(load, trial_load)
            _copy(price, trial_price)
            cost = _grow(
                arcs, costs, allowed[kind[tree]], start, mb[tree], times[tree], shape.blend, slope, most,
                (tree + seed) * CHOOSE_PLASTIC, shape.took_us, latest, trial, trial_load, trial_price,
            )  # fmt: skip
            if cost < least:
                least, chosen = cost, start
                _copy(trial, best)
        if chosen < 0:
            return False
        root[tree] = chosen
        _copy(best, arc[tree])
        for a in best:
            if a >= 0:
                _use(times[tree], a, mb[tree], arcs, costs, load)
    return True
