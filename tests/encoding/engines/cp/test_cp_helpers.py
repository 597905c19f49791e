"""The scheduling model and ranks without data: hubs that sum, copy, or only pass on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from brute_force import TooLarge, fastest
from hypothesis import HealthCheck, assume, given, settings
from registered import cp, reducing, routes_at_once
from registered import joint as jointly
from small_problems import featured_problems, machine
from studies import examples

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.instance import Instance
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def around(members: int, name: str, *cannot: str) -> Problem:
    """Ranks around a hub, the last rank, which cannot do this; every link takes 1 + 2 us for a chunk."""
    links = [(a, members, 1.0, 2.0) for a in range(members)]
    links += [(members, a, 1.0, 2.0) for a in range(members)]
    is_hub = np.arange(members + 1) == members
    topology = replace(machine(members + 1, links), is_helper=is_hub, **dict.fromkeys(cannot, ~is_hub))
    return Problem(topology, make_collective(name, members).with_helpers(1), 1.0)


def answers(small: Problem, engine=cp, work: int = 4_000) -> tuple[Schedule, float]:
    """The best schedule of an engine and its best bound, from the first schedule on."""
    instance = Instance(small)
    update = next(routes_at_once(small, SearchOptions(), Budget(0.0), None))
    best, bound = update.schedule, 0.0
    run = reducing(engine) if engine is cp else engine
    for each in run(small, SearchOptions(), Budget.of_work(work), best):
        bound = max(bound, each.lower_bound_us)
        if each.schedule is not None:
            each.schedule.check()
            best = min(best, each.schedule, key=lambda schedule: schedule.makespan_us)
    assert instance.features & {"helpers"}
    return best, bound


def test_a_hub_makes_the_sum_of_an_allreduce() -> None:
    """Four chunks go into the hub over each link, one after another, and the last sum goes out: 15 us."""
    best, _ = answers(around(4, "allreduce"), jointly, 1_000)
    assert best.makespan_us == pytest.approx(15.0)
    assert (best.dst[best.reduce] == 4).all()


def test_phases_of_a_sum_at_a_hub_end_at_members() -> None:
    """The first schedule makes its sums at the hub, where no phase can end: it holds no data."""
    best, _ = answers(around(3, "allreduce"), work=1_000)
    assert best.makespan_us == pytest.approx(12.0)


def test_a_hub_that_may_not_sum_is_no_root_and_holds_one_part() -> None:
    """Two ranks: the part of one passes the hub, and the sum comes back."""
    best, _ = answers(around(2, "allreduce", "may_sum"), jointly)
    assert best.makespan_us >= fastest(around(2, "allreduce", "may_sum")).makespan_us - 1e-6


def test_a_hub_that_may_not_copy_passes_on_once() -> None:
    best, bound = answers(around(3, "alltoall", "may_copy"))
    assert bound <= best.makespan_us * (1 + 1e-9)


@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(featured_problems(most_ranks=4, names=("allgather", "broadcast", "gather", "scatter", "reduce")))
def test_what_is_proved_optimal_is_the_optimum_of_an_exhaustive_search(small: Problem) -> None:
    """Copies, and sums for one rank, among members and a helper that perhaps may not sum, or not copy."""
    assume("helpers" in small.features)
    may_copy = small.topology.may_copy
    assume(may_copy is None or may_copy.all() or not small.collective.is_reduction)
    update = next(routes_at_once(small, SearchOptions(), Budget(0.0), None), None)
    assume(update is not None)
    try:
        optimum = fastest(small, 1_000).makespan_us
    except TooLarge:
        return
    best, bound = answers(small, work=1_500)
    assert best.makespan_us >= optimum - 1e-6
    assert bound <= optimum * (1 + 1e-9) + 1e-6
    if bound >= best.makespan_us * (1 - 1e-9):
        assert best.makespan_us == pytest.approx(optimum, abs=1e-6)
