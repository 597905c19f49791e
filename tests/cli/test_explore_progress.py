"""What `explore` shows while it searches: lines where there is no terminal, else a table by sizes."""

import io
import sys

import pytest
from rich.console import Console

from taccl import explore
from taccl.cli.explore_progress import SearchTable, search_reports


def _shown(table: SearchTable) -> str:
    text = io.StringIO()
    Console(file=text, width=120).print(table.render())
    return text.getvalue()


def test_the_table_has_time_bound_and_gap_of_each_size_and_question() -> None:
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
    title, names, header, *rows = _shown(table).splitlines()
    assert f"search {len(found.cells)}: " in title
    assert "allgather on ring:3" in names
    assert "alltoall on ring:3" in names
    assert header.split() == ["size", *("time", "(us)", "bound", "(us)", "gap") * 2]
    assert [row.split()[0] for row in rows] == ["3KB", "48KB"]
    best = found.best[0]
    assert rows[0].split()[1:4] == [
        *(f"{best[key]:.2f}" for key in ("time_us", "lower_bound_us")),
        f"{100 * best['gap']:.1f}%",
    ]


@pytest.mark.parametrize("is_terminal", [False, True])
def test_without_a_terminal_there_are_lines(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    with search_reports(quiet=False) as listen:
        explore("allgather", topology="ring:3", sizes="3KB", effort=300, cache=False, on_search=listen)
    said = capsys.readouterr().err
    assert said.startswith("  1  allgather on ring:3, 3KB: ") != is_terminal
    with search_reports(quiet=True) as listen:
        assert listen is None


def test_what_interrupts_the_search_ends_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(KeyboardInterrupt), search_reports(quiet=False):
        raise KeyboardInterrupt
