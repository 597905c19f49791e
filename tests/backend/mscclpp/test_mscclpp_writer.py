"""A plan is written as text that says the same, the same text each time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from plans import ALLREDUCE, DATA, EVERY_PLAN, drawn_plans

from taccl.backend.mscclpp import parse_plan, read_plan, to_json
from taccl.backend.plan import ExecutionPlan, OpName
from taccl.errors import PlanError


@settings(max_examples=15, deadline=None)
@given(plan=drawn_plans)
def test_what_is_written_is_read_as_the_same_plan(plan: ExecutionPlan) -> None:
    text = to_json(plan)
    assert text.isascii() and text.endswith("}\n")
    assert parse_plan(text) == plan
    assert to_json(parse_plan(text)) == text


@pytest.mark.parametrize("path", EVERY_PLAN, ids=lambda path: path.stem)
def test_a_real_plan_is_written_with_all_that_its_file_says(path: Path) -> None:
    assert json.loads(to_json(read_plan(path))) == json.loads(path.read_text())


def test_each_operation_has_a_line() -> None:
    plan = read_plan(DATA / f"{ALLREDUCE}.json")
    lines = [line.strip() for line in to_json(plan).splitlines()]
    operations = [each for rank in plan.ranks for block in rank.blocks for each in block.operations]
    assert sum(line.startswith('{"name": ') for line in lines) == 1 + len(operations)
    assert lines.count('{"name": "nop"},') == sum(each.name is OpName.NOP for each in operations)


@pytest.mark.parametrize("field", ["name", "collective", "protocol"])
def test_what_is_no_text_is_not_written(field: str) -> None:
    plan = read_plan(DATA / f"{ALLREDUCE}.json")
    with pytest.raises(PlanError, match="surrogate"):
        to_json(replace(plan, **{field: "a\udc00"}))
