"""RCCL's choice on MI300X, and what it is not known for."""

from __future__ import annotations

import pytest

from taccl.analysis.baselines.rccl import choice
from taccl.errors import CollectiveError, TopologyError
from taccl.topologies import load_topology

ONE, TWO = load_topology("mi300x", nodes=1), load_topology("mi300x", nodes=2)


@pytest.mark.parametrize(
    ("collective", "size", "pick"),
    [
        # LL 12 + 14 x 0.8 = 23.2 us and 336 x 0.08 x 8/14 = 15.4 GB/s, Simple 17 + 14 x 2.1 = 46.4 and 192:
        # they meet at 23.2 x 10**3 / (1 / 15.36 - 1 / 192) = 387 KB of 10**3; RCCL's times jump after 256 KB
        ("allreduce", 2**18, "Ring LL"),
        ("allreduce", 2**19, "Ring Simple"),
        # 17.6 us and 30.72 GB/s, 31.7 us and 384: 471 KB; the times jump after 256 KB of 2**10
        ("allgather", 2**18, "Ring LL"),
        ("allgather", 2**19, "Ring Simple"),
        # up to 352128 bytes of each of 8 ranks
        ("reducescatter", 8 * 352128, "Ring LL"),
        ("reducescatter", 8 * 352129, "Ring Simple"),
    ],
)
def test_one_node_takes_the_least_of_rings_with_ll_and_simple(collective: str, size: int, pick: str) -> None:
    assert choice(ONE, collective, size) == pick


def test_between_nodes_sizes_pick_the_protocol_and_the_algorithm_of_an_allreduce_is_left_open() -> None:
    assert [choice(TWO, "allreduce", size) for size in (2**19, 2**20, 2**23)] == ["LL", "LL128", "Simple"]
    assert choice(TWO, "allgather", 16 * 96 * 2**10) == "Ring LL"
    assert choice(TWO, "allgather", 16 * 96 * 2**10 + 16) == "Ring LL128"


@pytest.mark.parametrize(
    ("machine", "gpu", "collective", "message"),
    [
        ("dgx-h100", None, "allreduce", "RCCL runs on AMD"),
        ("mi250x", None, "allreduce", "not in this program"),
        ("ring:8", None, "allreduce", "does not say which GPUs"),
        ("full:8", "MI300X", "broadcast", "RCCL's choice for 'broadcast'"),
    ],
)
def test_what_is_not_known_is_refused(machine: str, gpu: str | None, collective: str, message: str) -> None:
    with pytest.raises((TopologyError, CollectiveError), match=message):
        choice(load_topology(machine), collective, 2**20, gpu=gpu)
