"""About how long an algorithm takes, before it is a schedule: as if every step waited for the one before.

A step lasts as long as its busiest port. Equal batches that follow each other a step apart put the loads of
as many steps on top of each other, so one batch that is written down tells of any number of them: each send
of one of b batches carries a b-th of the chunks, and pays its alpha as before.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from taccl.encoding.engines.textbook.parts import Cut
from taccl.encoding.engines.textbook.schedules import links_of
from taccl.encoding.engines.textbook.sends import Sends
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem

#: Steps are looked at together as long as these times the ports are no more than this.
_CELLS = 2**20


@dataclass(frozen=True, eq=False)
class Load:
    """What sends do to the ports that they use.

    Parameters
    ----------
    step, link, chunks : of each send, by steps; how many chunks it carries.
    send, port, pair : of each send and each of its ports; `pair` as in `LogicalTopology.incidence`.
    """

    problem: Problem
    step: IntArray
    link: IntArray
    chunks: IntArray
    send: IntArray
    port: IntArray
    pair: IntArray

    @property
    def num_cells(self) -> int:
        """The pairs of a step and a port."""
        return (int(self.step.max(initial=-1)) + 1) * self.problem.topology.num_ports

    def time_us(self, batches: int, equal: int = 1) -> float:
        """About how long it takes in this many batches, which fill each other's gaps.

        The more there are, the nearer to the load of the busiest port of all.

        `equal` : the sends are those of the only one of this many equal batches.
        """
        problem, topology = self.problem, self.problem.topology
        chunks = self.chunks / equal
        size_mb = chunks * problem.chunk_mb
        # Each send over the limit of a group pays one alpha more.
        more = topology.alpha_us[self.link] * (np.ceil(chunks / problem.max_group) - 1)
        busy = topology.port_busy_us(self.pair, size_mb[self.send]) + more[self.send]
        waiting_us, load = self._latencies_us(size_mb, equal), np.zeros(topology.num_ports)
        steps = int(self.step.max(initial=-1)) + 1
        many = max(1, _CELLS // topology.num_ports)
        for begin in range(0, steps + equal - 1, many):
            end = min(begin + many, steps + equal - 1)
            now = self._busy_us(busy, begin - equal + 1, end)
            load += now[equal - 1 :].sum(axis=0)
            if equal > 1:
                sums = np.cumsum(now, axis=0)
                now = sums[equal - 1 :] - np.pad(sums[:-equal], ((1, 0), (0, 0)))
            waiting_us += float(now.max(axis=1).sum())
        busiest_us = float(load.max(initial=0.0)) * equal
        return busiest_us + (waiting_us - busiest_us) * 2 / (batches + 1)

    def _busy_us(self, busy: FloatArray, begin: int, end: int) -> FloatArray:
        """How long each port is busy with the sends of these steps, shape (end - begin, num_ports)."""
        ports = self.problem.topology.num_ports
        first, last = np.searchsorted(self.step[self.send], [begin, end])
        cells = (self.step[self.send[first:last]] - begin) * ports + self.port[first:last]
        of_cells = np.bincount(cells, busy[first:last], (end - begin) * ports)
        return np.asarray(of_cells.reshape(-1, ports), dtype=np.float64)

    def _latencies_us(self, size_mb: FloatArray, equal: int) -> float:
        """What each step lasts beyond what its ports are busy for, together."""
        topology, first = self.problem.topology, np.flatnonzero(np.diff(self.step, prepend=-1))
        if topology.is_serial or not len(first):
            return 0.0
        beyond = topology.duration_us(self.link, size_mb) - topology.slowest_busy_us(self.link, size_mb)
        of_step = np.zeros(int(self.step[-1]) + 1)
        of_step[self.step[first]] = np.maximum.reduceat(beyond, first)
        return float(sliding_window_view(np.pad(of_step, equal - 1), equal).max(axis=1).sum())


def load_of(problem: Problem, sends: Sends, cut: Cut) -> Load | None:
    """What these sends do to ports; None if a link is missing."""
    topology, link = problem.topology, links_of(problem, sends)
    if (link < 0).any():
        return None
    chunks = np.add.reduceat(cut.chunks.count[sends.units.values], sends.units.first)
    send, pair = topology.pairs_of(link)
    return Load(problem, sends.step, link, chunks, send, topology.incidence[1][pair], pair)
