"""A schedule to rings or trees: its own where its chunks travel along such, else the machine's."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import gcd

import numpy as np

from taccl.backend.graphs.document import ROOT, Graphs, Shape, children_of
from taccl.backend.graphs.loads import gbps_of
from taccl.backend.graphs.of_machine import graphs_of_machine
from taccl.backend.graphs.tuning import MOST_CHANNELS, MOST_CHILDREN, MOST_GPUS
from taccl.errors import CollectiveError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


def check_problem(problem: Problem) -> None:
    """Refuse what no graph of a library is for.

    Raises
    ------
    CollectiveError : with the reason.
    """
    if problem.topology.num_nodes > 1:
        raise CollectiveError(
            f"a library's graphs are those of one node, and this machine has {problem.topology.num_nodes}",
            hint="--nodes 1; between nodes a library connects the graphs of nodes itself",
        )
    if problem.num_ranks > MOST_GPUS:
        ranks = problem.num_ranks
        raise CollectiveError(
            f"rings and trees through {ranks} GPUs are not searched for, only through {MOST_GPUS}",
            hint="another --target; where all GPUs are at one switch, the library's own order is as good",
        )
    if problem.num_ranks < 2:
        raise CollectiveError("one GPU needs no graph", hint="a machine with several GPUs")


def lower_to_graphs(schedule: Schedule, shape: Shape) -> Graphs:
    """The faster of the schedule's own channels and of those that the links of the machine allow.

    A library cuts a call into shares of its channels and pieces of its own, so the links decide, and not the
    moments of the schedule: those of the machine are taken where they are faster, too.

    Raises
    ------
    CollectiveError : there is no ring or tree through all GPUs.
    """
    network = schedule.problem.topology
    machine = graphs_of_machine(network, shape)
    try:
        channels = channels_of(schedule, shape)
    except CollectiveError as reason:
        return replace(machine, origin=f"{machine.origin} ({reason.message})")
    if shape == "tree" and any(len(of) > MOST_CHILDREN for tree in channels for of in children_of(tree)):
        return replace(
            machine, origin=f"{machine.origin} (a GPU of the schedule's trees has over 3 children)"
        )
    gbps = gbps_of(network, shape, channels)
    if gbps < machine.gbps:
        return replace(machine, origin=f"{machine.origin} (the schedule's: {gbps:.1f} GB/s)")
    return Graphs(shape, network.num_ranks, channels, "of the schedule", gbps)


def channels_of(schedule: Schedule, shape: Shape) -> tuple[tuple[int, ...], ...]:
    """A channel for each chunk, fewer where all take the same ones equally often.

    A tree must take sums up and results down the same edges; a ring takes the sums once round and the results
    once more.

    Raises
    ------
    CollectiveError : the chunks travel otherwise.
    """
    if schedule.sums is not None:
        raise CollectiveError("a partial sum is made more than once, which no ring or tree does")
    found: Counter[tuple[int, ...]] = Counter()
    order = np.argsort(schedule.chunk, kind="stable")
    bounds = np.searchsorted(schedule.chunk[order], np.arange(schedule.problem.num_chunks + 1))
    src, dst = schedule.src[order], schedule.dst[order]
    for chunk, (first, end) in enumerate(pairwise(bounds.tolist())):
        sums = schedule.reduce[order[first:end]]
        ends = np.stack([src[first:end], dst[first:end]], axis=1)
        up = dict(ends[sums].tolist())
        down = {int(receiver): int(sender) for sender, receiver in ends[~sums].tolist()}
        find = _ring if shape == "ring" else _tree
        channel = find(up, down, schedule.problem.num_ranks)
        if channel is None:
            raise CollectiveError(f"chunk {chunk} of the schedule travels along no {shape}")
        found[channel] += 1
    common = gcd(*found.values())
    channels = tuple(channel for channel, many in found.items() for _ in range(many // common))
    if len(channels) > MOST_CHANNELS:
        raise CollectiveError(f"the schedule takes {len(channels)} {shape}s, more than {MOST_CHANNELS}")
    return channels


def _tree(up: dict[int, int], down: dict[int, int], num_ranks: int) -> tuple[int, ...] | None:
    """The parents, if sums go up where results come down."""
    if up != down or len(up) != num_ranks - 1:
        return None
    return tuple(up.get(rank, ROOT) for rank in range(num_ranks))


def _ring(up: dict[int, int], down: dict[int, int], num_ranks: int) -> tuple[int, ...] | None:
    """The order from GPU 0, if sums come to one GPU along a path and results leave along the same ring."""
    after = dict(up)
    for receiver, sender in down.items():
        if after.setdefault(sender, receiver) != receiver:
            return None
    ring = [0]
    while len(ring) < num_ranks and ring[-1] in after:
        ring.append(after[ring[-1]])
    closes = len(set(ring)) == num_ranks and after.get(ring[-1], ring[0]) == ring[0]
    return tuple(ring) if closes and len(up) == len(down) == num_ranks - 1 else None
