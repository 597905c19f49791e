"""Progress of `explore` and `bundle` on standard error: a live table on a terminal, else lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click
from rich.console import Group
from rich.table import Table
from rich.text import Text

from taccl.analysis.exploration.exploration import Listener
from taccl.analysis.exploration.explored import Cell, Explored
from taccl.cli.progress import has_terminal, shown_live
from taccl.model import units


@contextmanager
def search_reports(*, quiet: bool) -> Iterator[Listener | None]:
    """Something to give to `explore` as `on_search`; it stops showing when the context ends."""
    if quiet:
        yield None
    elif has_terminal():
        table = SearchTable()
        with shown_live(table.render):
            yield table.report
    else:
        yield _say_search


def _say_search(cell: Cell, table: Explored) -> None:
    with suppress(OSError):  # the search goes on where nobody can be informed
        click.echo(f"{len(table.cells):3}  {_line(cell)}", err=True)


def _line(cell: Cell) -> str:
    what = f"{cell.question.name}, {units.format_size(cell.size_bytes)}"
    if cell.answer is None:
        return f"{what}: {cell.failure}"
    took = "known" if cell.is_known else f"{cell.answer.seconds:.1f} s"
    return f"{what}: {cell.answer.saved.schedule.makespan_us:.2f} us, {took}"


class SearchTable:
    """Time and bound of each size so far: a row for each size, a column for each question."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._said = "bounds, and what libraries have"
        self._rows: dict[int, dict[str, dict[str, Any]]] = {}
        self._names: dict[str, None] = {}

    def report(self, cell: Cell, table: Explored) -> None:
        """Take the table after a search that has ended."""
        rows: dict[int, dict[str, dict[str, Any]]] = {}
        for row in table.best:
            name = f"{row['collective']}\non {row['topology']}"
            self._names[name] = None
            rows.setdefault(row["size_bytes"], {})[name] = row
        self._rows = dict(sorted(rows.items()))
        self._said = f"search {len(table.cells)}: {_line(cell)}"

    def render(self) -> Group:
        """What is shown now; the clock goes on between searches."""
        elapsed = f"{time.monotonic() - self._began:.0f} s"
        shown = Table(box=None, pad_edge=False)
        shown.add_column("size", justify="right", header_style="dim")
        for name in self._names:
            header = f"{name}\ntime / bound (us)"
            shown.add_column(header, justify="right", header_style="dim", no_wrap=True)
        for size, by_name in self._rows.items():
            cells = (_cell(by_name.get(name)) for name in self._names)
            shown.add_row(units.format_size(size), *cells)
        return Group(Text(f"{elapsed}  {self._said}"), shown)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None or row["time_us"] is None:
        return "-"
    return f"{_short(row['time_us'])} / {_short(row['lower_bound_us'])}"


def _short(time_us: float) -> str:
    """Few enough digits that four questions fit into the 80 columns of a terminal."""
    return f"{time_us:.{2 if time_us < 100 else 1 if time_us < 1000 else 0}f}"
