from pathlib import Path

import numpy as np
import pytest

from taccl.errors import CollectiveError, FileError
from taccl.model.collective import Collective
from taccl.model.collectives import allgather, reduce
from taccl.synthesis.collective_file import is_collective_file, load_collective


def load(tmp_path: Path, text: str, ranks: int = 3, pieces: int = 1) -> Collective:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return load_collective(path, ranks, pieces)


def same_placement(one: Collective, other: Collective) -> bool:
    size = (one.num_chunks, one.num_ranks)
    return all(
        np.array_equal(getattr(one, which).offsets(*size), getattr(other, which).offsets(*size))
        for which in ("inputs", "outputs")
    )


ALLGATHER = """
collective: my-allgather
ranks: 3
chunks:
  - {from: 0, to: all}
  - {from: 1, to: all}
  - {from: 2, to: [0, 1, 2]}
"""


@pytest.mark.parametrize("pieces", [1, 2])
def test_an_allgather_written_out_is_the_allgather(tmp_path: Path, pieces: int) -> None:
    mine = load(tmp_path, ALLGATHER, pieces=pieces)
    assert same_placement(mine, allgather(3, pieces))
    assert mine.chunks_per_size == 3 * pieces
    assert np.array_equal(mine.owner, np.repeat([0, 1, 2], pieces))
    assert not mine.is_reduction


def test_a_sum_written_out_is_the_reduce(tmp_path: Path) -> None:
    mine = load(tmp_path, "collective: s\nranks: 3\nchunks:\n  - {sum: all, to: 1}\n")
    assert same_placement(mine, reduce(3, root=1))
    assert mine.reduces.all()
    assert list(mine.owner) == [1]


def test_offsets_are_as_given_and_the_rest_fill_the_lowest_free_ones(tmp_path: Path) -> None:
    mine = load(
        tmp_path,
        "collective: o\nranks: 3\nchunks: [{from: 0, to: 2}, {from: {1: 5}, to: {2: 0}}, {from: 0, to: 2}]\n",
    )
    assert list(mine.inputs.offset) == [0, 5, 1]
    assert list(mine.outputs.offset) == [1, 0, 2]
    assert mine.chunks_per_size == 6


def test_what_size_stands_for_can_be_said(tmp_path: Path) -> None:
    mine = load(tmp_path, ALLGATHER + "chunks_in_size: 1\n", pieces=4)
    assert mine.chunks_per_size == 4


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("collective: x\nranks: 3\n", 1, "lacks the key 'chunks'"),
        ("collective: x\nrank: 3\nchunks: []\n", 2, "unknown key 'rank'"),
        ("collective: all-gather\nranks: 3\nchunks: []\n", 1, "standard collective's name"),
        ("collective: x\nranks: 4\nchunks: []\n", 2, "is for 4 ranks, and the topology has 3"),
        ("collective: x\nranks: 3\nchunks: []\n", 3, "at least one chunk"),
        ("collective: x\nranks: 3\nchunks:\n  - {from: 3, to: 0}\n", 4, "must be 2 or less, not 3"),
        ("collective: x\nranks: 3\nchunks:\n  - {from: one, to: 0}\n", 4, "must be all, not 'one'"),
        ("collective: x\nranks: 3\nchunks:\n  - {from: 0}\n", 4, "lacks the key 'to'"),
        ("collective: x\nranks: 3\nchunks:\n  - {to: 0}\n", 4, "either 'from' or 'sum'"),
        ("collective: x\nranks: 3\nchunks:\n  - {from: 0, sum: 0, to: 0}\n", 4, "either 'from' or 'sum'"),
        ("collective: x\nranks: 3\nchunks:\n  - {from: [], to: 0}\n", 4, "names no rank"),
        ("collective: x\nranks: 3\nchunks:\n  - {from: [1, 1], to: 0}\n", 4, "named twice"),
        (
            "collective: x\nranks: 3\nchunks:\n  - {from: 0, to: {1: 2}}\n  - {from: 2, to: {1: 2}}\n",
            5,
            "chunks 0 and 1 are both at offset 2 of rank 1's output buffer",
        ),
        ("", 1, "empty"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(CollectiveError, match=message) as caught:
        load(tmp_path, text)
    assert caught.value.line == line
    assert str(caught.value.path).endswith("mine.yaml")


def test_a_file_that_is_not_there_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        load_collective(tmp_path / "missing.yaml", 3)


@pytest.mark.parametrize(("name", "expected"), [("allgather", False), ("x.yaml", True), ("./x", True)])
def test_a_file_is_told_from_a_name_by_its_spelling(name: str, expected: bool) -> None:
    assert is_collective_file(name) is expected
    assert is_collective_file(Path(name))
