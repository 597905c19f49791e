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


def before(schedule: Schedule) -> list[list[list[int]]]:
    flow = flow_of(schedule)
    return [pairs.tolist() for pairs in sends_before(flow, order_events(flow))]


def test_a_send_comes_after_the_one_before_it_on_its_connection() -> None:
    rows = [(2.0 * chunk, 0, 1, (chunk,), False) for chunk in range(3)]
    on_connection, _ = before(by_hand(make_collective("broadcast", 2, 3), rows))
    assert on_connection == [[1, 0], [2, 1]]


def test_sends_through_one_port_take_turns() -> None:
    rows = [(0.0, 0, 1, (0,), False), (2.0, 0, 2, (0,), False)]
    schedule = by_hand(make_collective("broadcast", 3), rows)
    assert before(schedule) == [[], []]
    topology = replace(schedule.problem.topology, ports=((0,), (0,)))
    assert before(replace(schedule, problem=replace(schedule.problem, topology=topology))) == [[], [[1, 0]]]
