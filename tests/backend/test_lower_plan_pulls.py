"""Messages that are pulled: sums read what they add where others have it."""

from collections.abc import Callable

import pytest

from taccl.backend.lower_plan import lower_to_plan
from taccl.backend.lower_plan.places import aliases
from taccl.backend.lower_plan.pulls import find_pulls
from taccl.backend.lower_plan.steps import read_steps
from taccl.backend.plan import ExecutionPlan
from taccl.backend.program import Program
from taccl.backend.target import LoweringOptions
from taccl.backend.verify_plan import verify_plan
from taccl.schedule import Schedule
from tests.backend.lowered_plans import assert_runs_right, names
from tests.backend.plan_mutations import without
from tests.backend.programs import block, program, step
from tests.backend.small_schedules import direct_reducescatter, on_nodes, ring_allreduce


def pulled(schedule: Schedule, instances: int = 1) -> ExecutionPlan:
    return lower_to_plan(schedule, LoweringOptions(instances=instances), pulls=True)


def pulls_of(made: Program) -> dict[int, int]:
    return find_pulls(read_steps(made, {}), aliases(made.collective, 2, 1, False), (0, 0))


@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("schedule", [ring_allreduce, direct_reducescatter])
def test_plans_that_pull_are_right(schedule: Callable[[int], Schedule], ranks: int, instances: int) -> None:
    plan = pulled(schedule(ranks), instances)
    assert_runs_right(plan, ranks)


def test_what_is_pulled_is_read_added_and_sent_on_in_one_pass_and_takes_no_scratch() -> None:
    plan = pulled(ring_allreduce(2))
    assert names(plan) == [["signal", "wait", "nop", "rres", "nop", "signal", "wait"]]
    assert [rank.scratch_chunks for rank in plan.ranks] == [0, 0]


def test_whose_part_was_read_is_told_before_its_kernel_may_end() -> None:
    plan = pulled(direct_reducescatter(2))
    assert names(plan) == [["signal", "wait", "nop", "rre", "nop", "signal", "wait"]]
    for at in range(7):
        assert not verify_plan(without(plan, 0, 0, at)).ok, at


def test_between_nodes_nothing_is_pulled() -> None:
    plan = pulled(on_nodes(direct_reducescatter(2), 0, 1))
    assert not {"rre", "rres"} & {word for words in names(plan) for word in words}


def two_ranks(*after: object, read_again: bool = False) -> Program:
    """Rank 0 sends what rank 1 adds; `after` are its steps behind that."""
    again = [step("cpy", "s0", "o1")] if read_again else []
    return program(
        "allreduce",
        2,
        (block(0, 1, -1, step("s", "s0"), *after),),
        (block(0, -1, 0, step("r", "s0"), step("re", "s0", "o0"), *again),),
        scratch=2,
    )


def test_what_the_sender_writes_again_or_the_receiver_reads_again_is_not_pulled() -> None:
    assert len(pulls_of(two_ranks())) == 1
    assert not pulls_of(two_ranks(step("cpy", "i0", "s0")))
    assert not pulls_of(two_ranks(read_again=True))
