"""Rounds between nodes: schedules are valid, a NIC pays one alpha a round, and small messages gain."""

from __future__ import annotations

import numpy as np
import pytest
from small_problems import problem
from textbook_machines import all_built, railed_nodes

from taccl.encoding.engines.textbook.engine import by_name
from taccl.encoding.instance import Instance
from taccl.model.schedule import Schedule

ROUNDS = [
    (4, 2, "allreduce", "rounds of 2x2 nodes by 2 GPUs, all-pairs inside, all-pairs between them", 2),
    (
        *(8, 4, "allreduce"),
        "rounds of 2x4 nodes by 4 GPUs, recursive doubling inside, recursive doubling between them",
        2,
    ),
    (
        *(4, 4, "allreduce"),
        "rounds of 2x2 nodes by 4 GPUs, all-pairs inside, all-pairs between them, all-pairs of 2 shares",
        2,
    ),
    (9, 2, "allgather", "rounds of 3x3 nodes by 2 GPUs, all-pairs inside", 2),
    (8, 4, "allgather", "rounds of 2x4 nodes by 4 GPUs, recursive doubling inside", 2),
    (9, 2, "reducescatter", "rounds of 3x3 nodes by 2 GPUs, all-pairs inside", 2),
    (9, 2, "allreduce", "there and back, rounds of 3x3 nodes by 2 GPUs, all-pairs inside", 4),
]


def across_from_one_rank(schedule: Schedule) -> int:
    """The most sends between nodes that one rank makes."""
    topology, sends = schedule.problem.topology, schedule.sends
    crossing = sends.link[topology.internode[sends.link]]
    return int(np.bincount(topology.src[crossing]).max())


@pytest.mark.parametrize(("nodes", "size", "collective", "name", "rounds"), ROUNDS)
@pytest.mark.parametrize("chunks", [1, 3])
def test_each_gpu_crosses_once_a_round(
    nodes: int, size: int, collective: str, name: str, rounds: int, chunks: int
) -> None:
    cut = problem(railed_nodes(nodes, size), collective, chunks, max_group=10_000)
    schedule = by_name(Instance(cut), name)
    assert schedule is not None
    schedule.check()
    assert across_from_one_rank(schedule) == rounds


def test_sixteen_nodes_of_four_gather_in_two_rounds_and_not_in_four_steps() -> None:
    """Chunks of 0.001 MB, so that nearly all is alphas: three times inside (2 each), two rounds (5 each)."""
    instance = Instance(problem(railed_nodes(16, 4), "allgather", chunk_mb=0.001))
    rounds = by_name(instance, "rounds of 4x4 nodes by 4 GPUs, recursive doubling inside")
    doubling = "recursive doubling along axis 0, then recursive doubling along axis 1 of 16x4"
    steps = by_name(instance, doubling)
    assert rounds is not None
    assert steps is not None
    assert rounds.makespan_us == pytest.approx(3 * 2 + 2 * 5, abs=1.0)
    assert steps.makespan_us == pytest.approx(2 + 4 * 5, abs=1.0)


def test_nodes_whose_number_no_radices_make_have_no_rounds() -> None:
    assert not [name for name in all_built(problem(railed_nodes(5, 2), "allgather")) if "rounds" in name]
