"""What a plan sends from position to position, and how long it takes with hosts in some order.

A plan is a schedule of *positions*. An order puts a host at each: position p is run by host `order[p]`, and
the GPUs of a host stay in their order. Where a machine has one node, its GPUs are what is ordered.
What can go goes at once; of several that wait for a port, the first in the plan's sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.core.costs import Costs, costs_of
from taccl.encoding.core.scheduler import (
    SendGraph,
    Sends,
    graph_of,
    pipelined,
    sends_of_rows,
    sends_that_wait,
    tails_us,
)
from taccl.encoding.core.timing import decisions_of, predecessors
from taccl.errors import TopologyError
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.numbering import by_value

Order = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Pairs:
    """What goes from one position to another in all, one row for each pair of ranks that a plan uses.

    Parameters
    ----------
    src, dst : ranks of the plan.
    count, mb : how many sends, and MB of all of them.
    """

    src: IntArray
    dst: IntArray
    count: FloatArray
    mb: FloatArray


@dataclass(frozen=True, eq=False)
class Traffic:
    """The sends of a plan on a machine.

    Parameters
    ----------
    name : of the plan.
    problem : with the machine's links.
    sends : in their sequence; their links are none of the machine's.
    src, dst : the ranks of the plan between which each send goes, shape (num_sends,).
    hosts : the ranks of each host, shape (hosts, GPUs of a host).
    schedule : the plan, whose sends by their starts are `sends`; None: only its sends are known.
    """

    name: str
    problem: Problem
    sends: Sends
    src: IntArray
    dst: IntArray
    hosts: IntArray
    schedule: Schedule | None = None

    @property
    def num_hosts(self) -> int:
        """How many hosts are ordered; on one node, how many GPUs."""
        return len(self.hosts)

    @property
    def own_order(self) -> Order:
        """The hosts as the machine numbers them."""
        return tuple(range(self.num_hosts))

    @cached_property
    def host_of(self) -> IntArray:
        """The host of each rank, shape (ranks,)."""
        host_of = np.empty(self.hosts.size, dtype=np.int64)
        host_of[self.hosts] = np.arange(self.num_hosts)[:, None]
        return host_of

    @cached_property
    def costs(self) -> Costs:
        """Of the machine's links and ports."""
        return costs_of(self.problem.topology)

    @cached_property
    def link_table(self) -> IntArray:
        """The link from each rank to each, shape (ranks, ranks); -1: none."""
        topology = self.problem.topology
        table = np.full((topology.num_ranks, topology.num_ranks), -1, dtype=np.int64)
        table[topology.src, topology.dst] = np.arange(topology.num_links)
        return table

    @cached_property
    def pairs(self) -> Pairs:
        """The traffic of each pair of ranks that has some."""
        ranks = self.problem.num_ranks
        key, of_send = np.unique(self.src * ranks + self.dst, return_inverse=True)
        count = np.bincount(of_send, minlength=len(key)).astype(np.float64)
        mb = np.bincount(of_send, self.sends.mb, len(key)).astype(np.float64)
        return Pairs(key // ranks, key % ranks, count, mb)

    def rank_map(self, order: Order) -> IntArray:
        """The rank of the machine that does what each rank of the plan does, shape (ranks,)."""
        ranks = np.empty(self.hosts.size, dtype=np.int64)
        ranks[self.hosts.ravel()] = self.hosts[list(order)].ravel()
        return ranks

    @cached_property
    def waiting(self) -> SendGraph:
        """What each send waits for."""
        return graph_of(self.sends)

    @cached_property
    def before(self) -> list[frozenset[int]]:
        """The sends that each send waits for."""
        sends = self.sends
        givers: list[list[int]] = [[] for _ in range(sends.num_cells)]
        for send, cells in enumerate(np.split(sends.give, sends.first_give[1:-1])):
            for cell in cells.tolist():
                givers[cell].append(send)
        return [
            frozenset(giver for cell in cells.tolist() for giver in givers[cell])
            for cells in np.split(sends.need, sends.first_need[1:-1])
        ]

    def in_order(self, order: Order) -> SendGraph | None:
        """The same sends over the links of an order; None where a link is missing."""
        ranks = self.rank_map(order)
        link = self.link_table[ranks[self.src], ranks[self.dst]]
        return None if (link < 0).any() else self.waiting._replace(sends=self.sends._replace(link=link))

    def time_us(self, order: Order) -> float:
        """How long the plan takes with the hosts in this order; inf where a link is missing."""
        graph = self.in_order(order)
        if graph is None:
            return float("inf")
        timed = pipelined(graph, self.costs, np.arange(len(self.sends.link), dtype=np.float64))
        return float(timed.end_us.max(initial=0.0))

    @cached_property
    def even_us(self) -> FloatArray:
        """What each send takes where all links are as the machine's median."""
        costs = self.costs
        return np.asarray(np.median(costs.alpha_us) + self.sends.mb * np.median(costs.beta_us))

    @cached_property
    def even_tails_us(self) -> FloatArray:
        """The longest chain of sends from each send on, by `even_us`."""
        return tails_us(self.waiting, self.even_us)

    @property
    def even_chain_us(self) -> float:
        """The longest chain of sends that wait for each other, by `even_us`."""
        return float(self.even_tails_us.max(initial=0.0))


def traffic_of(name: str, schedule: Schedule, problem: Problem) -> Traffic:
    """The sends of a schedule, on the links of `problem`.

    Raises
    ------
    TopologyError : as `hosts_of`.
    """
    sends, own = _sends_of(schedule), schedule.problem.topology
    src, dst = own.src[sends.link], own.dst[sends.link]
    return Traffic(name, problem, sends, src, dst, hosts_of(problem.topology), schedule)


def hosts_of(network: LogicalTopology) -> IntArray:
    """The ranks of each host, shape (hosts, GPUs of a host); on one node each GPU is ordered.

    Raises
    ------
    TopologyError : nodes of different numbers of GPUs, which no order can exchange.
    """
    if network.num_helpers:
        raise TopologyError(
            f"{network.name} has helpers, which have no place in an order of hosts",
            hint="leave them out: --without NAME",
        )
    hosts = np.arange(network.num_ranks)[:, None] if network.num_nodes == 1 else network.equal_nodes
    if hosts is None:
        raise TopologyError(
            f"the nodes of {network.name} have different numbers of GPUs, so they cannot change places",
            hint="order nodes of one size",
        )
    return hosts


def _sends_of(schedule: Schedule) -> Sends:
    """The sends by their starts, each with what it waits for."""
    problem = schedule.problem
    if schedule.sums is not None:
        decisions = decisions_of(schedule)
        link = np.array([each.link for each in decisions], dtype=np.int64)
        mb = np.array([problem.units(each.chunks) * problem.chunk_mb for each in decisions])
        return sends_that_wait(link, mb, np.zeros(len(link)), predecessors(problem, decisions))
    sends = schedule.sends
    place = np.empty(len(sends), dtype=np.int64)
    place[sends.by_start] = np.arange(len(sends))
    of_row = place[sends.of_row]
    rows = by_value(of_row)
    columns = schedule.chunk[rows], schedule.link[rows], schedule.reduce[rows], of_row[rows]
    return sends_of_rows(problem, *columns)[0]
