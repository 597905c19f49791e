r"""A path for each chunk, so that together they use no port much more than others.

Chunks of one source are routed in portions, each along a tree from the source: one of least paths (Dijkstra
1959), or one that enters a node once and goes on inside it, so that chunks may share sends (between Prim's
tree, 1957, and Dijkstra's; Alpert et al. 1995 weigh the two so). Port p has a price that rises with what it
carries already,

    y_p = exp(sharpness * (load_p / largest load - 1)),

so that the next portion goes round what is busy. Every portion is then routed again next to all others, at
prices that rise more sharply: the smaller the portions, the nearer this comes to the optimum of the linear
program over all paths (multiplicative weights: Plotkin, Shmoys and Tardos 1995). Of equally busy paths the
shortest is taken, and of equally short ones another one by each portion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taccl.encoding.core.costs import Costs
from taccl.encoding.core.heaps import pop, push
from taccl.encoding.engines.paths.tuning import CHOOSE_LOOKS, CHOOSE_SHARPNESS, CHOOSE_SHORTNESS, CHOOSE_TIES
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.support.jit import compiled, is_at_hand


@dataclass(frozen=True, eq=False)
class Ends:
    """Chunks that have to move: where from and where to, in order of source and kind.

    Parameters
    ----------
    chunk, source, target : shape (num_moving,).
    kind : shape (num_moving,); chunks of one kind may use the same links.
    company : shape (num_moving,); chunks of one source and company are routed together.
    """

    chunk: IntArray
    source: IntArray
    target: IntArray
    kind: IntArray
    company: IntArray

    def __len__(self) -> int:
        return len(self.chunk)


@dataclass(frozen=True, eq=False)
class Paths:
    """A path for each moving chunk.

    Parameters
    ----------
    first : shape (num_moving + 1,); the links of moving chunk i, in order, begin at `link[first[i]]`.
    link : shape (num_steps,).
    load_us : shape (num_ports,); how long all chunks together keep each port busy.
    """

    first: IntArray
    link: IntArray
    load_us: FloatArray


def choose(
    topology: LogicalTopology,
    costs: Costs,
    usable: BoolArray,
    ends: Ends,
    mb: FloatArray,
    blend: float,
    seed: int,
) -> Paths | None:
    """A path for each chunk; None if one has no way to its target.

    Parameters
    ----------
    usable : shape (num_kinds, num_links).
    mb : shape (num_moving,); the size of each chunk.
    blend : how much the way from the source counts next to the price of a link: 1 for least paths.
    """
    order = np.argsort(topology.src, kind="stable")
    first_out = np.searchsorted(topology.src[order], np.arange(topology.num_ranks + 1))
    key = ends.source * len(usable) + ends.kind
    begins = np.concatenate([[0], np.flatnonzero(np.diff(key)) + 1, [len(ends)]])
    rng = np.random.default_rng(seed)
    tie = 1.0 + CHOOSE_TIES * rng.random(topology.num_links)
    largest = int(np.diff(begins).max(initial=1))
    looks = len(CHOOSE_SHARPNESS) * (len(begins) - 1) * topology.num_links
    portions = int(max(1, min(largest, CHOOSE_LOOKS // looks)))
    # Companies in an order of chance are dealt out to the portions, in another order for each source.
    portion = rng.permutation(int(ends.company.max(initial=0)) + 1)[ends.company]
    portion = (portion + np.repeat(np.arange(len(begins) - 1), np.diff(begins))) % portions
    at, many, link, load = _choose(
        topology.src, topology.dst, first_out, order, costs, usable, begins, portion, portions,
        ends.source, ends.target, ends.kind, mb, blend, tie, np.array(CHOOSE_SHARPNESS),
    )  # fmt: skip
    if len(at) < len(ends):
        return None
    first = np.concatenate([[0], np.cumsum(many)])
    place = np.repeat(at - first[:-1], many) + np.arange(first[-1])
    return Paths(first, link[place], load)


def choosing_is_compiled() -> bool:
    """Whether the loops of this module are machine code already."""
    return is_at_hand(_choose)


@compiled
def _tree(
    source: int, blend: float, length: Any, usable: Any, first_out: Any, order: Any, dst: Any, via: Any
) -> None:
    """Fill `via` with the last link on the way from the source to each rank; -1 where there is none."""
    num_ranks = len(first_out) - 1
    done = np.zeros(num_ranks, np.bool_)
    keys, items = np.zeros(len(dst) + 1), np.zeros(len(dst) + 1, np.int64)
    way, least = np.zeros(num_ranks), np.full(num_ranks, np.inf)
    via[:] = -1
    least[source] = 0.0
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
            key = blend * way[rank] + length[link]
            if usable[link] and not done[there] and key < least[there]:
                least[there] = key
                way[there] = way[rank] + length[link]
                via[there] = link
                push(keys, items, 0, size, key, there)
                size += 1


@compiled
def _use(sign: float, link: int, mb: float, costs: Any, load: Any) -> None:
    """Add what a chunk keeps the ports of a link busy, or take it off."""
    for pair in range(costs.first[link], costs.first[link + 1]):
        load[costs.port[pair]] += sign * (costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair])


@compiled
def _set_lengths(
    costs: Any, mb: float, sharpness: float, load: Any, tie: Any, shift: int, price: Any, length: Any
) -> None:
    """Set the prices of ports by their loads, and the lengths of links by their ports' prices."""
    most, num_links = max(load.max(), 1e-300), len(length)
    for p in range(costs.num_ports):
        price[p] = np.exp(sharpness * (load[p] / most - 1.0))
    for link in range(num_links):
        total = CHOOSE_SHORTNESS * (costs.alpha_us[link] + mb * costs.beta_us[link])
        for pair in range(costs.first[link], costs.first[link + 1]):
            busy = costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair]
            total += price[costs.port[pair]] * busy
        length[link] = total * tie[(link + shift) % num_links]


@compiled
def _choose(
    src: Any,
    dst: Any,
    first_out: Any,
    order: Any,
    costs: Any,
    usable: Any,
    begins: Any,
    portion_of: Any,
    portions: int,
    source: Any,
    target: Any,
    kind: Any,
    mb: Any,
    blend: float,
    tie: Any,
    sharpness: Any,
) -> Any:
    """Where each chunk's path begins in a column of links, how long it is, that column, and the loads.

    No beginnings at all if a chunk has no path.
    """
    num_links, num_ranks, many = len(src), len(first_out) - 1, len(source)
    at, steps = np.zeros(many, np.int64), np.zeros(many, np.int64)
    links, used = np.zeros(4 * many + 16, np.int32), 0
    load = np.zeros(costs.num_ports)
    price, length = np.zeros(costs.num_ports), np.zeros(num_links)
    via = np.zeros(num_ranks, np.int64)
    for attempt in range(len(sharpness)):
        for portion in range(portions):
            for g in range(len(begins) - 1):
                mine = begins[g] + np.flatnonzero(portion_of[begins[g] : begins[g + 1]] == portion)
                if not len(mine):
                    continue
                if attempt:
                    for c in mine:
                        for step in range(at[c], at[c] + steps[c]):
                            _use(-1.0, links[step], mb[c], costs, load)
                shift = (g * 7919 + portion * 104729 + attempt * 31) % num_links
                _set_lengths(costs, mb[mine].mean(), sharpness[attempt], load, tie, shift, price, length)
                c = mine[0]
                _tree(source[c], blend, length, usable[kind[c]], first_out, order, dst, via)
                for c in mine:
                    rank, count = target[c], 0
                    while rank != source[c]:
                        if via[rank] < 0:
                            return at[:0], steps, links, load
                        rank = src[via[rank]]
                        count += 1
                    if attempt == 0 or count > steps[c]:
                        if used + count > len(links):
                            links = np.concatenate((links, np.zeros(len(links) + count, np.int32)))
                        at[c] = used
                        used += count
                    steps[c] = count
                    rank = target[c]
                    for step in range(at[c] + count - 1, at[c] - 1, -1):
                        links[step] = via[rank]
                        _use(1.0, via[rank], mb[c], costs, load)
                        rank = src[via[rank]]
    return at, steps, links, load
