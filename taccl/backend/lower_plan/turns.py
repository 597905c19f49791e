"""Which puts through ports others wait for: a put that takes its turn after one begins when that is complete.
A push into a port channel takes no time, so without this all that a thread block pushes is on its way at
once, and shares the rank's ports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from taccl.backend.lower_plan.steps import Message, Steps
from taccl.backend.program import Op


def find_awaited(steps: Steps, through_ports: Collection[Message]) -> frozenset[int]:
    """Sends through ports that another send through a port of the rank waits for, on another connection.

    Parameters
    ----------
    through_ports : messages between ranks that are in no node together.
    """
    sends = {message.send: message.connection for message in through_ports}
    return frozenset(
        wait
        for send, connection in sends.items()
        for wait in _waits(steps, send)
        if wait in sends and sends[wait] != connection and steps.nodes[wait].rank == steps.nodes[send].rank
    )


def _waits(steps: Steps, node: int) -> Iterator[int]:
    """What a step waits for: a step can name one, and steps that do nothing before it name the others."""
    yield from steps.before[node]
    while steps.nodes[node].at and steps.nodes[node - 1].step.op is Op.NOP:
        node -= 1
        yield from steps.before[node]
