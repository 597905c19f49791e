"""Traffic that changes each step: planned without a search, and what a search makes of it."""

from pathlib import Path

import numpy as np
import pytest

from taccl import plan_traffic, synthesize
from taccl.errors import CollectiveError

_MACHINE = """
name: small-h200
occupancy: pipelined
nodes: 3
node:
  gpus: 4
  switches: [nvswitch]
  nics: 4
  links:
    - {from: gpus, to: nvswitch, alpha_us: 0.35, bandwidth_gbps: 450}
    - {from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 50}
fabric: {alpha_us: 3, bandwidth_gbps: 50}
"""


def _skewed(ranks: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    weight = random.permutation(1 / np.arange(1, ranks * ranks + 1) ** 0.8).reshape(ranks, ranks)
    return np.asarray(weight / weight.mean() * 50e6, dtype=np.int64)


def test_plan_moves_all_that_crosses() -> None:
    sizes = _skewed(12, 1)
    plan = plan_traffic(sizes, 4)
    moved = np.zeros_like(sizes)
    np.add.at(moved, (plan.source, plan.target), plan.size_bytes)
    node = np.arange(12) // 4
    np.testing.assert_array_equal(moved, np.where(node[:, None] == node, 0, sizes))
    assert 0.95 < plan.of_bound <= 1
    assert plan.start.max() < plan.nic_bytes


@pytest.mark.parametrize(
    ("ranks", "gpus", "seed"), [(12, 4, 1), (12, 2, 2), (6, 1, 3), (24, 8, 4), (4, 4, 5)]
)
def test_rows_in_their_order_never_wait_and_end_when_the_busiest_nic_does(
    ranks: int, gpus: int, seed: int
) -> None:
    """Each NIC passes one row at a time, which begins when both of its NICs are free."""
    plan = plan_traffic(_skewed(ranks, seed), gpus)
    free: dict[tuple[str, int, int], float] = {}
    columns = (plan.source, plan.target, plan.rail, plan.size_bytes, plan.start)
    for source, target, rail, size, start in zip(*(each.tolist() for each in columns), strict=True):
        nics = (("out", source // gpus, rail), ("in", target // gpus, rail))
        assert size > 0
        assert max(free.get(nic, 0.0) for nic in nics) <= start
        free |= dict.fromkeys(nics, start + size)
    assert max(free.values(), default=0.0) <= plan.nic_bytes


def test_traffic_inside_nodes_is_no_plan() -> None:
    plan = plan_traffic(np.kron(np.eye(2, dtype=np.int64), np.ones((2, 2), dtype=np.int64)), 2)
    assert plan.of_bound == 1
    assert not len(plan.rail)


@pytest.mark.parametrize(("ranks", "gpus"), [(6, 4), (4, 0), (4, 8)])
def test_what_is_no_whole_nodes_is_refused(ranks: int, gpus: int) -> None:
    with pytest.raises(CollectiveError):
        plan_traffic(np.ones((ranks, ranks), dtype=np.int64), gpus)


def test_rows_of_several_lengths_are_refused() -> None:
    with pytest.raises(CollectiveError, match="square table"):
        plan_traffic([[0, 1], [1]], 1)  # type: ignore[arg-type]


def test_first_schedule_is_near_the_bound_of_the_nics(tmp_path: Path) -> None:
    machine = tmp_path / "small.yaml"
    machine.write_text(_MACHINE)
    sizes = 8 * _skewed(12, 1)
    result = synthesize(
        "alltoall", topology=machine, sizes=sizes, chunks=8, engine="routes", effort=100, file=False
    )
    result.schedule.check()
    assert result.time_us <= plan_traffic(sizes, 4).least_bytes / 50e3 / 0.95
