"""Plans of chunks of unequal sizes, which are counted in their largest common measure."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import taccl
from taccl.backend.execute import execute_plan
from taccl.backend.lower.unequal import EqualChunks, elements_of, in_elements
from taccl.backend.mscclpp.reader import read_plan
from taccl.backend.plan import ExecutionPlan, RankPlan
from taccl.backend.verify.mscclpp import verify_plan
from taccl.errors import CollectiveError, TacclError
from taccl.synthesis.collective_file import load_collective
from taccl.synthesis.result import Result

#: Bytes from each rank (row) to each; rank 2 sends nothing but to itself.
BYTES = np.array([[0, 480, 96], [1440, 0, 48], [0, 0, 96]])


def made(**requested: object) -> Result:
    return taccl.synthesize(
        "alltoall", **{"topology": "ring:3", "sizes": BYTES, "target": "mscclpp", "effort": 30, **requested}
    )


def plan_of(result: Result) -> ExecutionPlan:
    plan = result.files[0].program
    assert isinstance(plan, ExecutionPlan)
    return plan


@pytest.mark.parametrize("requested", [{}, {"protocol": "LL"}, {"chunks": 3}], ids=["auto", "LL", "cut"])
def test_a_plan_of_unequal_parts_is_written_verified_and_run(requested: dict[str, object]) -> None:
    result = made(**requested)
    plan, wanted = plan_of(result), EqualChunks.of(result.schedule.problem).collective
    assert plan.collective == "custom" and not plan.in_place
    assert verify_plan(plan, collective=wanted).ok
    assert execute_plan(plan, collective=wanted, calls=3).wrong == 0


def test_instances_share_unequal_parts() -> None:
    result = made(instances=2, sizes=BYTES * 2, chunks=1)
    wanted = EqualChunks.of(result.schedule.problem).collective
    assert execute_plan(plan_of(result), collective=wanted).wrong == 0


def test_buffers_have_the_size_of_the_largest_in_chunks_of_the_common_measure() -> None:
    plan = plan_of(made(chunks=1))
    assert {(rank.input_chunks, rank.output_chunks) for rank in plan.ranks} == {(31, 31)}
    assert plan.min_bytes <= 31 * 48 <= plan.max_bytes
    assert {size for rank in plan.ranks for size in moved(rank)} == {10, 2, 30, 1}


def moved(rank: RankPlan) -> set[int]:
    return {
        each.size for block in rank.blocks for operation in block.operations for each in operation.targets
    }


def test_the_predicted_time_is_that_of_the_bytes(tmp_path: Path) -> None:
    """What the file is simulated to take is what the search predicts, and no less than the schedule."""
    result = made(chunks=1)
    path, sizes = tmp_path / "plan.json", tmp_path / "sizes.csv"
    path.write_text(result.files[0].text)
    np.savetxt(sizes, BYTES, fmt="%d", delimiter=",")
    (run,) = taccl.simulate_file(path, [31 * 48], topology="ring:3", collective=sizes).sizes
    assert result.execution is not None and run.time_us == pytest.approx(result.execution.time_us)
    assert run.time_us >= result.time_us


def test_a_file_is_checked_against_its_table_of_sizes(tmp_path: Path) -> None:
    path, sizes = tmp_path / "plan.json", tmp_path / "sizes.csv"
    path.write_text(made().files[0].text)
    np.savetxt(sizes, BYTES, fmt="%d", delimiter=",")
    assert verify_plan(read_plan(path), collective=load_collective(sizes)).ok
    np.savetxt(sizes, BYTES.T, fmt="%d", delimiter=",")
    assert not verify_plan(read_plan(path), collective=load_collective(sizes)).ok


@pytest.mark.parametrize("sizes", ["1KB, 3KB", "2, 5"])
def test_a_collective_of_ones_own_has_unequal_chunks(tmp_path: Path, sizes: str) -> None:
    path, (first, second) = tmp_path / "own.yaml", sizes.split(", ")
    path.write_text(
        "collective: own\nranks: 3\nchunks:\n"
        f"  - {{sum: all, to: [0, 2], size: {first}}}\n  - {{from: 1, to: 2, size: {second}}}\n"
    )
    size = {} if "KB" in sizes else {"size": 7 * 1024}
    result = taccl.synthesize(path, topology="ring:3", target="mscclpp", effort=30, chunks=1, **size)
    assert execute_plan(plan_of(result), collective=load_collective(path)).wrong == 0


@pytest.mark.parametrize(
    ("sizes", "requested", "message"),
    [
        (BYTES + BYTES.astype(bool), {}, "the largest that divides all sizes here has 1 bytes"),
        (BYTES * 2**18 + 16 * BYTES.astype(bool), {}, "are more than the"),
        (BYTES, {"in_place": True}, "no plan of unequal chunks is in place"),
    ],
    ids=["bytes", "too many", "in place"],
)
def test_what_no_plan_can_count_is_refused(
    sizes: np.ndarray, requested: dict[str, object], message: str
) -> None:
    with pytest.raises(TacclError, match=message):
        made(sizes=sizes, **requested)


def test_chunks_of_no_whole_bytes_have_no_elements() -> None:
    problem = taccl.make_problem("alltoall", topology="ring:3", sizes=BYTES, chunks=1).problem
    with pytest.raises(CollectiveError, match="no whole number"):
        elements_of(replace(problem, chunk_mb=problem.chunk_mb / 7))


def test_elements_lie_where_their_chunk_lay() -> None:
    problem = taccl.make_problem("alltoall", topology="ring:3", sizes=BYTES, chunks=1).problem
    elements, element_bytes = elements_of(problem)
    cut = in_elements(problem.collective, elements)
    assert element_bytes == 48 and cut.num_chunks == BYTES.sum() // 48
    for rank in range(3):
        assert list(cut.inputs.held(rank)) == sorted(cut.inputs.held(rank))
        assert len(cut.inputs.held(rank)) == BYTES[rank].sum() // 48
