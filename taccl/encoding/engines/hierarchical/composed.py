"""From sends of node 0's chunks to a schedule: copies, sums as copies backwards, or sums and then copies.

Sums go the routes of copies, turned round, and in the reverse order: what copies would spread last is summed
first. Each node sums its own chunks, and copies of a chunk leave as soon as its sum is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from taccl.encoding.engines.hierarchical.cluster import Cluster
from taccl.encoding.engines.hierarchical.pipeline import Task, in_order_us, starts_us
from taccl.encoding.engines.hierarchical.sends import Sends, chunks_of
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.schedule import Schedule


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
    topology = cluster.problem.topology
    down = _tasks(cluster, sends, np.array(sends.link), list(sends.after), sends.behind)
    num_ports = int(cluster.orbit_of_port.max()) + 1
    # In the order of the rounds all GPUs send to the next one at once, and none that goes first disturbs it;
    # where rounds wait for each other, it is better that whoever can goes.
    start = min(
        (starts_us(down, num_ports), in_order_us(down, range(len(down)), num_ports)),
        key=lambda each: max(at + task.takes_us for at, task in zip(each.tolist(), down, strict=True)),
    )
    end = start + [task.takes_us for task in down]
    number = np.arange(len(sends))
    if not sums:
        return Timed(np.array(sends.link), number, np.zeros(len(sends), dtype=np.bool_), start, end)
    up_link = np.array(sends.link) if not copies else _back(topology, sends.link)
    followers: list[list[int]] = [[] for _ in down]
    for later, before in enumerate(sends.after):
        for earlier in before:
            followers[earlier].append(later)
    tasks = _tasks(cluster, sends, up_link, [tuple(follower) for follower in followers])
    # The last to end is the first to begin.
    order = np.argsort(-end, kind="stable")
    if copies:
        into: dict[int, list[int]] = {}
        for up, own in enumerate(sends.own):
            for chunk in own:
                into.setdefault(chunk, []).append(up)
        after = [
            (
                *(before + len(sends) for before in sends.after[each]),
                *sorted({up for chunk in sends.own[each] for up in into[chunk]}),
            )
            for each in range(len(sends))
        ]
        tasks += _tasks(cluster, sends, np.array(sends.link), after)
        order = np.concatenate([order, len(sends) + np.argsort(start, kind="stable")])
    start = in_order_us(tasks, order.tolist(), num_ports)
    link = np.concatenate([up_link, sends.link]) if copies else up_link
    return Timed(
        link,
        np.concatenate([number, number]) if copies else number,
        np.arange(len(tasks)) < len(sends),
        start,
        start + [task.takes_us for task in tasks],
    )


def _back(topology: LogicalTopology, links: list[int]) -> IntArray:
    return np.array([topology.link_index[int(topology.dst[l]), int(topology.src[l])] for l in links])


def _tasks(
    cluster: Cluster,
    sends: Sends,
    links: IntArray,
    after: list[tuple[int, ...]],
    behind: list[tuple[int, ...]] | None = None,
) -> list[Task]:
    topology, orbit = cluster.problem.topology, cluster.orbit_of_port
    mb = (np.array(sends.last) - np.array(sends.first)) * cluster.problem.chunk_mb
    takes = topology.duration_us(links, mb).tolist()
    position, pair = topology.pairs_of(links)
    busy = topology.port_busy_us(pair, mb[position]).tolist()
    port = orbit[topology.incidence[1][pair]].tolist()
    first = np.searchsorted(position, np.arange(len(links) + 1)).tolist()
    return [
        Task(after[i], () if behind is None else behind[i], takes[i], tuple(port[a:b]), tuple(busy[a:b]))
        for i, (a, b) in enumerate(pairwise(first))
    ]


def lifted(cluster: Cluster, sends: Sends, timed_sends: Timed) -> Schedule:
    """The schedule of the whole cluster: every send and its images, at the same times."""
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
    known = np.arange(cluster.gpus * (len(cluster.problem.collective.owner) // cluster.problem.num_ranks))
    chunks = np.ascontiguousarray(cluster.images_of_chunks(known).T)
    images = cluster.num_nodes
    return Schedule(
        cluster.problem,
        chunks[chunk].ravel(),
        links[which.ravel()[row_of]].ravel(),
        np.repeat(timed_sends.start_us[row_of], images),
        np.repeat(timed_sends.end_us[row_of], images),
        np.repeat(timed_sends.is_sum[row_of], images),
        np.add.outer(row_of, np.arange(images) * len(timed_sends.sends)).ravel(),
    ).sorted()
