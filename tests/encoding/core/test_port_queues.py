"""Queues at ports: the most urgent of what waits goes when all ports of its link are free."""

from __future__ import annotations

import numpy as np
import pytest
from small_problems import ring

from taccl.encoding.core.costs import Costs, costs_of
from taccl.encoding.core.port_queues import (
    PortQueues,
    any_ready,
    may_start,
    next_arrival,
    next_us,
    offer,
    port_queues,
    send,
    take,
)

NUM_LINKS = 3


def three_links() -> tuple[Costs, PortQueues]:
    """A one-way ring, whose links share no port: a chunk of 1 MB takes 1 us."""
    costs = costs_of(ring(NUM_LINKS, 0.0))
    assert len(costs.alpha_us) == NUM_LINKS
    return costs, port_queues(costs, np.full(NUM_LINKS, 2), 4, 4, np.float64)


def started(costs: Costs, queues: PortQueues, link_of: list[int], now_us: float) -> list[int]:
    """All that can start now, started."""
    gone = []
    while any_ready(queues):
        key, item = take(queues)
        if may_start(queues, costs, link_of[item], now_us, key, item, False):
            send(queues, costs, link_of[item], now_us, 1.0, item)
            gone.append(item)
    return gone


def test_of_two_that_want_a_link_the_less_key_goes_and_the_other_follows_when_the_port_is_free() -> None:
    costs, queues = three_links()
    link_of = [0, 0, 1]
    for item, key in enumerate((5.0, 3.0, 4.0)):
        offer(queues, key, item)
    assert started(costs, queues, link_of, 0.0) == [1, 2]
    assert next_us(queues) == pytest.approx(1.0)
    assert {next_arrival(queues, 1.0), next_arrival(queues, 1.0)} == {1, 2}
    assert next_arrival(queues, 1.0) == -1
    assert started(costs, queues, link_of, 1.0) == [0]


def test_a_port_that_was_kept_for_what_is_gone_already_takes_the_next() -> None:
    costs, queues = three_links()
    for item in range(3):
        offer(queues, float(item), item)
    assert started(costs, queues, [0, 0, 0], 0.0) == [0]
    while next_arrival(queues, 1.0) >= 0:
        pass
    key, item = take(queues)
    assert (key, item) == (1.0, 1)
    assert not may_start(queues, costs, 0, 1.0, key, item, True)
    assert started(costs, queues, [0, 0, 0], 1.0) == [2]


def test_nothing_happens_where_nothing_is_on_its_way() -> None:
    _, queues = three_links()
    assert next_us(queues) == np.inf
    assert not any_ready(queues)
    assert next_arrival(queues, np.inf) == -1
