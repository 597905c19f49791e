"""The fewest transfers of a sum of all for all, and where the two trees of it meet."""

from __future__ import annotations

import random

import pytest
from brute_force import TooLarge, fastest, program_before
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_problems import random_network
from small_problems import custom, machine, ndv2_node, problem, ring

from taccl.encoding.bounds.center import CENTER, center_bound
from taccl.encoding.bounds.views import views
from taccl.encoding.bounds.volume import VOLUME
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: More work than any proof here takes.
_PLENTY = 1_000_000


def all_for_all(topology: LogicalTopology, sums: int, chunk_mb: float = 1.0, max_group: int = 71) -> Problem:
    everyone = range(topology.num_ranks)
    chunks = custom(topology.num_ranks, [(everyone, everyone, True)] * sums)
    return Problem(topology, chunks, chunk_mb, max_group=max_group)


def center_us(stated: Problem, known_us: float = 0.0) -> float:
    return center_bound(Instance(stated), known_us, Budget.of_work(_PLENTY)).value_us


def volume_us(stated: Problem) -> float:
    proofs = (p for view in views(Instance(stated)) for p in VOLUME.prove(view, 0.0, Budget.of_work(_PLENTY)))
    return max(proof.value_us for proof in proofs)


def test_sums_in_an_ndv2_node_meet_on_four_links_that_have_room_for_four_of_eight() -> None:
    """Until 138.3 us a double link passes 5 chunks and a single one 2: as many as there have to be.

    No GPU is near enough to all others, and 0-4, 1-3, 2-6 and 5-7 are the only pairs of GPUs of which one is
    within two NVLinks of each other GPU: 46 us before, 46 after, so each passes one chunk between.
    """
    node = problem(ndv2_node(), "allreduce")
    assert volume_us(node) == pytest.approx(0.3 + 5 * 23.0)
    assert center_us(node) == pytest.approx(0.3 + 6 * 23.0, rel=1e-9)
    assert center_us(node, known_us=138.4) == 0.0, "nothing that is known already"


@pytest.mark.parametrize(("sums", "end_us"), [(1, 2.0), (2, 4.0)])
def test_round_a_one_way_ring_a_sum_meets_at_one_rank(sums: int, end_us: float) -> None:
    """3 ports pass 8 transfers and one to spare in 3 us; but no two ranks have links both directions to meet
    on.

    So the sum that has none to spare takes 2 us to one rank, and 2 us from there to all.
    """
    stated = all_for_all(ring(3, 0.0, 1.0), sums)
    assert volume_us(stated) == pytest.approx(sums + 1)
    assert max(center_us(stated), volume_us(stated)) == pytest.approx(end_us, rel=1e-9)
    assert fastest(stated).makespan_us == pytest.approx(end_us)


def test_two_ranks_exchange_their_parts() -> None:
    """Both have it at once, and nobody has to be at the root of anything."""
    two = machine(2, [(0, 1, 1.0, 2.0), (1, 0, 1.0, 2.0)])
    assert center_us(all_for_all(two, 2)) <= 5.0 + 1e-9
    assert fastest(all_for_all(two, 2)).makespan_us == pytest.approx(5.0)


def test_only_sums_of_all_that_all_want_have_a_center() -> None:
    everyone, topology = (0, 1, 2), ring(3)
    for pre, post, reduces in [(everyone, (0,), True), ((0,), everyone, False), ((0, 1), everyone, True)]:
        assert center_us(Problem(topology, custom(3, [(pre, post, reduces)]), 1.0)) == 0.0


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(st.integers(0, 2**32 - 1))
def test_no_program_beats_it(seed: int) -> None:
    """Held against all programs by itself: of all bounds together it is seldom the largest."""
    draw = random.Random(seed)
    topology = random_network(draw)
    assume(topology.num_ranks < 4)
    stated = all_for_all(topology, 4 - topology.num_ranks, draw.choice([1.0, 0.3125]), draw.choice([1, 71]))
    view = views(Instance(stated))[0]
    proved = [proof.value_us for proof in CENTER.prove(view, 1e-6, Budget.of_work(_PLENTY))]
    assume(max(proved, default=0.0) > 0)
    try:
        assert program_before(stated, max(proved) - 1e-6, 2_000) is None
    except TooLarge:
        assume(False)
