"""The bound from what feeds the ports across a line, send by send."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from brute_force import TooLarge, fastest, program_before
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from random_problems import random_cluster_problem, random_featured_problem, random_problem
from small_problems import custom, machine, problem
from studies import examples

from taccl import make_problem
from taccl.encoding.bounds import any_chunks_bound, lower_bound, quick_bound
from taccl.encoding.bounds.cuts import Crossings, Cut, members, narrow_cuts
from taccl.encoding.bounds.fan_out import FAN_OUT
from taccl.encoding.bounds.fan_out_setting import Setting
from taccl.encoding.bounds.fan_out_worth import OutOfSight, Prices, Worth
from taccl.encoding.bounds.latency import LATENCY
from taccl.encoding.bounds.staged_cut import STAGED_CUT
from taccl.encoding.bounds.views import views
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget

#: What is proved first, so that there is something to begin with.
_BOUNDS = (LATENCY, FAN_OUT)


def node_and_others(
    fed: int, alpha_us: float = 1.0, occupancy: str = "serial", across_us: float = 2.0
) -> LogicalTopology:
    """Root 0 sends to its node's other GPUs through one port; each of these has a way to a GPU elsewhere."""
    inside = [(0, 1 + other, alpha_us, 1.0) for other in range(fed)]
    across = [(1 + other, 1 + fed + other, across_us, across_us) for other in range(fed)]
    every = [*inside, *across]
    return replace(
        machine(1 + 2 * fed, every, shared=[range(fed)], node_of=[0] * (1 + fed) + [1] * fed),
        occupancy=occupancy,
    )


def to_all_others(topology: LogicalTopology, fed: int) -> Problem:
    return Problem(topology, custom(1 + 2 * fed, [((0,), (1 + fed + i,), False) for i in range(fed)]), 1.0)


def backwards(stated: Problem) -> Problem:
    """The same with every link and every chunk turned round."""
    collective = stated.collective
    turned = replace(collective, inputs=collective.outputs, outputs=collective.inputs)
    return replace(stated, topology=stated.topology.reversed(), collective=turned)


def proved_us(stated: Problem) -> float:
    return lower_bound(stated, Budget.of_work(100_000), bounds=_BOUNDS).value_us


@pytest.mark.parametrize("fed", [2, 3])
def test_the_last_port_begins_when_as_many_sends_have_left_the_root(fed: int) -> None:
    """Ports that take 2 + 2 us begin after one send of 2 us, two sends, and so on."""
    stated = to_all_others(node_and_others(fed), fed)
    assert fastest(stated).makespan_us == pytest.approx(2 * fed + 4)
    assert 2 * fed + 4 - 0.15 < proved_us(stated) <= 2 * fed + 4
    assert program_before(stated, 2 * fed + 4 - 1e-6) is None


def test_of_pipelined_sends_alphas_are_no_time_of_the_port() -> None:
    stated = to_all_others(node_and_others(3, occupancy="pipelined"), 3)
    assert fastest(stated).makespan_us == pytest.approx(3 + 1 + 4)
    assert 7.8 < proved_us(stated) <= 8


def test_what_is_gathered_takes_as_long_as_what_is_scattered() -> None:
    scattered = to_all_others(node_and_others(2), 2)
    gathered = backwards(scattered)
    assert fastest(gathered).makespan_us == pytest.approx(8)
    assert 7.85 < proved_us(gathered) <= 8


def test_ranks_that_have_a_chunk_feed_others() -> None:
    """Four ports across are fed by 1, 2 and 2 us, not by four sends one after the other."""
    ranks = range(4)
    inside = [(a, b, 1.0, 0.0) for a in ranks for b in ranks if a != b]
    across = [(a, 4 + a, 4.0, 4.0) for a in ranks]
    shared = [[i for i, link in enumerate(inside) if link[0] == rank] for rank in ranks]
    topology = machine(8, [*inside, *across], shared=shared, node_of=[0] * 4 + [1] * 4)
    stated = Problem(topology, custom(8, [((0,), (4, 5, 6, 7), False)]), 1.0)
    assert fastest(stated).makespan_us == pytest.approx(10)
    assert 9.8 < proved_us(stated) <= 10


def test_however_the_same_is_cut_it_is_no_faster() -> None:
    """One chunk of 1 MB for each of two GPUs takes 8 us, and two of 0.5 MB, too."""
    whole = to_all_others(node_and_others(2), 2)
    pieces = Problem(
        whole.topology, custom(5, [((0,), (3 + i % 2,), False) for i in range(4)]), whole.chunk_mb / 2
    )
    any_us = [any_chunks_bound(each, Budget.of_work(100_000)) for each in (whole, pieces)]
    assert {proof.kind for proof in any_us} == {"fan-out"}
    assert all(6 < proof.value_us <= fastest(pieces).makespan_us <= 8 + 1e-6 for proof in any_us)


def test_it_says_nothing_where_the_root_uses_every_port_across() -> None:
    stated = make_problem("scatter", topology="ndv2", nodes=2, size="1MB").problem
    assert lower_bound(stated, bounds=[FAN_OUT]).value_us == 0


def test_where_what_crosses_takes_no_time_other_bounds_say_what_there_is() -> None:
    stated = to_all_others(node_and_others(2, across_us=0.0), 2)
    assert proved_us(stated) == pytest.approx(2.0)


def test_it_knows_more_of_nodes_with_a_nic_for_each_gpu() -> None:
    stated = make_problem("scatter", topology="a100", nodes=2, size="1MB", chunks=1).problem
    others = lower_bound(stated, Budget.of_work(50_000), bounds=[LATENCY, STAGED_CUT]).value_us
    assert proved_us(stated) > 1.15 * others


def test_it_does_not_look_further_than_what_chunks_serve_is_known() -> None:
    view = views(Instance(problem(node_and_others(2), "broadcast")))[0]
    cut = narrow_cuts(view.instance)[0]
    crossing = view.instance.once(Crossings).of(Cut(frozenset({3, 4}), ""))[-1]
    setting = Setting(view, members(5, {3, 4}), crossing, 10.0, Budget.of_work(10_000))
    assert cut.name and setting.is_fed
    with pytest.raises(OutOfSight):
        Worth(setting, 10.1)


def some_prices(draws: np.random.Generator, forms: int) -> Prices:
    def drawn(low: float, high: float, *shape: int) -> np.ndarray:
        each = np.exp(draws.uniform(np.log(low), np.log(high), (*shape, forms)))
        return np.asarray(each * (draws.random((*shape, forms)) > 0.2))

    fed, fed_for = drawn(0.01, 1.0, 2), drawn(0.02, 3.0, 2) + 1e-3
    return Prices(fed, fed_for, drawn(0.005, 1.5), drawn(0.005, 1.0), drawn(0.02, 3.0) + 1e-3)


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["cluster", "plain", "featured"]),
    st.booleans(),
    st.sampled_from([0, 0, 1, 3, 20]),
)
def test_at_the_time_of_the_fastest_program_no_prices_lack_anything(
    seed: int, kind: str, sums: bool, parts: int
) -> None:
    """Whatever the line, which need not be that of a node; for that number of chunks, and for any."""
    kinds = {"cluster": random_cluster_problem, "plain": random_problem, "featured": random_featured_problem}
    stated = kinds[kind](random.Random(seed), sums)
    assume(np.isfinite(quick_bound(stated).value_us) and (stated.topology.is_serial or not parts))
    try:
        program = program_before(stated, np.inf, 500)
    except TooLarge:
        program = None
    assume(program is not None)
    assert program is not None
    draws, end_us = np.random.default_rng(seed), max(program.makespan_us, 1e-3) * (1 + 1e-7)
    for view in views(Instance(stated)):
        ranks = range(view.problem.num_ranks)
        if view.instance.demand.reduces.any():
            continue
        for inside in (set(some) for many in ranks[1:] for some in combinations(ranks, many)):
            for crossing in view.instance.once(Crossings).of(Cut(frozenset(inside), ""))[-1:]:
                chosen = members(len(ranks), inside)
                setting = Setting(view, chosen, crossing, 1.5 * end_us, Budget.of_work(100_000), parts)
                if not setting.is_fed:
                    continue
                try:
                    served = Worth(setting, end_us).served(some_prices(draws, 12))
                except OutOfSight:
                    continue
                assert served.min() >= setting.need * (1 - 1e-6)
