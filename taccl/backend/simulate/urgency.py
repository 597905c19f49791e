"""How long the way is from each step to the end of a program, if no port were ever busy."""

from __future__ import annotations

from collections.abc import Sequence

from taccl.backend.simulate.costs import Costs
from taccl.backend.verify.connections import Connections
from taccl.backend.verify.transfers import Transfers

#: Times that agree to so many decimals (of a microsecond) are equal.
DECIMALS = 6


def urgency_us(
    transfers: Transfers, connections: Connections, costs: Costs, order: Sequence[int]
) -> list[float]:
    """For each transfer, microseconds from its start to the end of what must follow it.

    What must follow are the next step of its thread block, the steps that wait for it, and the receive
    of what it sends. Room in connections is not looked at.

    Parameters
    ----------
    order : all transfers, each after all that it must follow.
    """
    block, source = transfers.block.tolist(), connections.source.tolist()
    busy, latency, local = costs.busy_us.tolist(), costs.latency_us.tolist(), costs.local_us.tolist()
    after = [0.0] * len(transfers)  # from when the thread block is done with it
    on_arrival = [0.0] * len(transfers)  # from when its receiver has it
    urgency = [0.0] * len(transfers)
    for row in reversed(order):
        way = busy[row] + local[row] + max(after[row], latency[row] + on_arrival[row])
        urgency[row] = round(way, DECIMALS)
        if row and block[row - 1] == block[row]:
            after[row - 1] = max(after[row - 1], way)
        for wait in transfers.waits[row]:
            after[wait] = max(after[wait], way)
        if source[row] >= 0:
            on_arrival[source[row]] = max(on_arrival[source[row]], way)
    return urgency
