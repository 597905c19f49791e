"""What `explore` shows while it searches: lines where there is no terminal, else a table by sizes."""

import io
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from taccl import explore
from taccl.cli.explore_progress import SearchTable, search_reports


def _shown(table: SearchTable) -> str:
    text = io.StringIO()
    Console(file=text, width=120).print(table.render())
    return text.getvalue()


def test_the_table_has_time_and_bound_of_each_size_and_question() -> None:
    table = SearchTable()
    assert "bounds, and what libraries have" in _shown(table)
    found = explore(
        *("allgather,alltoall",),
        topology="ring:3",
        sizes="3KB,48KB",
        effort=400,
        cache=False,
        on_search=table.report,
    )
    title, names, where, header, *rows = _shown(table).splitlines()
    assert f"search {len(found.cells)}: " in title
    assert names.split() == ["allgather", "alltoall"]
    assert where.split() == ["on", "ring:3"] * 2
    assert header.split() == ["size", *("time", "/", "bound", "(us)") * 2]
    assert [row.split()[0] for row in rows] == ["3KB", "48KB"]
    best = found.best[0]
    assert rows[0].split()[1:4] == [f"{best['time_us']:.2f}", "/", f"{best['lower_bound_us']:.2f}"]


def test_four_questions_fit_into_80_columns() -> None:
    table = SearchTable()
    row = {"topology": "dgx-h100 x2", "size_bytes": 2**30, "time_us": 123456.78, "lower_bound_us": 111111.11}
    four = ("allgather", "reducescatter", "allreduce", "alltoall")
    found = SimpleNamespace(best=[{**row, "collective": each} for each in four], cells=())
    table.report(
        SimpleNamespace(question=SimpleNamespace(name="-"), size_bytes=1, answer=None, failure=""), found
    )
    text = io.StringIO()
    Console(file=text, width=80).print(table.render())
    assert text.getvalue().splitlines()[-1].split() == ["1GB", *("123457", "/", "111111") * 4]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_without_a_terminal_there_are_lines(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    with search_reports(quiet=False) as listen:
        explore("allgather", topology="ring:4", sizes="3KB", effort=300, cache=False, on_search=listen)
    said = capsys.readouterr().err
    assert said.startswith("  1  allgather on ring:4, 3KB: ") != is_terminal
    with search_reports(quiet=True) as listen:
        assert listen is None


def test_what_interrupts_the_search_ends_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(KeyboardInterrupt), search_reports(quiet=False):
        raise KeyboardInterrupt
