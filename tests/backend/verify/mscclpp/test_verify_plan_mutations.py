"""Damage to right plans, judged by running them: what ever goes wrong must not pass."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plan_examples import PLANS
from plan_mutations import mutate, without
from plan_runs import goes_wrong, outcomes
from plans import ALLGATHER, ALLREDUCE, DATA, PACKETS, RELAY

from taccl.backend.mscclpp.reader import read_plan
from taccl.backend.verify.mscclpp import verify_plan

RUNS = 4
FILES = {name: read_plan(DATA / f"{name}.json") for name in (ALLGATHER, ALLREDUCE, RELAY, PACKETS)}
SMALL = {**FILES, **PLANS}


@pytest.mark.parametrize("name", SMALL)
def test_the_plans_to_damage_run_right(name: str) -> None:
    assert outcomes(SMALL[name], RUNS) == {"right"}


def test_random_runs_show_what_leaving_an_operation_out_does() -> None:
    whole = FILES[ALLGATHER]
    steps = range(len(whole.ranks[0].blocks[0].operations))
    assert all(goes_wrong(without(whole, 0, 0, step), 200) for step in steps)


@given(st.sampled_from(sorted(SMALL)), st.integers(0, 2**32), st.integers(1, 3))
@example("napkin-allgather_2", 3, 1)  # a copy with two sources: the runtime looks at the first
@settings(max_examples=25, deadline=None)
def test_no_damage_that_ever_shows_passes(name: str, seed: int, units: int) -> None:
    done, mutant = mutate(random.Random(seed), SMALL[name])
    if mutant != SMALL[name] and verify_plan(mutant).ok:
        assert not goes_wrong(mutant, RUNS, units=units, seed=seed), done
