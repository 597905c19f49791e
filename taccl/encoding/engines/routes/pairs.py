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

Large chunks of unequal sizes are no small portions. So they may be routed once more, one by one, the largest
first: each on the path that raises the sum of all prices least, its own load counted. Every such step lowers
that sum, so chunks do not chase each other to the port that was idle last. Alpha counts once for a link
there, since chunks that wait for one link leave together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.core.costs import Costs, costs_of
from taccl.encoding.core.heaps import pop, push
from taccl.encoding.engines.routes.choice import Choice, powers_of_two
from taccl.encoding.engines.routes.columns import Routes, turns
from taccl.encoding.engines.routes.kinds import kinds_of
from taccl.encoding.engines.routes.tuning import (
    CHANCE,
    MOST_TOGETHER,
    PAIRS_ALONE_CHANCE,
    PAIRS_ALONE_LOOKS,
    PAIRS_ALONE_LOOKS_PER_UNIT,
    PAIRS_ALONE_SHARPNESS,
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
from taccl.model.schedule.numbering import by_value
from taccl.support.budget import UNITS_PER_S, Budget
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
    rounds = [(number, blend, False) for number in range(SEEDS) for blend in blends]
    looks = len(PAIRS_ALONE_SHARPNESS) * len(ends) * topology.num_links
    units = looks / PAIRS_ALONE_LOOKS_PER_UNIT
    if problem.sizes is not None and looks <= PAIRS_ALONE_LOOKS:
        rounds = [(number, blends[-1], True) for number in range(SEEDS)] + rounds
    for number, blend, alone in rounds:
        if alone:
            if budget.remaining_s() < 2 * units / UNITS_PER_S:
                continue
            budget.spend(units)
        paths = choose(topology, costs, usable, ends, mb, blend, seed + number, alone)
        if paths is None:
            return
        of = np.repeat(np.arange(len(ends)), np.diff(paths.first))
        none = np.zeros(len(of), dtype=np.bool_)
        routes = Routes(
            ends.chunk[of], paths.link.astype(np.int64), none, paths.tree[of], turn_of[of], mixes=True
        )
        yield Choice(routes, most, POWERS, PAIRS_ALONE_CHANCE if alone else CHANCE, matches=not alone)


def _ends(problem: Problem, chunks: IntArray, kind: IntArray) -> Ends:
    """The chunks by source and kind; those for one node are in company, where it has several ranks."""
    collective, node_of = problem.collective, problem.topology.node_of
    source, target = collective.source[chunks], collective.destination[chunks]
    piece, many = _pieces(source * problem.num_ranks + target)
    company = node_of[target] if len(np.unique(node_of)) > 1 else target
    company = company * many + piece
    order = np.lexsort((chunks, company, kind, source))
    return Ends(*(column[order] for column in (chunks, source, target, kind, company)))


def _pieces(part: IntArray) -> tuple[IntArray, int]:
    """For each chunk, how many before it are of its part; and of how many a part is at most."""
    order = by_value(part)
    piece = np.empty_like(part)
    piece[order] = np.arange(len(part)) - np.searchsorted(part[order], part[order])
    return piece, int(piece.max(initial=0)) + 1


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
    alone: bool = False,
) -> Paths | None:
    """A path for each chunk; None if one has no way to its target.

    Parameters
    ----------
    usable : shape (num_kinds, num_links).
    mb : shape (num_moving,); the size of each chunk.
    blend : how much the way from the source counts next to the price of a link: 1 for least paths.
    alone : whether chunks are routed once more, one by one.
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
    group = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    key, turn = portion * len(begins) + group, group * 7919 + portion * 104729
    members = by_value(key)
    batch = _Batches(members, np.flatnonzero(np.diff(key[members], prepend=-1, append=-1)), turn)
    single = _Batches(np.argsort(-mb, kind="stable"), np.arange(len(ends) + 1), turn)
    at, many, link = _choose(
        topology.src, topology.dst, first_out, order, costs, usable, batch, single,
        ends.source, ends.target, ends.kind, mb, blend, tie, np.array(PAIRS_SHARPNESS),
        np.array(PAIRS_ALONE_SHARPNESS if alone else ()),
    )  # fmt: skip
    if len(at) < len(ends):
        return None
    first = np.concatenate([[0], np.cumsum(many)])
    place = np.repeat(at - first[:-1], many) + np.arange(first[-1])
    return Paths(first, link[place], group * portions + portion)


class _Batches(NamedTuple):
    """Chunks that are routed together: batch i is `chunk[first[i]:first[i + 1]]`; `turn` is of each chunk."""

    chunk: IntArray
    first: IntArray
    turn: IntArray


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


#: A price with a larger exponent is as good as infinite, and one with a smaller than minus this is nothing.
_MOST_EXPONENT = 40.0


@compiled
def _use(sign: float, link: int, mb: float, alpha: float, costs: Any, load: Any) -> None:
    """Add what a chunk keeps the ports of a link busy, with this part of alpha, or take it off."""
    for pair in range(costs.first[link], costs.first[link + 1]):
        busy = alpha * costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair]
        load[costs.port[pair]] += sign * busy


@compiled
def _carry(sign: int, path: Any, mb: float, alone: bool, costs: Any, load: Any, chunks: Any) -> None:
    """Add a chunk to the loads of its path, or take it off; `alone`: alpha counts once for a link."""
    for link in path:
        if alone and sign < 0:
            chunks[link] -= 1
        _use(sign, link, mb, 0.0 if alone and chunks[link] else 1.0, costs, load)
        if alone and sign > 0:
            chunks[link] += 1


@compiled
def _steps_back(source: int, target: int, src: Any, via: Any) -> int:
    """How many links lead from the source to the target; -1: the target was not reached."""
    rank, count = target, 0
    while rank != source:
        if via[rank] < 0:
            return -1
        rank = src[via[rank]]
        count += 1
    return count


@compiled
def _set_lengths(
    costs: Any,
    mb: float,
    sharpness: float,
    alone: bool,
    chunks: Any,
    load: Any,
    tie: Any,
    shift: int,
    length: Any,
) -> None:
    """Set the lengths of links by their ports' prices.

    `alone` : by what a chunk would raise the prices; `chunks`, shape (num_links,), are on each link then.
    """
    most, num_links = max(load.max(), 1e-300), len(length)
    price = np.exp(sharpness * (load / most - 1.0))
    for link in range(num_links):
        alpha = 0.0 if alone and chunks[link] else 1.0
        total = PAIRS_SHORTNESS * (costs.alpha_us[link] + mb * costs.beta_us[link])
        for pair in range(costs.first[link], costs.first[link + 1]):
            busy = alpha * costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair]
            if alone:
                exponent = sharpness * ((load[costs.port[pair]] + busy) / most - 1.0)
                if exponent > -_MOST_EXPONENT:
                    rise = np.exp(min(exponent, _MOST_EXPONENT)) - price[costs.port[pair]]
                    total += rise * most / sharpness
            else:
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
    batch: Any,
    single: Any,
    source: Any,
    target: Any,
    kind: Any,
    mb: Any,
    blend: float,
    tie: Any,
    sharpness: Any,
    sharpness_alone: Any,
) -> Any:
    """Where each chunk's path begins in a column of links, how long it is, and that column.

    No beginnings at all if a chunk has no path.
    """
    num_links, num_ranks, many = len(src), len(first_out) - 1, len(source)
    at, steps = np.zeros(many, np.int64), np.zeros(many, np.int64)
    links, used = np.zeros(4 * many + 16, np.int32), 0
    load, chunks = np.zeros(costs.num_ports), np.zeros(num_links, np.int64)
    length, via = np.zeros(num_links), np.zeros(num_ranks, np.int64)
    for attempt in range(len(sharpness) + len(sharpness_alone)):
        alone = attempt >= len(sharpness)
        sharp = sharpness_alone[attempt - len(sharpness)] if alone else sharpness[attempt]
        batches = single if alone else batch
        if attempt == len(sharpness):
            load[:] = 0.0
            for c in range(many):
                _carry(1, links[at[c] : at[c] + steps[c]], mb[c], True, costs, load, chunks)
        for number in range(len(batches.first) - 1):
            mine = batches.chunk[batches.first[number] : batches.first[number + 1]]
            if attempt:
                for c in mine:
                    _carry(-1, links[at[c] : at[c] + steps[c]], mb[c], alone, costs, load, chunks)
            shift = (batches.turn[mine[0]] + attempt * 31) % num_links
            _set_lengths(costs, mb[mine].mean(), sharp, alone, chunks, load, tie, shift, length)
            c = mine[0]
            _tree(source[c], blend, length, usable[kind[c]], first_out, order, dst, via)
            for c in mine:
                count = _steps_back(source[c], target[c], src, via)
                if count < 0:
                    return at[:0], steps, links
                if attempt == 0 or count > steps[c]:
                    if used + count > len(links):
                        links = np.concatenate((links, np.zeros(len(links) + count, np.int32)))
                    at[c] = used
                    used += count
                steps[c] = count
                rank = target[c]
                for step in range(at[c] + count - 1, at[c] - 1, -1):
                    links[step] = via[rank]
                    rank = src[via[rank]]
                _carry(1, links[at[c] : at[c] + count], mb[c], alone, costs, load, chunks)
    return at, steps, links
