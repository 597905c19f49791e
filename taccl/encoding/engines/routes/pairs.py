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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from taccl.encoding.core.costs import Costs, costs_of
from taccl.encoding.core.heaps import pop, push
from taccl.encoding.engines.routes.choice import Choice, powers_of_two
from taccl.encoding.engines.routes.columns import Routes, turns
from taccl.encoding.engines.routes.kinds import kinds_of
from taccl.encoding.engines.routes.tuning import (
    MOST_TOGETHER,
    PAIRS_BLENDS,
    PAIRS_LOOKS,
    PAIRS_SHARPNESS,
    PAIRS_SHORTNESS,
    PAIRS_TIES,
    POWERS,
    SEEDS,
)
from taccl.encoding.instance import Instance
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget
from taccl.support.jit import compiled, is_at_hand


def pairs(instance: Instance, seed: int, budget: Budget) -> Iterator[Choice]:
    """A path for each chunk, with trees of all blends."""
    problem = instance.problem
    topology, costs = problem.topology, costs_of(problem.topology)
    usable, kind = kinds_of(problem)
    chunks = instance.demand.from_one_to_another
    ends = _ends(problem, chunks, kind[chunks])
    mb = problem.size_mb[ends.chunk]
    most = powers_of_two(min(problem.max_group, MOST_TOGETHER, len(ends)))
    blends = PAIRS_BLENDS if 1 < topology.num_nodes < topology.num_ranks else PAIRS_BLENDS[-1:]
    turn_of = turns(ends.source)
    for number in range(SEEDS):
        for blend in blends:
            paths = choose(topology, costs, usable, ends, mb, blend, seed + number)
            if paths is None:
                return
            of = np.repeat(np.arange(len(ends)), np.diff(paths.first))
            none = np.zeros(len(of), dtype=np.bool_)
            routes = Routes(
                ends.chunk[of], paths.link.astype(np.int64), none, paths.tree[of], turn_of[of], mixes=True
            )
            yield Choice(routes, most, POWERS, noisy=True, matches=True)


def _ends(problem: Problem, chunks: IntArray, kind: IntArray) -> Ends:
    """The chunks by source and kind; those for one node are in company, where it has several ranks."""
    collective, node_of = problem.collective, problem.topology.node_of
    source, target = collective.source[chunks], collective.destination[chunks]
    piece = np.arange(len(chunks)) % collective.chunks_per_rank
    company = node_of[target] if len(np.unique(node_of)) > 1 else target
    company = company * collective.chunks_per_rank + piece
    order = np.lexsort((chunks, company, kind, source))
    return Ends(*(column[order] for column in (chunks, source, target, kind, company)))


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
    tree : shape (num_moving,); chunks of one number are on one tree from their source.
    """

    first: IntArray
    link: IntArray
    tree: IntArray


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
    tie = 1.0 + PAIRS_TIES * rng.random(topology.num_links)
    largest = int(np.diff(begins).max(initial=1))
    looks = len(PAIRS_SHARPNESS) * (len(begins) - 1) * topology.num_links
    portions = int(max(1, min(largest, PAIRS_LOOKS // looks)))
    # Companies in an order of chance are dealt out to the portions, in another order for each source.
    portion = rng.permutation(int(ends.company.max(initial=0)) + 1)[ends.company]
    portion = (portion + np.repeat(np.arange(len(begins) - 1), np.diff(begins))) % portions
    at, many, link = _choose(
        topology.src, topology.dst, first_out, order, costs, usable, begins, portion, portions,
        ends.source, ends.target, ends.kind, mb, blend, tie, np.array(PAIRS_SHARPNESS),
    )  # fmt: skip
    if len(at) < len(ends):
        return None
    first = np.concatenate([[0], np.cumsum(many)])
    place = np.repeat(at - first[:-1], many) + np.arange(first[-1])
    group = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    return Paths(first, link[place], group * portions + portion)


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
        total = PAIRS_SHORTNESS * (costs.alpha_us[link] + mb * costs.beta_us[link])
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
    """Where each chunk's path begins in a column of links, how long it is, and that column.

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
                            return at[:0], steps, links
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
    return at, steps, links
