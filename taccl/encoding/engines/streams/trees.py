"""Spanning trees of one root that load ports evenly and stay low: grown together, then improved by annealing.

Trees grow by turns, one rank at a time, over the link whose ports are least busy then. On a torus that has
edge-disjoint trees, and in a cluster each tree leaves a node by another NIC. A move of the annealing then
gives a rank another parent in one tree, or exchanges the parents that it has in two trees. What is made small
is

    periods * (load of the busiest port in a period)  +  ways * (the longest way from the root),

both as norms of a high power, so that the second busiest port counts a little, too.

Source: Kirkpatrick, Gelatt and Vecchi, "Optimization by simulated annealing", Science 220 (1983).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import compiled

#: Loads that differ by less are equal.
_SAME = 1e-9
#: After so many moves sums of powers are made anew: large powers that are gone leave their rounding errors.
_AFRESH = 64


class Net(NamedTuple):
    """The links that trees may use, for chunks of one size.

    Parameters
    ----------
    first, port, busy_us : shapes (num_links + 1,), (num_pairs,), (num_pairs,); the ports of each link, and
        how long a chunk keeps each busy.
    src, dst, hop_us : shape (num_links,); how long a chunk takes.
    out_first, out, in_first, into : the links out of each rank, and into it, by columns.
    """

    first: IntArray
    port: IntArray
    busy_us: FloatArray
    src: IntArray
    dst: IntArray
    hop_us: FloatArray
    out_first: IntArray
    out: IntArray
    in_first: IntArray
    into: IntArray


class _Trees(NamedTuple):
    """Trees that change: links and ways by (tree, rank), children as lists, loads by port."""

    into: Any
    load: Any
    way: Any
    child: Any
    after: Any
    before: Any


@compiled
def grown(net: Any, num_trees: int, root: int) -> Any:
    """The link by which each tree reaches each rank, -1 at the root; and the ranks in the order of arrival.

    Both of shape (num_trees, num_ranks); the second is empty if some rank is out of reach.
    """
    num_ranks = len(net.out_first) - 1
    into, order = np.full((num_trees, num_ranks), -1), np.full((num_trees, num_ranks), root)
    way, load = np.full((num_trees, num_ranks), np.inf), np.zeros(int(net.port.max()) + 1)
    way[:, root] = 0.0
    for reached in range(1, num_ranks):
        for t in range(num_trees):
            best, least_load, least_way = -1, np.inf, np.inf
            for place in range(reached):
                rank = order[t, place]
                for at in range(net.out_first[rank], net.out_first[rank + 1]):
                    link = net.out[at]
                    if way[t, net.dst[link]] < np.inf:
                        continue
                    most = 0.0
                    for pair in range(net.first[link], net.first[link + 1]):
                        most = max(most, load[net.port[pair]] + net.busy_us[pair])
                    far = way[t, rank] + net.hop_us[link]
                    if most < least_load - _SAME or (most < least_load + _SAME and far < least_way):
                        best, least_load, least_way = link, most, far
            if best < 0:
                return into, order[:0]
            rank = net.dst[best]
            into[t, rank], order[t, reached], way[t, rank] = best, rank, least_way
            for pair in range(net.first[best], net.first[best + 1]):
                load[net.port[pair]] += net.busy_us[pair]
    return into, order


@compiled
def _power(x: float) -> float:
    """To the power of 16."""
    x *= x
    x *= x
    x *= x
    return x * x


@compiled
def _hang(t: int, v: int, link: int, sign: float, net: Any, trees: Any, sums: Any) -> None:
    """Add (`sign` 1) or remove (-1) what a link to a rank keeps busy, and the rank among its siblings."""
    load, child, after, before = trees.load, trees.child, trees.after, trees.before
    for pair in range(net.first[link], net.first[link + 1]):
        p = net.port[pair]
        sums[0] -= _power(load[p])
        load[p] = max(load[p] + sign * net.busy_us[pair], 0.0)
        sums[0] += _power(load[p])
    u = net.src[link]
    if sign > 0:
        after[t, v], before[t, v] = child[t, u], -1
        if child[t, u] >= 0:
            before[t, child[t, u]] = v
        child[t, u] = v
        return
    if before[t, v] >= 0:
        after[t, before[t, v]] = after[t, v]
    else:
        child[t, u] = after[t, v]
    if after[t, v] >= 0:
        before[t, after[t, v]] = before[t, v]


@compiled
def _move(t: int, v: int, link: int, net: Any, trees: Any, sums: Any, stack: Any) -> None:
    """Make a link the one by which a tree reaches a rank; all below it are farther or nearer then."""
    if trees.into[t, v] >= 0:
        _hang(t, v, trees.into[t, v], -1.0, net, trees, sums)
    trees.into[t, v] = link
    _hang(t, v, link, 1.0, net, trees, sums)
    more = trees.way[t, net.src[link]] + net.hop_us[link] - trees.way[t, v]
    stack[0], size = v, 1
    while size:
        size -= 1
        rank = stack[size]
        sums[1] -= _power(trees.way[t, rank])
        trees.way[t, rank] += more
        sums[1] += _power(trees.way[t, rank])
        below = trees.child[t, rank]
        while below >= 0:
            stack[size] = below
            size += 1
            below = trees.after[t, below]


@compiled
def _is_below(t: int, rank: int, v: int, net: Any, trees: Any) -> bool:
    """Whether a rank is `v`, or below it in a tree."""
    while rank != v:
        if trees.into[t, rank] < 0:
            return False
        rank = net.src[trees.into[t, rank]]
    return True


@compiled
def _afresh(trees: Any, sums: Any) -> None:
    """The sums of powers of loads and of ways, made anew."""
    sums[:] = 0.0
    for one in trees.load:
        sums[0] += _power(one)
    for t in range(len(trees.way)):
        for one in trees.way[t]:
            sums[1] += _power(one)


@compiled
def _energy(sums: Any, periods: float, ways: float) -> float:
    return float(periods * max(sums[0], 0.0) ** 0.0625 + ways * max(sums[1], 0.0) ** 0.0625)


@compiled
def _begun(net: Any, into: Any, order: Any) -> Any:
    """Trees with their loads, ways and children, each rank after its parent in `order`."""
    shape = into.shape
    trees = _Trees(
        np.full(shape, -1),
        np.zeros(int(net.port.max()) + 1),
        np.zeros(shape),
        np.full(shape, -1),
        np.full(shape, -1),
        np.full(shape, -1),
    )
    sums, stack = np.zeros(2), np.zeros(shape[1], np.int64)
    for t in range(shape[0]):
        for v in order[t]:
            if into[t, v] >= 0:
                _move(t, v, into[t, v], net, trees, sums, stack)
    return trees


@compiled
def annealed(
    net: Any,
    into: Any,
    order: Any,
    seed: int,
    periods: float,
    ways: float,
    moves: int,
    hot: float,
    cold: float,
) -> Any:
    """Better trees than `into`, in the same form; parents come before their children in `order`.

    Temperatures fall from `hot` to `cold`; times of `net` are in parts of some time.
    """
    np.random.seed(seed)
    num_trees, num_ranks = into.shape
    trees = _begun(net, into, order)
    sums, stack = np.zeros(2), np.zeros(num_ranks, np.int64)
    best, energy, least = into.copy(), 0.0, np.inf
    for move in range(moves):
        if move % _AFRESH == 0:
            _afresh(trees, sums)
            energy = _energy(sums, periods, ways)
            least = min(least, energy)
        t, v, other = np.random.randint(num_trees), np.random.randint(num_ranks), -1
        was = trees.into[t, v]
        if was < 0:
            continue
        if num_trees > 1 and np.random.randint(2):
            other = np.random.randint(num_trees)
            link = trees.into[other, v]
        else:
            link = net.into[np.random.randint(net.in_first[v], net.in_first[v + 1])]
        if link == was or _is_below(t, net.src[link], v, net, trees):
            continue
        if other >= 0 and _is_below(other, net.src[was], v, net, trees):
            continue
        _move(t, v, link, net, trees, sums, stack)
        if other >= 0:
            _move(other, v, was, net, trees, sums, stack)
        now, heat = _energy(sums, periods, ways), hot * (cold / hot) ** (move / moves)
        if now <= energy or np.random.random() < np.exp((energy - now) / heat):
            energy = now
            if energy < least * (1 - _SAME):
                least = energy
                best[:] = trees.into
            continue
        _move(t, v, was, net, trees, sums, stack)
        if other >= 0:
            _move(other, v, link, net, trees, sums, stack)
    return best
