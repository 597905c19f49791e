"""What tests of lowering ask of a plan: whether it is right, and which operations it has."""

from dataclasses import replace

from taccl.backend.execute import execute_plan
from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.mscclpp import verify_plan


def assert_right(plan: ExecutionPlan) -> None:
    """Verification finds nothing."""
    report = verify_plan(plan)
    assert report.ok, [str(error) for error in report.errors]


def assert_runs_right(plan: ExecutionPlan, seed: int = 1) -> None:
    """Nor does an execution, two calls in a row in an order drawn by the seed."""
    assert_right(plan)
    size = 192 * max(plan.ranks[0].input_chunks, plan.ranks[0].output_chunks)
    assert execute_plan(replace(plan, min_bytes=0), size_bytes=size, calls=2, seed=seed).wrong == 0


def names(plan: ExecutionPlan, rank: int = 0) -> list[list[str]]:
    """The words of a rank's operations, block by block."""
    return [[each.name.value for each in block.operations] for block in plan.ranks[rank].blocks]


def all_names(plan: ExecutionPlan) -> set[str]:
    """The words of all operations."""
    return {word for rank in range(plan.num_ranks) for words in names(plan, rank) for word in words}
