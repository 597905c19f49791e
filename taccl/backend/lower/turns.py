"""Which send of a rank comes after which: those of its connection, and of its ports in the schedule's order.

Whether two sends have one thread block, so that nothing has to be waited for, is
decided where channels are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.backend.lower.actions import Pairs
from taccl.backend.lower.flow import Flow
from taccl.backend.lower.order import Events
from taccl.model.tolerance import TOLERANCE_US
from taccl.support.jit import Loop, flat


def sends_before(flow: Flow, events: Events) -> tuple[Pairs, Pairs]:
    """Pairs of sends of one rank: the first must not start before the second is done.

    Those before it on its connection, which every file keeps; and those that its ports served before it,
    after which it takes its turn. Sends that take no time may be in front of longer ones at one moment, so
    the one that is done last counts.
    """
    columns, topology = flow.columns, flow.schedule.problem.topology
    first_port, ports = flat(topology.ports)
    # A port that links of several ranks share is one for each of them: no rank can wait for another here.
    of_rank = np.repeat(topology.src, np.diff(first_port)) * (topology.num_ports + 1) + ports
    number, port = np.unique(of_rank, return_inverse=True)
    instances = int(columns.instance.max(initial=0)) + 1
    after, before, at_port = _order_turns(
        len(columns),
        order=events.sends,
        lane=columns.link * instances + columns.instance,
        instances=instances,
        first_port=first_port,
        port=port,
        start_us=columns.start_us + TOLERANCE_US,
        sent_us=columns.sent_us,
        lanes=topology.num_links * instances,
        ports=len(number) * instances,
    )
    pairs = np.stack([np.array(after, dtype=np.int64), np.array(before, dtype=np.int64)], axis=1)
    is_turn = np.array(at_port, dtype=np.bool_)
    return pairs[~is_turn], pairs[is_turn]


def _order_turns_in_columns(
    order: Sequence[int],
    lane: Sequence[int],
    instances: int,
    first_port: Sequence[int],
    port: Sequence[int],
    start_us: Sequence[float],
    sent_us: Sequence[float],
    lanes: int,
    ports: int,
) -> tuple[list[int], list[int], list[bool]]:
    """The two columns of pairs, and whether a pair is of a port and not of a connection.

    Parameters
    ----------
    order : the sends as they leave.
    lane : of each send, link * instances + instance.
    first_port, port : the ports of link k begin at port[first_port[k]].
    """
    last_send = [-1] * lanes
    through = [-1] * ports
    after = [0 for _ in range(0)]
    befores = [0 for _ in range(0)]
    at_port = [False for _ in range(0)]
    for send in order:
        before = last_send[lane[send]]
        if before >= 0:
            after.append(send)
            befores.append(before)
            at_port.append(False)
        last_send[lane[send]] = send
        link = lane[send] // instances
        for place in range(first_port[link], first_port[link + 1]):
            key = port[place] * instances + lane[send] % instances
            before = through[key]
            if before >= 0 and sent_us[before] <= start_us[send]:
                after.append(send)
                befores.append(before)
                at_port.append(True)
            if before < 0 or sent_us[before] <= sent_us[send]:
                through[key] = send
    return after, befores, at_port


_order_turns = Loop(_order_turns_in_columns)
