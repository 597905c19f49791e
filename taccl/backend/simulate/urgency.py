"""How long the way is from each step to the end of a program, if no port were ever busy."""

from __future__ import annotations

from taccl.backend.simulate.costs import Costs
from taccl.backend.verify.connections import Connections
from taccl.backend.verify.executed_steps import ExecutedSteps
from taccl.collective import IntArray

#: Times that agree to so many decimals (of a microsecond) are equal.
DECIMALS = 6


def urgency_us(
    executed: ExecutedSteps, connections: Connections, costs: Costs, order: IntArray
) -> list[float]:
    """For each step, microseconds from its start to the end of what must follow it.

    What must follow are the next step of its thread block, the steps that wait for it, and the receive
    of what it sends. Room in connections is not looked at.

    Parameters
    ----------
    order : all steps, each after all that it must follow.
    """
    block, source = executed.block.tolist(), connections.source.tolist()
    busy, latency, local = costs.busy_us.tolist(), costs.latency_us.tolist(), costs.local_us.tolist()
    after = [0.0] * len(executed)  # from when the thread block is done with it
    on_arrival = [0.0] * len(executed)  # from when its receiver has it
    urgency = [0.0] * len(executed)
    for row in order[::-1].tolist():
        way = busy[row] + local[row] + max(after[row], latency[row] + on_arrival[row])
        urgency[row] = round(way, DECIMALS)
        if row and block[row - 1] == block[row]:
            after[row - 1] = max(after[row - 1], way)
        for wait in executed.waits[row]:
            after[wait] = max(after[wait], way)
        if source[row] >= 0:
            on_arrival[source[row]] = max(on_arrival[source[row]], way)
    return urgency
