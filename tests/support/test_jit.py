"""Loops over columns: as they stand where rows are few, as machine code where they are many."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numba import config, njit

from taccl.support.jit import Loop, compiled, flat, is_at_hand


def _add_up(numbers: Sequence[int], table: np.ndarray) -> list[int]:
    sums = [0] * len(numbers)
    for row in range(len(numbers)):
        sums[row] = numbers[row] + _before(sums, row)
        table[row, 0] = sums[row]
    return sums


def _before(sums: Sequence[int], row: int) -> int:
    return sums[row - 1] if row else 0


@pytest.mark.parametrize("rows", [3, 10**6])
def test_both_ways_make_the_same(rows: int) -> None:
    table = np.zeros((3, 1), dtype=np.int64)
    assert list(Loop(_add_up, (_before,))(rows, numbers=np.array([1, 2, 3]), table=table)) == [1, 3, 6]
    assert table[:, 0].tolist() == [1, 3, 6]


def test_few_rows_are_not_compiled() -> None:
    def unknown_to_numba(numbers: Sequence[int]) -> str:
        return f"{sorted(set(numbers), key=str)}"

    assert Loop(unknown_to_numba)(3, numbers=np.array([2, 10, 2])) == "[10, 2]"


def test_an_eager_loop_is_machine_code_for_few_rows_where_that_is_there() -> None:
    def kind(numbers: Sequence[int]) -> bool:
        return isinstance(numbers, list)  # as it stands; machine code gets an array

    eager = Loop(kind, eager=True)
    lazy = Loop(kind)
    few = np.array([1, 2])
    assert eager(2, numbers=few)
    assert not eager(10**6, numbers=few)
    assert not eager(2, numbers=few)
    assert eager.is_compiled
    lazy(10**6, numbers=few)
    assert lazy(2, numbers=few)


def test_machine_code_of_an_older_version_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its index names the class of an argument that a newer version has no more."""
    (tmp_path / "older.py").write_text(
        "from typing import Any, NamedTuple\n"
        "class Column(NamedTuple):\n    numbers: Any\n"
        "def first(column):\n    return column.numbers[0]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    older = importlib.import_module("older")
    numbers = np.array([4, 5])
    assert compiled(older.first)(older.Column(numbers)) == 4
    older.Renamed = older.Column
    del older.Column
    older.Renamed.__name__ = older.Renamed.__qualname__ = "Renamed"
    with pytest.raises(AttributeError, match="Column"):
        njit(cache=True)(older.first)(older.Renamed(numbers))
    assert compiled(older.first)(older.Renamed(numbers)) == 4


def test_machine_code_of_a_source_that_was_changed_is_not_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "edited.py"
    source.write_text("def first(numbers):\n    return numbers[0]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    edited = importlib.import_module("edited")
    assert compiled(edited.first)(np.array([4, 5])) == 4
    assert is_at_hand(compiled(edited.first))
    source.write_text("def first(numbers):\n    return numbers[0] + 0\n")
    assert not is_at_hand(compiled(importlib.reload(edited).first))


def test_rows_of_several_numbers_as_columns() -> None:
    starts, numbers = flat([(4, 5), (), (6,)])
    assert starts.tolist() == [0, 2, 2, 3]
    assert numbers.tolist() == [4, 5, 6]


def test_no_rows_as_columns() -> None:
    starts, numbers = flat([])
    assert starts.tolist() == [0]
    assert numbers.tolist() == []


def test_where_numba_is_told_to_compile_nothing_loops_run_as_they_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(config, "DISABLE_JIT", True)
    loop = Loop(lambda values: values.sum(), eager=True)
    assert not loop.is_compiled
    assert loop(10**6, values=np.arange(3)) == 3
