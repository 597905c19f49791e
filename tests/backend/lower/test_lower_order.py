import numpy as np
from hypothesis import given, settings
from small_schedules import by_hand
from strategies import schedules

from taccl.backend.lower.flow import Flow, read_flow
from taccl.backend.lower.order import EventKind, order_events
from taccl.model.collectives import make_collective
from taccl.model.schedule import Schedule


def flow_of(schedule: Schedule) -> Flow:
    chunks = np.arange(schedule.problem.num_chunks)
    return read_flow(schedule, np.zeros(len(schedule), dtype=np.int64), chunks)


@settings(max_examples=50, deadline=None)
@given(schedule=schedules())
def test_the_order_keeps_its_rules(schedule: Schedule) -> None:
    flow = flow_of(schedule)
    events = order_events(flow)
    at = {event: position for position, event in enumerate(events)}
    assert len(at) == len(events) == 3 * len(flow.sends)
    last_on: dict[tuple[int, int], int] = {}
    for kind, index in events:
        if kind is not EventKind.SEND:
            continue
        send = flow.sends[index]
        sent, received = at[EventKind.SEND, index], at[EventKind.RECEIVE, index]
        assert sent < received < at[EventKind.ARRIVE, index]
        assert all(at[EventKind.ARRIVE, source] < sent for source in flow.sources(send))
        if len(send.chunks) > 1:
            assert received == sent + 1
        if send.connection in last_on:
            assert at[EventKind.RECEIVE, last_on[send.connection]] < sent
            assert at[EventKind.ARRIVE, last_on[send.connection]] < received
        last_on[send.connection] = index


def test_a_receive_of_one_chunk_counts_at_its_end_and_of_several_at_its_start() -> None:
    gather = make_collective("gather", 3, 2)
    single = by_hand(gather, [(0.0, 1, 0, (2,), False), (2.0, 1, 0, (3,), False), (1.0, 2, 0, (4, 5), False)])
    flow = flow_of(single)
    order = [(kind.name, flow.sends[index].chunks) for kind, index in order_events(flow)]
    assert order[:4] == [
        ("SEND", (2,)),
        ("SEND", (4, 5)),
        ("RECEIVE", (4, 5)),
        ("RECEIVE", (2,)),
    ]


def test_of_sends_at_one_moment_the_one_that_has_come_furthest_goes_first() -> None:
    rows = [(0.0, 0, 1, (0,), False), (2.0, 0, 1, (1,), False), (2.0, 1, 2, (0,), False)]
    schedule = by_hand(make_collective("broadcast", 3, 2), [*rows, (4.0, 1, 2, (1,), False)])
    flow = flow_of(schedule)
    sends = [
        (flow.sends[i].src, flow.sends[i].chunks) for kind, i in order_events(flow) if kind is EventKind.SEND
    ]
    assert sends == [(0, (0,)), (1, (0,)), (0, (1,)), (1, (1,))]


def test_links_that_cost_nothing_are_ordered_by_what_needs_what() -> None:
    rows = [(0.0, 1, 2, (0,), False), (0.0, 0, 1, (0,), False)]
    schedule = by_hand(make_collective("broadcast", 3), rows, alpha_us=0.0, beta_us_per_mb=0.0)
    flow = flow_of(schedule)
    sends = [flow.sends[i].src for kind, i in order_events(flow) if kind is EventKind.SEND]
    assert sends == [0, 1]


def test_an_added_chunk_leaves_after_all_contributions_to_it() -> None:
    rows = [(0.0, 0, 2, (0,), True), (5.0, 1, 2, (0,), True), (7.0, 2, 3, (0,), True)]
    schedule = by_hand(make_collective("reduce", 4, root=3), rows)
    flow = flow_of(schedule)
    last = next(send for send in flow.sends if send.src == 2)
    assert len(flow.sources(last)) == 2
