"""Sums through several ports into a node: the first of all of them are collected next to each other."""

from __future__ import annotations

import random

import pytest
from brute_force import TooLarge, program_before
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_problems import custom, machine

from taccl.api import make_problem
from taccl.encoding.bounds.all_ports import ALL_PORTS
from taccl.encoding.bounds.views import views
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.support.budget import Budget


def nodes_of(
    outside: int, inside: int, across: list[tuple[int, int, float, float]], alpha: float, beta: float
) -> LogicalTopology:
    """Two nodes whose ranks have a port out and a port in each, joined by some links."""
    ranks, node_of = outside + inside, [0] * outside + [1] * inside
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and node_of[a] == node_of[b]]
    shared = [[i for i, pair in enumerate(pairs) if pair[end] == r] for end in (0, 1) for r in range(ranks)]
    links = [*((a, b, alpha, beta) for a, b in pairs), *across]
    return machine(ranks, links, shared=[each for each in shared if each], node_of=node_of)


def proved_us(stated: Problem, known_us: float) -> float:
    budget = Budget.of_work(1_000_000)
    found = [proof for view in views(Instance(stated)) for proof in ALL_PORTS.prove(view, known_us, budget)]
    return max(proof.value_us for proof in found)


def test_first_groups_of_all_ports_are_collected_beside_each_other() -> None:
    """Four ranks sum four chunks, and each has a link to the other node, of 40 us + 1 us a chunk.

    Any one sum is there after two rounds of 3 us. Four sums, one at each rank, need three chunks one after
    the other through the port of each. In the other node what comes to one rank goes on to the other.
    """
    across = [(r, 4 + r % 2, 40.0, 1.0) for r in range(4)]
    sums = custom(6, [([0, 1, 2, 3], [4, 5], True)] * 4)
    one_each = Problem(nodes_of(4, 2, across, 1.0, 2.0), sums, 1.0, max_group=1)
    assert proved_us(one_each, 47.0) == pytest.approx(9.0 + 41.0 + 3.0)
    assert proved_us(one_each, 53.0) == 0.0, "no better than what is known"


def test_two_dgx2_nodes_collect_sixteen_sums_before_all_nics_have_begun() -> None:
    """Each NIC serves two GPUs, so two groups of two sums: 2 alphas and 4 bodies. `stages` says 8.07 us.

    Before the last of eight NICs begins, each of 16 sums has come from 16 GPUs: some GPU passes 15 on, in 4
    groups. The sums that come last through that NIC go to 16 GPUs in 4 rounds.
    """
    stated = make_problem("allreduce", sketch="dgx2-sk-2").problem
    body = 2.0**-10
    nic, first, last = 2 * 2.6 + 4 * 105 * body, 4 * 0.3 + 15 * 8 * body, 4 * (0.3 + 8 * body)
    assert proved_us(stated, 8.07) == pytest.approx(first + nic + last, rel=1e-4)


def tiny(draw: random.Random) -> Problem:
    """Two or three ranks whose sums two others want, over some links that are slow to begin with."""
    outside, inside = draw.choice([2, 2, 3]), 2
    crossing = draw.sample([(a, outside + b) for a in range(outside) for b in range(inside)], 2)
    alpha, slow = draw.choice([(0.5, 4.0), (1.0, 2.0), (1.0, 6.0), (0.25, 1.0)])
    across = [(a, b, slow, draw.choice([0.5, 1.0])) for a, b in crossing]
    back = [(b, a, slow, 1.0) for a, b in crossing if draw.random() < 0.3]
    topology = nodes_of(outside, inside, [*across, *back], alpha, draw.choice([0.5, 1.0, 2.0]))
    everyone = list(range(outside + inside))
    contributors = everyone[:outside] if draw.random() < 0.8 else everyone
    sums = custom(len(everyone), [(contributors, everyone[outside:], True)] * 2)
    return Problem(topology, sums, 1.0, limits=RoutingLimits(), max_group=draw.choice([1, 2, 71]))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_program_is_faster(seed: int) -> None:
    """However often and wherever it sums."""
    stated = tiny(random.Random(seed))
    bound_us = max(proved_us(stated, known_us) for known_us in (3.0, 6.0, 12.0))
    try:
        faster = program_before(stated, bound_us - 1e-6, 3_000)
    except TooLarge:
        return
    assert faster is None, f"{bound_us} is above {faster.makespan_us}: {faster.steps}"
