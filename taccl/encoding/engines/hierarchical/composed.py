"""From sends of node 0's chunks to a schedule: copies, sums as copies backwards, or sums and then copies.

Sums go the routes of copies, turned round, and in the reverse order: what copies would spread last is summed
first. Each node sums its own chunks, and copies of a chunk leave as soon as its sum is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.costs import Costs, costs_of
from taccl.encoding.core.scheduler import Sends as Columns
from taccl.encoding.core.scheduler import durations_us, graph_of, pipelined, starts_in_sequence
from taccl.encoding.engines.hierarchical.cluster import Cluster
from taccl.encoding.engines.hierarchical.sends import Sends, chunks_of
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.schedule import Schedule
from taccl.support.jit import flat


@dataclass(frozen=True, eq=False)
class Timed:
    """Sends of node 0's chunks with their times: `first` and `last` chunk as in `Sends`."""

    link: IntArray
    sends: IntArray
    is_sum: BoolArray
    start_us: FloatArray
    end_us: FloatArray

    @property
    def makespan_us(self) -> float:
        """The largest end."""
        return float(self.end_us.max(initial=0.0))


def timed(cluster: Cluster, sends: Sends, sums: bool, copies: bool) -> Timed:
    """All sends with their times.

    With sums alone, the links of `sends` are taken from their ends to their beginnings, as on the reversed
    network; with both, sums take the links back.
    """
    topology, costs = cluster.problem.topology, _costs(cluster)
    down, number = np.array(sends.link), np.arange(len(sends))
    in_rounds = _columns(cluster, sends, down, sends.after, number)
    took_us = durations_us(in_rounds, costs)
    # In the order of the rounds all GPUs send to the next one at once, and none that goes first disturbs it;
    # where rounds wait for each other, it is better that whoever can goes.
    start_us = min(
        (_whoever_can(cluster, sends, costs), starts_in_sequence(in_rounds, costs)),
        key=lambda each: float((each + took_us).max(initial=0.0)),
    )
    if not sums:
        return Timed(down, number, np.zeros(len(sends), dtype=np.bool_), start_us, start_us + took_us)
    link = down if not copies else np.concatenate([_back(topology, sends.link), down])
    # The last to end is the first to begin.
    order = np.argsort(-(start_us + took_us), kind="stable")
    after: list[tuple[int, ...]] = [()] * len(sends)
    for later, before in enumerate(sends.after):
        for earlier in before:
            after[earlier] += (later,)
    if copies:
        into: dict[int, list[int]] = {}
        for up, own in enumerate(sends.own):
            for chunk in own:
                into.setdefault(chunk, []).append(up)
        after += [
            (
                *(before + len(sends) for before in sends.after[each]),
                *sorted({up for chunk in sends.own[each] for up in into[chunk]}),
            )
            for each in range(len(sends))
        ]
        order = np.concatenate([order, len(sends) + np.argsort(start_us, kind="stable")])
    columns = _columns(cluster, sends, link, after, order)
    start_us = np.empty(len(link))
    start_us[order] = starts_in_sequence(columns, costs)
    took_us = durations_us(columns, costs)[np.argsort(order)]
    return Timed(
        link,
        np.concatenate([number, number]) if copies else number,
        np.arange(len(link)) < len(sends),
        start_us,
        start_us + took_us,
    )


def _back(topology: LogicalTopology, links: list[int]) -> IntArray:
    return np.array([topology.link_index[int(topology.dst[l]), int(topology.src[l])] for l in links])


def _costs(cluster: Cluster) -> Costs:
    """Costs at the orbits of ports: images of sends are in each other's way only at ports of one orbit."""
    costs, orbit = costs_of(cluster.problem.topology), cluster.orbit_of_port
    return costs._replace(port=orbit[costs.port], num_ports=int(orbit.max()) + 1)


def _columns(
    cluster: Cluster, sends: Sends, link: IntArray, after: Sequence[tuple[int, ...]], order: IntArray
) -> Columns:
    """The sends in an order, each after the ends of those in `after`."""
    mb = (np.array(sends.last) - np.array(sends.first)) * cluster.problem.chunk_mb
    need = flat([after[each] for each in order.tolist()])
    first = np.arange(len(order) + 1)
    at_once = np.zeros(len(order))
    return Columns(link[order], mb[order % len(sends)], at_once, at_once, *need, first, order, len(order))


def _whoever_can(cluster: Cluster, sends: Sends, costs: Costs) -> FloatArray:
    """Starts by list scheduling: of several sends the first. Each waits for the starts of some, too."""
    many = len(sends)
    number = np.arange(many)
    after = [
        (*ends, *(many + each for each in starts))
        for ends, starts in zip(sends.after, sends.behind, strict=True)
    ]
    columns = _columns(cluster, sends, np.array(sends.link), after, number)._replace(num_cells=2 * many)
    graph = graph_of(columns, signals=[(many + each,) for each in range(many)])
    return pipelined(graph, costs, number.astype(np.float64)).start_us


def lifted(cluster: Cluster, sends: Sends, timed_sends: Timed) -> Schedule:
    """The schedule of the cluster's problem: every send and its images, at the same times."""
    send, chunk = chunks_of(sends)
    first = np.searchsorted(send, np.arange(len(sends) + 1))
    many = np.diff(first)[timed_sends.sends]
    row_of = np.repeat(np.arange(len(timed_sends.sends)), many)
    within = np.arange(len(row_of)) - np.repeat(np.cumsum(many) - many, many)
    chunk = chunk[first[timed_sends.sends[row_of]] + within]
    order = np.argsort(timed_sends.start_us[row_of], kind="stable")
    row_of, chunk = row_of[order], chunk[order]
    used, which = np.unique(timed_sends.link, return_inverse=True)
    links = np.ascontiguousarray(cluster.images_of_links(used).T)
    known = np.arange(cluster.gpus * cluster.each)
    chunks = np.ascontiguousarray(cluster.images_of_chunks(known).T)
    images = links.shape[1]
    return Schedule(
        cluster.problem,
        chunks[chunk].ravel(),
        links[which.ravel()[row_of]].ravel(),
        np.repeat(timed_sends.start_us[row_of], images),
        np.repeat(timed_sends.end_us[row_of], images),
        np.repeat(timed_sends.is_sum[row_of], images),
        np.add.outer(row_of, np.arange(images) * len(timed_sends.sends)).ravel(),
    ).sorted()
