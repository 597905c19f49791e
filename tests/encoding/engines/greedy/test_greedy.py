"""Which policies the greedy engine tries."""

from __future__ import annotations

import numpy as np
import pytest
from registered import greedy
from small_problems import machine, problem, ring, two_nodes

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.greedy.engine import _policies
from taccl.encoding.quotient import Quotient
from taccl.model.network import LogicalTopology
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def between(alpha_us: float, inside_us: float) -> LogicalTopology:
    """Ranks 0 and 1 are one node, rank 2 is another; alphas of the links between nodes and inside one."""
    links = [(0, 1, inside_us, 1.0), (1, 0, inside_us, 1.0), (1, 2, alpha_us, 1.0), (2, 1, alpha_us, 1.0)]
    return machine(3, links, node_of=[0, 0, 1])


@pytest.mark.parametrize(
    ("alpha_us", "inside_us", "groups", "internode_groups"),
    [(1.0, 1.0, 5, 5), (1.0, 0.0, 1, 5), (0.0, 1.0, 5, 1), (0.0, 0.0, 1, 1)],
)
def test_groups_are_tried_only_where_a_common_send_saves_an_alpha(
    alpha_us: float, inside_us: float, groups: int, internode_groups: int
) -> None:
    policies = _policies(between(alpha_us, inside_us))
    assert len({policy.group for policy in policies}) == groups
    assert len({policy.internode_group for policy in policies}) == internode_groups
    assert ({policy.taper for policy in policies} == {1.0}) == (internode_groups == 1)
    assert len(set(policies)) == len(policies)


@pytest.mark.parametrize("name", ["allgather", "alltoall"])
def test_where_alpha_takes_no_port_every_pass_sends_chunks_one_by_one(name: str) -> None:
    pipelined = problem(two_nodes(occupancy="pipelined"), name, 4)
    updates = list(greedy(pipelined, SearchOptions(), Budget.of_work(300), None))
    assert updates
    assert all((update.schedule.sends.count == 1).all() for update in updates if update.schedule)
    serial = problem(two_nodes(), name, 4)
    assert (
        max(
            np.max(update.schedule.sends.count)
            for update in greedy(serial, SearchOptions(), Budget.of_work(300), None)
            if update.schedule
        )
        > 1
    )


def test_of_the_quotient_only_what_is_faster_is_written_for_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requested, options = problem(ring(6, both=True), "alltoall"), SearchOptions(effort=1)
    *_, best = greedy(requested, options, Budget.of_work(2000), None)
    lifted = list[float]()
    of_whole = Quotient.lifted

    def noted(self: Quotient, schedule: Schedule) -> Schedule:
        lifted.append(schedule.makespan_us)
        return of_whole(self, schedule)

    monkeypatch.setattr(Quotient, "lifted", noted)
    assert best.schedule is not None
    for _ in greedy(requested, options, Budget.of_work(2000), best.schedule):
        pass
    assert all(time_us < best.schedule.makespan_us for time_us in lifted)
