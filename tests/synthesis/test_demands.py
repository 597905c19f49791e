"""From a file or a table of sizes to a schedule: sizes, moments and several collectives at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import taccl
from taccl.errors import CollectiveError, FileError, TacclError
from taccl.model import units

LATE = """
collective: late
ranks: 4
chunks:
  - {from: 0, to: all, size: 4MB}
  - {from: 1, to: [0, 2], size: 1MB, ready: {1: 30}}
  - {sum: all, to: 0, size: 2MB, tail: 20us}
"""
STEP = """
collective: step
ranks: 4
parts:
  - {collective: allreduce, members: [0, 1], size: 2MB, chunks: 2}
  - {collective: alltoall, size: 4MB, ready: 50}
"""


def written(tmp_path: Path, text: str, name: str = "mine.yaml") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_chunks_of_a_file_have_their_sizes_and_moments(tmp_path: Path) -> None:
    stated = taccl.make_problem(written(tmp_path, LATE), topology="ring:4").problem
    assert stated.size_mb.tolist() == [4, 1, 2]
    assert stated.ready_at == {(1, 1): 30}
    assert stated.tail_at == {(2, 0): 20}


def test_a_size_of_a_request_is_shared_out_by_relative_sizes(tmp_path: Path) -> None:
    text = "collective: x\nranks: 2\nchunks: [{from: 0, to: 1, size: 3}, {from: 0, to: 1}]\n"
    stated = taccl.make_problem(written(tmp_path, text), topology="ring:2", size="4MB").problem
    assert stated.size_mb.tolist() == [3, 1]
    assert stated.size_bytes == 4 * 2**20


@pytest.mark.parametrize("text", [LATE, STEP])
def test_whatever_a_file_wants_is_scheduled_next_to_a_bound(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    result = taccl.synthesize(path, topology="ring:4", chunks=1, effort=50, file=False)
    result.schedule.check()
    assert 0 < result.lower_bound_us <= result.time_us


def test_several_collectives_share_the_links(tmp_path: Path) -> None:
    stated = taccl.make_problem(written(tmp_path, STEP), topology="ring:4").problem
    assert stated.num_chunks == 4 + 16
    assert stated.collective.reduces.sum() == 4
    assert stated.size_mb.tolist() == [0.5] * 4 + [1.0] * 16


@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_an_alltoall_of_unequal_parts_comes_from_a_table(tmp_path: Path, suffix: str) -> None:
    table = np.array([[0, 2**20, 0], [2**19, 0, 2**20], [0, 2**18, 0]])
    path = tmp_path / f"sizes.{suffix}"
    if suffix == "npy":
        np.save(path, table)
    else:
        path.write_text("# bytes\n0,1MB,0\n512KB,0,1MB\n0,256KB,\n")
    result = taccl.synthesize("alltoall", topology="full:3", sizes=path, chunks=1, effort=50, file=False)
    result.schedule.check()
    assert result.collective.name == "alltoallv"
    assert result.problem.size_mb.tolist() == [1, 0.5, 1, 0.25]
    assert 0 < result.lower_bound_us <= result.time_us


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,1\n2\n", "this row has 1 sizes"),
        ("0,one\n1,0\n", "is not a size"),
        ("0,9999999999999999999999\n1,0\n", "column 1: a size must be at most"),
        ("0,1,2\n1,0,2\n1,1,0\n", "are not 2 x 2"),
        ("", "it has no sizes"),
    ],
)
def test_a_table_that_is_none_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text, "sizes.csv")
    with pytest.raises(CollectiveError, match=message) as caught:
        taccl.make_problem("alltoall", topology="ring:2", sizes=path)
    assert str(caught.value.path).endswith("sizes.csv")


def test_bytes_that_are_no_array_are_refused_without_advice_on_pickles(tmp_path: Path) -> None:
    path = tmp_path / "sizes.npy"
    path.write_bytes(b"\x80 no array")
    with pytest.raises(FileError, match="it is no array of numbers of NumPy") as caught:
        taccl.make_problem("alltoall", topology="ring:2", sizes=path)
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize(
    ("chunk", "message"),
    [
        ("{from: 0, to: 1, size: 0}", "must be positive"),
        ("{from: 0, to: 1, size: large}", "is not a size"),
        ("{from: 0, to: 1, ready: -1}", "must be 0 or more"),
        ("{from: 0, to: 1, ready: soon}", "is not a time"),
        ("{from: 0, to: 1, tail: {2: 1}}", "rank 2 of .* is not in"),
        ("{from: 0, to: 1, size: 1MB}\n  - {from: 1, to: 2}", "must say its size in bytes"),
    ],
)
def test_sizes_and_moments_that_cannot_be_are_refused_with_their_line(
    tmp_path: Path, chunk: str, message: str
) -> None:
    path = written(tmp_path, f"collective: x\nranks: 3\nchunks:\n  - {chunk}\n")
    with pytest.raises(CollectiveError, match=message) as caught:
        taccl.make_problem(path, topology="ring:3", size="3MB")
    assert caught.value.line in (4, 5)


def test_sizes_are_for_an_alltoall_and_in_place_of_a_size(tmp_path: Path) -> None:
    table = np.ones((2, 2), dtype=np.int64)
    with pytest.raises(CollectiveError, match="in an alltoall"):
        taccl.make_problem("allgather", topology="ring:2", sizes=table)
    with pytest.raises(TacclError, match="size is of no use"):
        taccl.make_problem("alltoall", topology="ring:2", sizes=table, size="1MB")
    with pytest.raises(CollectiveError, match="says itself how large"):
        taccl.make_problem(written(tmp_path, LATE), topology="ring:4", size="1MB")


def test_sizes_stay_where_the_number_of_chunks_is_open() -> None:
    table = np.array([[0, 640, 64], [64, 0, 64], [1280, 64, 0]])
    result = taccl.synthesize("alltoall", topology="ring:3", sizes=table, file=False, effort=100)
    problem = result.schedule.problem
    assert problem.collective.name == "alltoallv"
    assert problem.sizes is not None
    assert problem.size_mb.sum() * units.MB == pytest.approx(table.sum())


def test_a_runtime_whose_chunks_are_equal_refuses_with_the_reason() -> None:
    table = np.array([[0, 32], [64, 0]])
    with pytest.raises(TacclError, match="chunks are all of one size"):
        taccl.synthesize("alltoall", topology="ring:2", sizes=table, chunks=1, effort=20)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, -1], [1, 0]], "the size from rank 0 to rank 1 is -1 bytes"),
        ([[0, 0], [0, 0]], "all sizes are 0"),
        ([[0.5, 1], [1, 0]], "a square table of whole numbers, not float64"),
        ([["a", "b"], ["c", "d"]], "a square table of whole numbers"),
    ],
)
def test_an_array_that_is_refused_is_named_with_its_file(
    tmp_path: Path, table: list[object], message: str
) -> None:
    path = tmp_path / "sizes.npy"
    np.save(path, np.array(table))
    with pytest.raises(CollectiveError, match=message) as caught:
        taccl.make_problem("alltoall", topology="ring:2", sizes=path)
    assert caught.value.path == str(path)
