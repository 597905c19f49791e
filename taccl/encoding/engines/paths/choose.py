r"""A path for each batch of chunks, so that together they use no port much more than others.

Batches of one source are routed in portions, each along a tree of least paths from the source (Dijkstra
1959). Port p has a price that rises with what it carries already,

    y_p = exp(sharpness * (load_p / largest load - 1)),

so that the next portion goes round what is busy. Every portion is then routed again beside all others, at
prices that rise more sharply: the smaller the portions, the nearer this comes to the optimum of the linear
program over all paths (multiplicative weights: Plotkin, Shmoys and Tardos 1995). Of equally busy paths the
shortest is taken, and of equally short ones another one by each portion.

It knows links and what they cost; it must not know when anything is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taccl.collective import BoolArray, IntArray
from taccl.compiled import compiled, is_at_hand
from taccl.encoding.engines.forest.arcs import Costs
from taccl.encoding.engines.forest.heaps import pop, push
from taccl.network import FloatArray, LogicalTopology

#: About so many links are looked at in a round; the portions are as small as that allows.
_LOOKS = 30_000_000
#: How often every portion is routed, and how sharply prices rise each time.
_SHARPNESS = (8.0, 24.0, 60.0)
#: What a path's own time counts beside the price of its ports.
_SHORTNESS = 1e-3
#: Relative differences by which equally short paths are told apart.
_TIES = 1e-4


@dataclass(frozen=True, eq=False)
class Batches:
    """Chunks that travel alike: from one rank to another one, over links that all of them may use.

    Parameters
    ----------
    first : shape (num_batches + 1,); the chunks of batch b are places `first[b]` to `first[b + 1]` of `chunk`.
    chunk : shape (num_places,).
    source, target, kind : shape (num_batches,); in order of source and kind. The kind says which links may be
        used.
    """

    first: IntArray
    chunk: IntArray
    source: IntArray
    target: IntArray
    kind: IntArray

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Paths:
    """A path for each batch.

    Parameters
    ----------
    first : shape (num_batches + 1,); the links of batch b, in order, are those from `link[first[b]]` on.
    link : shape (num_steps,).
    load_us : shape (num_ports,); how long all batches together keep each port busy.
    """

    first: IntArray
    link: IntArray
    load_us: FloatArray


def choose(
    topology: LogicalTopology, costs: Costs, usable: BoolArray, batches: Batches, chunk_mb: float, seed: int
) -> Paths | None:
    """A path for each batch; None if one has no way to its target.

    Parameters
    ----------
    usable : shape (num_kinds, num_links).
    """
    order = np.argsort(topology.src, kind="stable")
    first_out = np.searchsorted(topology.src[order], np.arange(topology.num_ranks + 1))
    key = batches.source * len(usable) + batches.kind
    begins = np.concatenate([[0], np.flatnonzero(np.diff(key)) + 1, [len(batches)]])
    tie = 1.0 + _TIES * np.random.default_rng(seed).random((2, topology.num_links))
    rng = np.random.default_rng(seed + 1)
    turn = np.concatenate([rng.permutation(many) for many in np.diff(begins)]) if len(batches) else begins[:0]
    largest = int(np.diff(begins).max(initial=1))
    portions = int(max(1, min(largest, _LOOKS // (len(_SHARPNESS) * (len(begins) - 1) * topology.num_links))))
    mb = np.diff(batches.first) * chunk_mb
    at, many, link, load = _choose(
        topology.src, topology.dst, first_out, order, costs, usable, begins, turn, portions,
        batches.source, batches.target, batches.kind, mb, tie, np.array(_SHARPNESS),
    )  # fmt: skip
    if len(at) < len(batches):
        return None
    first = np.concatenate([[0], np.cumsum(many)])
    place = np.repeat(at - first[:-1], many) + np.arange(first[-1])
    return Paths(first, link[place], load)


def choosing_is_compiled() -> bool:
    """Whether the loops of this module are machine code already."""
    return is_at_hand(_choose)


@compiled
def _tree(
    source: int, length: Any, usable: Any, first_out: Any, order: Any, dst: Any, via: Any, way: Any
) -> None:
    """Fill `via` with the last link on a least path from the source to each rank; -1 where there is none."""
    num_ranks = len(first_out) - 1
    done = np.zeros(num_ranks, np.bool_)
    keys, items = np.zeros(len(dst) + 1), np.zeros(len(dst) + 1, np.int64)
    via[:] = -1
    way[:] = np.inf
    way[source] = 0.0
    push(keys, items, 0, 0, 0.0, source)
    size = 1
    while size:
        rank = items[0]
        pop(keys, items, 0, size)
        size -= 1
        if done[rank]:
            continue
        done[rank] = True
        for place in range(first_out[rank], first_out[rank + 1]):
            link = order[place]
            there = dst[link]
            longer = way[rank] + length[link]
            if usable[link] and longer < way[there]:
                way[there] = longer
                via[there] = link
                push(keys, items, 0, size, longer, there)
                size += 1


@compiled
def _use(sign: float, link: int, mb: float, costs: Any, load: Any) -> None:
    """Add what a batch keeps the ports of a link busy, or take it off."""
    for pair in range(costs.first[link], costs.first[link + 1]):
        load[costs.port[pair]] += sign * (costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair])


@compiled
def _choose(
    src: Any,
    dst: Any,
    first_out: Any,
    order: Any,
    costs: Any,
    usable: Any,
    begins: Any,
    turn: Any,
    portions: int,
    source: Any,
    target: Any,
    kind: Any,
    mb: Any,
    tie: Any,
    sharpness: Any,
) -> Any:
    """Where each batch's path begins in a column of links, how long it is, that column, and the loads.

    No beginnings at all if a batch has no path.
    """
    num_links, num_ranks, many = len(src), len(first_out) - 1, len(source)
    at, steps = np.zeros(many, np.int64), np.zeros(many, np.int64)
    links, used = np.zeros(4 * many + 16, np.int32), 0
    load = np.zeros(costs.num_ports)
    price, length = np.zeros(costs.num_ports), np.zeros(num_links)
    via, way = np.zeros(num_ranks, np.int64), np.zeros(num_ranks)
    for attempt in range(len(sharpness)):
        for portion in range(portions):
            for g in range(len(begins) - 1):
                size = begins[g + 1] - begins[g]
                if portion >= size:
                    continue
                mine = begins[g] + turn[begins[g] + portion : begins[g + 1] : portions]
                if attempt:
                    for b in mine:
                        for step in range(at[b], at[b] + steps[b]):
                            _use(-1.0, links[step], mb[b], costs, load)
                most = max(load.max(), 1e-300)
                for p in range(costs.num_ports):
                    price[p] = np.exp(sharpness[attempt] * (load[p] / most - 1.0))
                size_mb = mb[mine[0]]
                shift = (g * 7919 + portion * 104729 + attempt * 31) % num_links
                for link in range(num_links):
                    total = _SHORTNESS * (costs.alpha_us[link] + size_mb * costs.beta_us[link])
                    for pair in range(costs.first[link], costs.first[link + 1]):
                        busy = costs.busy_alpha_us[pair] + size_mb * costs.busy_beta_us[pair]
                        total += price[costs.port[pair]] * busy
                    length[link] = total * tie[0, (link + shift) % num_links]
                _tree(source[mine[0]], length, usable[kind[mine[0]]], first_out, order, dst, via, way)
                for b in mine:
                    rank, count = target[b], 0
                    while rank != source[b]:
                        if via[rank] < 0:
                            return at[:0], steps, links, load
                        rank = src[via[rank]]
                        count += 1
                    if attempt == 0 or count > steps[b]:
                        if used + count > len(links):
                            links = np.concatenate((links, np.zeros(len(links) + count, np.int32)))
                        at[b] = used
                        used += count
                    steps[b] = count
                    rank = target[b]
                    for step in range(at[b] + count - 1, at[b] - 1, -1):
                        links[step] = via[rank]
                        _use(1.0, via[rank], mb[b], costs, load)
                        rank = src[via[rank]]
    return at, steps, links, load
