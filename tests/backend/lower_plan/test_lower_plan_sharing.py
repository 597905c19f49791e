"""Instances of a plan: thread blocks that share every range of what one would do alone."""

from dataclasses import replace

import pytest

from taccl.backend.lower_plan import lower_to_plan
from taccl.backend.lower_plan.fits import check_plan_fits
from taccl.backend.lower_plan.sharing import cuts_equally, share_out
from taccl.backend.plan import ExecutionPlan, Share
from taccl.backend.target import LoweringOptions
from taccl.backend.verify.mscclpp import verify_plan
from taccl.errors import ProgramLimitError, UnitError
from taccl.model.schedule import Schedule
from tests.backend.lowered_plans import assert_runs_right
from tests.backend.small_schedules import on_nodes, relayed_alltoall, ring_allgather, ring_allreduce


def lowered(schedule: Schedule, **changes: object) -> ExecutionPlan:
    return lower_to_plan(schedule, replace(LoweringOptions(), **changes))


@pytest.mark.parametrize("protocol", ["Simple", "LL"])
@pytest.mark.parametrize("node_of", [(0, 0, 0), (0, 0, 1)])
def test_instances_are_thread_blocks_with_a_part_of_each_range(
    protocol: str, node_of: tuple[int, ...]
) -> None:
    schedule = on_nodes(ring_allreduce(3), *node_of)
    alone, shared = (lowered(schedule, protocol=protocol, instances=n) for n in (1, 3))
    assert_runs_right(shared)
    for one, three in zip(alone.ranks, shared.ranks, strict=True):
        assert len(three.blocks) == 3 * len(one.blocks)
        assert (three.input_chunks, three.scratch_chunks) == (one.input_chunks, one.scratch_chunks)
        assert len(three.semaphores) == 3 * len(one.semaphores)
        for block in three.blocks:
            shares = {each.share for each in block.operations if each.sources}
            assert shares == {Share(block.id % 3, 3)}


def test_where_ranges_overlap_in_part_each_instance_has_its_part_of_each_chunk() -> None:
    schedule = on_nodes(relayed_alltoall(True), 0, 0, 1, 1)
    alone, shared = (lowered(schedule, instances=n) for n in (1, 2))
    assert not cuts_equally(alone)
    assert shared.ranks[0].input_chunks == 2 * alone.ranks[0].input_chunks
    assert verify_plan(shared).ok
    assert not verify_plan(share_out(alone, 2)).ok


def test_parts_have_whole_units() -> None:
    schedule = ring_allgather(2)
    assert lowered(schedule, instances=3, min_bytes=32).min_bytes == 2 * 16 * 3
    tiny = replace(schedule, problem=replace(schedule.problem, chunk_mb=32 / 2**20))
    with pytest.raises(UnitError, match="3 thread blocks share each of 2 chunks") as caught:
        lowered(tiny, instances=3)
    assert "--instances 2" in str(caught.value.hint)


def test_what_does_not_fit_is_refused_with_what_would() -> None:
    with pytest.raises(ProgramLimitError, match="with 304 instances it would fit") as caught:
        lowered(ring_allgather(2), instances=400)
    assert "400 thread blocks; the limit is 304" in caught.value.findings[0]
    plan = lowered(ring_allgather(2), instances=9)
    with pytest.raises(ProgramLimitError, match="too large for MSCCL") as caught:
        check_plan_fits(plan, most_operations=100)
    assert (caught.value.hint, "to be verified" in caught.value.findings[0]) == (
        "a schedule of fewer transfers, or --no-file for the schedule alone",
        True,
    )
