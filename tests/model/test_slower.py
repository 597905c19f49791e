"""Which networks are no faster than others, so that bounds of the others hold on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from taccl.api import make_problem
from taccl.model.engine_costs import effective_network
from taccl.model.network import LogicalTopology
from taccl.model.slower import is_no_faster
from tests.backend.small_schedules import executor_of


def network(name: str = "switch:4") -> LogicalTopology:
    return replace(make_problem("allgather", topology=name, size="1MB").problem.topology, executor=None)


@pytest.mark.parametrize("name", ["switch:4", "ring:4", "dgx-a100"])
@pytest.mark.parametrize("pace", ["in-phase", "one-way", "pipelined"])
def test_links_that_thread_blocks_serve_are_no_faster_than_links_alone(name: str, pace: str) -> None:
    links = replace(network(name), executor=executor_of())
    served = effective_network(links, "Simple", 2, pace)
    assert is_no_faster(served, replace(links, occupancy="pipelined"))
    assert not is_no_faster(links, served)


def test_alphas_that_keep_ports_busy_are_slower_than_those_that_do_not() -> None:
    serial, pipelined = (replace(network(), occupancy=each) for each in ("serial", "pipelined"))
    assert is_no_faster(serial, serial) and is_no_faster(serial, pipelined)
    assert not is_no_faster(pipelined, serial)


@pytest.mark.parametrize("column", ["alpha_us", "beta_us_per_mb"])
def test_one_link_that_costs_less_is_enough_to_be_faster(column: str) -> None:
    slow = network("full:3")
    costs = getattr(slow, column).astype(float)
    costs[1] *= 0.9
    fast = replace(slow, **{column: costs})
    assert is_no_faster(slow, fast) and not is_no_faster(fast, slow)


def test_a_port_less_is_faster_and_other_links_are_no_comparison() -> None:
    slow = network()
    link, port = len(slow.ports) - 1, slow.num_ports
    more = replace(
        slow,
        ports=(*slow.ports[:link], (*slow.ports[link], port)),
        port_names=(*slow.port_names, "one more"),
    )
    assert is_no_faster(more, slow) and not is_no_faster(slow, more)
    assert not is_no_faster(slow, network("ring:4"))
    sums = replace(slow, may_sum=np.array([True, True, True, False]))
    assert not is_no_faster(sums, slow)
