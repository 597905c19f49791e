r"""Bounds from cuts: what must pass a narrow place, how early it can be there, how far it is after.

Let W be a set of ranks and C the chunks that must enter W: those wanted by a rank in W that is not
a source and has no source in W. Every chunk of C enters W at least once, over some link of E(W). Write,
for a chunk c with sources U(c) and wanting ranks D(c),

    head(c) = min over links l in E(W) of dist(U(c), src(l)),
    tail(c) = max over r in D(c) and W of min over l in E(W) of dist(dst(l), r).

The entry that first serves the farthest rank starts no earlier than head(c) and ends at least
tail(c) before the schedule does. Links that share a port take turns, so by time T, between h and
T - t, port p can let at most floor((T - h - t - alpha_p) / (s * beta_p)) chunks of s MB in, with alpha_p
and beta_p as in `capacity`. Hence for every pair of thresholds (h, t)

    |{c in C : head(c) >= h, tail(c) >= t}| <= sum over ports of E(W) of that floor,

and the least T for which this holds is a bound. For a sum, the entry that carries the contribution
of the *farthest* source counts, so head(c) takes the maximum over sources; a sum must enter W
whenever W wants it and some contribution is outside.

COST_MODEL, lower bounds b (one port: head + load + tail) and c (a cut of several ports), joined and
made whole: chunks are not divisible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.capacity import least_time, rates_of_covers
from taccl.encoding.symmetry.quotient import one_of_each_kind
from taccl.problem import FloatArray, Problem

#: Cuts around more ranks than this take longer than they are worth.
_MOST_RANKS = 32
#: With more ports that are faster than links, hardly one is a bottleneck.
_MOST_FAST_PORTS = 64


@dataclass(frozen=True)
class Cut:
    """A set of ranks with a name for messages."""

    ranks: frozenset[int]
    name: str


def cut_bound(problem: Problem, cuts: Sequence[Cut], distance_us: FloatArray) -> Bound:
    """The best bound over the given cuts; `distance_us` has shape (num_ranks, num_ranks)."""
    bounds = (bound for cut in cuts for bound in _bounds_of(problem, cut, distance_us))
    return max(bounds, key=lambda bound: bound.value_us, default=Bound(0.0, "nothing has to move", "cut"))


def simple_cuts(problem: Problem) -> list[Cut]:
    """Each rank alone and all but it; each node alone and all but it; what lies beyond a fast port.

    On large machines, the narrow ranks.
    """
    everyone = frozenset(range(problem.num_ranks))
    cuts = []
    for rank in _narrow_ranks(problem) if problem.num_ranks > 1 else ():
        cuts.append(Cut(frozenset({rank}), f"into rank {rank}"))
        cuts.append(Cut(everyone - {rank}, f"out of rank {rank}"))
    return cuts + node_cuts(problem) + fast_port_cuts(problem)


def fast_port_cuts(problem: Problem) -> list[Cut]:
    """The ranks that others reach through one port alone, if that is faster than its links: beyond a trunk.

    Where no port is faster than its links, the ranks and nodes have always been cuts enough.
    """
    topology = problem.topology
    link, port = topology.incidence
    fast = np.unique(port[topology.pair_betas < topology.beta_us_per_mb[link]])
    if problem.num_ranks > _MOST_RANKS or len(fast) > _MOST_FAST_PORTS:
        return []
    beyond: dict[frozenset[int], str] = {}
    for each in fast.tolist():
        others = np.ones(topology.num_links, dtype=np.bool_)
        others[list(topology.port_links[each])] = False
        step = np.eye(problem.num_ranks, dtype=np.bool_)
        step[topology.src[others], topology.dst[others]] = True
        for _ in range(problem.num_ranks.bit_length()):
            step = step @ step
        for reached in np.unique(step, axis=0):
            beyond.setdefault(frozenset(np.flatnonzero(~reached).tolist()), topology.port_names[each])
    return [Cut(ranks, f"beyond {name}") for ranks, name in beyond.items() if ranks]


def node_cuts(problem: Problem) -> list[Cut]:
    """Each node alone and all but it."""
    everyone = frozenset(range(problem.num_ranks))
    nodes = np.unique(problem.topology.node_of)
    cuts = []
    for node in nodes if len(nodes) > 1 else ():
        inside = frozenset(np.flatnonzero(problem.topology.node_of == node).tolist())
        cuts.append(Cut(inside, f"into node {node}"))
        cuts.append(Cut(everyone - inside, f"out of node {node}"))
    return cuts


def _narrow_ranks(problem: Problem) -> list[int]:
    """All ranks; of many ranks one of each kind, and of many kinds those with the least bandwidth in."""
    if problem.num_ranks <= _MOST_RANKS:
        return list(range(problem.num_ranks))
    ranks = one_of_each_kind(problem)
    topology = problem.topology
    rate = 1.0 / np.maximum(topology.beta_us_per_mb, 1e-12)
    bandwidth = np.bincount(topology.dst, rate, topology.num_ranks)
    narrowest = np.argsort(bandwidth[ranks], kind="stable")[:_MOST_RANKS]
    return [int(rank) for rank in np.sort(ranks[narrowest])]


def _bounds_of(problem: Problem, cut: Cut, distance_us: FloatArray) -> Iterator[Bound]:
    """A bound for each crossing."""
    inside = members(problem, cut)
    for chunks, links in crossings(problem, cut):
        yield _bound_at(problem, cut, chunks, links, inside, distance_us)


def members(problem: Problem, cut: Cut) -> BoolArray:
    """Whether each rank is in the cut's set, shape (num_ranks,)."""
    inside = np.zeros(problem.num_ranks, dtype=np.bool_)
    inside[list(cut.ranks)] = True
    return inside


def crossings(problem: Problem, cut: Cut) -> Iterator[tuple[IntArray, IntArray]]:
    """Chunks that must enter, and the links by which they may.

    One pair for each set of chunks that may enter by the same links, and one for all together.
    """
    inside = members(problem, cut)
    chunks = _must_enter(problem, inside)
    if not len(chunks):
        return
    topology = problem.topology
    entries = np.flatnonzero(~inside[topology.src] & inside[topology.dst])
    may_use = problem.limits.may_use
    home = problem.collective.home[chunks]
    if may_use is None:
        classes = {entries.tobytes(): (chunks, entries)}
    else:
        classes = {}
        for row in np.unique(may_use[home][:, entries], axis=0):
            alike = chunks[(may_use[home][:, entries] == row).all(axis=1)]
            classes[entries[row].tobytes()] = (alike, entries[row])
        if len(classes) > 1:
            classes[b"all"] = (chunks, entries)
    for alike, links in classes.values():
        if len(links):
            yield alike, links


def _must_enter(problem: Problem, inside: BoolArray) -> IntArray:
    collective = problem.collective
    wanted = (collective.post & inside & (collective.reduces[:, None] | ~collective.pre)).any(axis=1)
    source_inside = (collective.pre & inside).any(axis=1)
    source_outside = (collective.pre & ~inside).any(axis=1)
    outside_only = np.where(collective.reduces, source_outside, ~source_inside)
    return np.flatnonzero(wanted & outside_only)


def _bound_at(
    problem: Problem,
    cut: Cut,
    chunks: IntArray,
    links: IntArray,
    inside: BoolArray,
    distance_us: FloatArray,
) -> Bound:
    topology, collective = problem.topology, problem.collective
    to_cut = distance_us[:, topology.src[links]].min(axis=1)
    from_cut = distance_us[topology.dst[links], :].min(axis=0)
    pre, post = collective.pre[chunks] & ~inside, collective.post[chunks] & inside
    nearest = np.where(pre, to_cut, np.inf).min(axis=1)
    farthest = np.where(pre, to_cut, -np.inf).max(axis=1)
    head = np.where(collective.reduces[chunks], farthest, nearest)
    tail = np.where(post, from_cut, -np.inf).max(axis=1)
    covers = rates_of_covers(problem, links)
    best, count, through = 0.0, 0, name_ports(problem, covers[0])
    for ports in covers:
        for h in np.unique(head):
            for t in np.unique(tail):
                waiting = int(((head >= h) & (tail >= t)).sum())
                value = h + t + least_time(waiting, ports.values())
                if waiting and value > best:
                    best, count, through = float(value), waiting, name_ports(problem, ports)
    return Bound(best, f"{count} chunks {cut.name} through {through}", "cut")


def name_ports(problem: Problem, ports: Collection[int]) -> str:
    """One port by its name, several by their number."""
    return problem.topology.port_names[next(iter(ports))] if len(ports) == 1 else f"{len(ports)} ports"
