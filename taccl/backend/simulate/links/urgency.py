"""How long the way is from each step to the end of a program, if no port were ever busy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.backend.simulate.links.costs import Costs
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import Loop

#: Times that agree to this many decimals (of a microsecond) are equal.
DECIMALS = 6


def urgency_us(
    executed: ExecutedSteps, connections: Connections, costs: Costs, order: IntArray
) -> FloatArray:
    """For each step, microseconds from its start to the end of what must follow it.

    What must follow are the next step of its thread block, the steps that wait for it, and the receive
    of what it sends. Room in connections is not looked at.

    Parameters
    ----------
    order : all steps, each after all that it must follow.
    """
    starts, awaited = executed.flat_waits
    way_us = _longest_routes(
        len(executed),
        order=order,
        block=executed.block,
        source=connections.source,
        starts=starts,
        awaited=awaited,
        busy_us=costs.busy_us,
        latency_us=costs.latency_us,
        local_us=costs.local_us,
    )
    return np.round(np.array(way_us, dtype=np.float64), DECIMALS)


def _routes(
    order: Sequence[int],
    block: Sequence[int],
    source: Sequence[int],
    starts: Sequence[int],
    awaited: Sequence[int],
    busy_us: Sequence[float],
    latency_us: Sequence[float],
    local_us: Sequence[float],
) -> list[float]:
    after = [0.0] * len(block)  # from when the thread block is done with it
    on_arrival = [0.0] * len(block)  # from when its receiver has it
    routes = [0.0] * len(block)
    for place in range(len(order) - 1, -1, -1):
        row = order[place]
        way = busy_us[row] + local_us[row] + max(after[row], latency_us[row] + on_arrival[row])
        routes[row] = way
        if row and block[row - 1] == block[row]:
            after[row - 1] = max(after[row - 1], way)
        for wait in range(starts[row], starts[row + 1]):
            after[awaited[wait]] = max(after[awaited[wait]], way)
        if source[row] >= 0:
            on_arrival[source[row]] = max(on_arrival[source[row]], way)
    return routes


_longest_routes = Loop(_routes)
