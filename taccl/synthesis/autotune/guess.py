"""About what files of a schedule take, before any is made: for the order in which they are predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.encoding.core.timing import decisions_of, in_order
from taccl.model.engine_costs import Served, hop_us, link_us_per_mb
from taccl.model.executor import ProtocolCosts
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.schedule import Schedule


class Guess:
    """The busiest link or port of a schedule under the costs of a configuration, and waits in proportion.

    It takes a look at each transfer once, for all configurations. Copies and sums are not in it.

    Parameters
    ----------
    network : of the machine as it is, with the links of the schedule's own.
    """

    def __init__(self, schedule: Schedule, network: LogicalTopology) -> None:
        seen, size_mb = schedule.problem.topology, schedule.problem.size_mb[schedule.chunk]
        self._beta = network.beta_us_per_mb
        self._on_link_mb = np.bincount(schedule.link, weights=size_mb, minlength=network.num_links)
        self._port_us = self._busiest_us(network)
        many = np.bincount(schedule.link, minlength=network.num_links)
        self._share = many / max(1, len(schedule))
        self._chunk_mb = float(size_mb.mean()) if len(schedule) else 0.0
        self._alpha_us = float(self._share @ network.alpha_us)
        self._waits_us = max(0.0, schedule.makespan_us - self._busiest_us(seen))
        self._seen_us = float(self._share @ (seen.alpha_us + self._chunk_mb * seen.beta_us_per_mb))

    def us(self, costs: ProtocolCosts, served: Served) -> float:
        """A call, launch included, microseconds."""
        beta: FloatArray = link_us_per_mb(costs, self._beta, served.blocks, served.pace)
        moving_us = max(float((beta * self._on_link_mb).max(initial=0.0)), costs.shape.wire * self._port_us)
        each_us = self._alpha_us + hop_us(costs) + self._chunk_mb * float(self._share @ beta)
        return (
            costs.launch_us + moving_us + self._waits_us * (each_us / self._seen_us if self._seen_us else 1)
        )

    def _busiest_us(self, network: LogicalTopology) -> float:
        link, port = network.incidence
        busy_us = np.bincount(port, weights=self._on_link_mb[link] * network.pair_betas)
        return float(busy_us.max(initial=0.0))


def links_us(schedule: Schedule, wire: float) -> float:
    """By links alone, microseconds, with the sends in their order, where `wire` bytes move for each byte."""
    wider = replace(schedule.problem, chunk_mb=wire * schedule.problem.chunk_mb)
    return in_order(wider, decisions_of(schedule)).makespan_us
