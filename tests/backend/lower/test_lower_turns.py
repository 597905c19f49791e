from dataclasses import replace

import numpy as np
from small_schedules import by_hand

from taccl.backend.lower.flow import Flow, read_flow
from taccl.backend.lower.order import order_events
from taccl.backend.lower.turns import sends_before
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule


def flow_of(schedule: Schedule) -> Flow:
    chunks = np.arange(schedule.problem.num_chunks)
    return read_flow(schedule, np.zeros(len(schedule), dtype=np.int64), chunks)


def test_a_send_comes_after_the_one_before_it_on_its_connection() -> None:
    rows = [(2.0 * chunk, 0, 1, (chunk,), False) for chunk in range(3)]
    flow = flow_of(by_hand(make_collective("broadcast", 2, 3), rows))
    assert sends_before(flow, order_events(flow), takes_turns=False).tolist() == [[1, 0], [2, 1]]


def test_sends_through_one_port_wait_only_where_turns_are_taken() -> None:
    rows = [(0.0, 0, 1, (0,), False), (2.0, 0, 2, (0,), False)]
    schedule = by_hand(make_collective("broadcast", 3), rows)
    assert sends_before(flow_of(schedule), order_events(flow_of(schedule)), takes_turns=True).tolist() == []
    topology = replace(schedule.problem.topology, ports=((0,), (0,)))
    flow = flow_of(replace(schedule, problem=replace(schedule.problem, topology=topology)))
    assert sends_before(flow, order_events(flow), takes_turns=False).tolist() == []
    assert sends_before(flow, order_events(flow), takes_turns=True).tolist() == [[1, 0]]
