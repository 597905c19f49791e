"""NCCL's choice and time for eleven rows, computed by hand from the published formulas, to 1%.

n ranks, N nodes, s bytes; B is channels x GB/s of a channel; time = latency + s / (1000 algbw) in us.
"""

from __future__ import annotations

import pytest

from taccl.analysis.baselines.nccl import choice, communicator_of, release_named
from taccl.model.units import parse_size
from taccl.topologies import load_topology

ROWS = [
    # 8 H200, rings 12 x 30 = 360 GB/s, NVLS 8 x 40.
    # Ring LL: 6.6 + 14 x 0.6 = 15.0 us; bus min(360 / 2, 141) = 141, algbw 141 x 8/14 = 80.57.
    # Tree LL: 6.8 + 2 x 7 x 0.6 = 15.2 us.
    ("dgx-h200", 1, "allreduce", "2KB", "Ring LL", 15.0 + 2048 / 80570, "Tree LL"),
    ("dgx-h200", 1, "allreduce", "64KB", "Ring LL", 15.0 + 65536 / 80570, "Tree LL"),
    ("dgx-h200", 1, "allreduce", "1MB", "Ring LL", 15.0 + 1048576 / 80570, "NVLS Simple"),
    # NVLS: 25 us; a channel 2 x 40 x 0.85 x 7/8 = 59.5; bus 8 x 59.5 = 476,
    # algbw 272. Ring Simple: bus 360, algbw 205.7.
    ("dgx-h200", 1, "allreduce", "16GB", "NVLS Simple", 25 + 2**34 / 272000, "Ring Simple"),
    # AllGather by rings of Simple: 8.4 + 7 x 3.4 = 32.2 us, algbw 360 x 8/7 = 411.4. LL128: 14 + 7 x 1.9 us,
    # bus min(0.92 x 360, 12 x 36.7) = 331.2. NVLS would have 8 x 40 x 0.85 x 7/8 x 7/8 = 208.
    ("dgx-h200", 1, "allgather", "1GB", "Ring Simple", 32.2 + 2**30 / 411400, "Ring LL128"),
    # 8 B200, rings 16 x 45 = 720 GB/s, NVLS 8 x 80. A channel 2 x 80 x 0.74 x 7/8 = 103.6, bus 828.8,
    # algbw 473.6. Ring Simple: algbw 411.4.
    ("dgx-b200", 1, "allreduce", "1GB", "NVLS Simple", 25 + 2**30 / 473600, "Ring Simple"),
    # Two nodes of 8 H100, all 8 x 48 = 384 GB/s, Intel.
    # Tree LL: 6.8 + 2 (7 x 0.6 + 1 x 5.0) = 25.2 us; min(0.92 x 384, 8 x 41.4) = 331.2, LL
    # min(331.2 / 3.8, 39) = 39, algbw 19.5; at 64 KB (2**10 x 64) times 0.6: 11.7.
    ("dgx-h100", 2, "allreduce", "8B", "Tree LL", 25.2, "Ring LL"),
    ("dgx-h100", 2, "allreduce", "64KB", "Tree LL", 25.2 + 65536 / 11700, "Ring LL"),
    # Tree LL128: 14 + 2 (7 x 1.25 + 8.5) = 48.5 us; min(331.2 x 120/128, 8 x 36.7) = 293.6, algbw 146.8;
    # at 1 MB (2**14 x 64) times 0.6: 88.1.
    ("dgx-h100", 2, "allreduce", "1MB", "Tree LL128", 48.5 + 1048576 / 88100, "NVLSTree Simple"),
    # NVLSTree: 25 + 2 x 1 x 20.9 = 66.8 us; a channel min(59.5, 2 x 48, 57.7) = 57.7, bus 461.6,
    # algbw 461.6 x 16/30 = 246.2.
    ("dgx-h100", 2, "allreduce", "1GB", "NVLSTree Simple", 66.8 + 2**30 / 246200, "Ring Simple"),
    # 8 A100, 12 x 20 = 240 GB/s. Ring Simple: 8.4 + 14 x 3.4 = 56 us, algbw 240 x 8/14 = 137.1. LL128:
    # 14 + 14 x 1.9 = 40.6 us, bus min(0.92 x 240, 12 x 20) = 220.8, algbw 126.2.
    ("dgx-a100", 1, "allreduce", "1GB", "Ring Simple", 56 + 2**30 / 137140, "Ring LL128"),
]


@pytest.mark.parametrize(("machine", "nodes", "collective", "size", "pick", "expected_us", "runner_up"), ROWS)
def test_pick_time_and_runner_up(
    machine: str, nodes: int, collective: str, size: str, pick: str, expected_us: float, runner_up: str
) -> None:
    comm = communicator_of(load_topology(machine, nodes=nodes))
    found = choice(release_named("2.30"), comm, collective, parse_size(size))
    assert found.pick.name == pick
    assert found.pick.time_us == pytest.approx(expected_us, rel=0.01)
    assert found.runner_up is not None
    assert found.runner_up.name == runner_up
