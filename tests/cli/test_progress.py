import re
import sys
from io import StringIO

import pytest
from rich.console import Console

from taccl.cli.progress import LiveTable, progress_reports
from taccl.synthesis.search import Progress


def progress(time_us: float | None, bound_us: float, *, improved: bool) -> Progress:
    return Progress("greedy", 1.25, time_us, bound_us, "latency", improved)


def test_elsewhere_than_on_a_terminal_each_improvement_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_reports(quiet=False, verbose=False) as report:
        assert report is not None
        report(progress(None, 50.0, improved=False))
        report(progress(100.0, 50.0, improved=True))
        report(progress(100.0, 80.0, improved=False))
    out, err = capsys.readouterr()
    assert out == ""
    assert re.sub(" +", " ", err) == " 1.2 s greedy time 100.00 us bound 50.00 us gap 50.00%\n"


def test_before_there_is_a_bound_no_gap_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_reports(quiet=False, verbose=False) as report:
        assert report is not None
        report(progress(100.0, 0.0, improved=True))
    assert capsys.readouterr().err.split()[-4:] == ["bound", "-", "gap", "-"]


def test_quiet_asks_for_no_reports() -> None:
    with progress_reports(quiet=True, verbose=True) as report:
        assert report is None


def test_a_table_shows_where_the_search_stands() -> None:
    table = LiveTable()
    table.report(progress(100.0, 50.0, improved=True))
    shown = StringIO()
    Console(file=shown, width=100).print(table.render())
    header, row = shown.getvalue().splitlines()
    assert header.split() == ["elapsed", "stage", "incumbent", "lower", "bound", "gap"]
    assert row.split()[2:] == ["greedy", "100.00", "us", "50.00", "us", "50.00%"]


def test_on_a_terminal_the_table_goes_to_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_reports(quiet=False, verbose=False) as report:
        assert report is not None
        report(progress(100.0, 50.0, improved=True))
    assert "incumbent" in terminal.getvalue()
