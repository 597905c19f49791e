"""Sends that take turns at a rank's ports, and puts through ports that others wait for.

A put that takes its turn after one begins when that is complete. A push into a port channel takes no time, so
without this all that a thread block pushes is on its way at once, and shares the rank's ports.
"""

from __future__ import annotations

from taccl.backend.lower_plan.graph import Graph
from taccl.backend.program import Op


def take_turns(graph: Graph) -> Graph:
    """What a rank sends through one port goes in the schedule's order; without this, at once."""
    return graph.waiting(graph.turns)


def find_awaited(graph: Graph) -> frozenset[int]:
    """Sends through ports that another send through a port of the rank waits for, on another connection."""
    sends = {message.send: message.connection for message in graph.messages if not graph.is_near(message)}
    return frozenset(
        wait
        for send, connection in sends.items()
        for wait in _waits(graph, send)
        if wait in sends
        and sends[wait] != connection
        and graph.actions[wait].rank == graph.actions[send].rank
    )


def _waits(graph: Graph, action: int) -> list[int]:
    """What an action waits for; in programs, steps before it that do nothing do so, too."""
    waits = [*graph.before[action]]
    while graph.actions[action].at and graph.actions[action - 1].op is Op.NOP:
        action -= 1
        waits += graph.before[action]
    return waits
