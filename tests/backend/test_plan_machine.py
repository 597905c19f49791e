"""The machine that judges mutants: right plans run right, and what is taken out of them shows."""

from dataclasses import replace

import pytest
from plan_examples import PLANS
from plan_layout import CannotRun
from plan_machine import Machine, run_many
from plan_mutations import without
from plans import ALLGATHER, DATA

from taccl.backend.mscclpp.reader import read_plan
from taccl.backend.plan import ExecutionPlan

#: As it stands: compiling it takes longer than some runs.
RUN = run_many.py_func


def outcome(plan: ExecutionPlan, runs: int, units: int = 1) -> str:
    return Machine.of(plan, units).runs(runs, 1, RUN)[0]


@pytest.mark.parametrize("name", ["shared allgather", "pipelined relay", "packet ports", "port ring"])
def test_right_plans_run_right(name: str) -> None:
    assert outcome(PLANS[name], 3) == "right"


@pytest.mark.parametrize("step", range(8))
def test_no_operation_of_an_allgather_can_be_left_out(step: int) -> None:
    assert outcome(without(read_plan(DATA / f"{ALLGATHER}.json"), 0, 0, step), 100, 2) != "right"


def test_what_reaches_out_of_memory_is_no_run() -> None:
    whole = PLANS["packet ports"]
    fewer = tuple(replace(each, scratch_chunks=1) for each in whole.ranks)
    with pytest.raises(CannotRun, match="memory"):
        Machine.of(replace(whole, ranks=fewer), 1)
