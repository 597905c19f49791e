"""Progress on standard error: one live table on a terminal, a line for each improvement elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import click
from rich.console import Console, RenderableType
from rich.live import Live
from rich.table import Table

from taccl.synthesis.search import Progress

Report = Callable[[Progress], None]


@contextmanager
def progress_reports(*, quiet: bool, verbose: bool) -> Iterator[Report | None]:
    """Something to give to `synthesize` as `on_progress`; it stops showing when the context ends.

    A search goes on where nobody can be informed: standard error may be closed or full.
    """
    if quiet:
        yield None
    elif has_terminal() and not verbose:
        table = LiveTable()
        with shown_live(table.render):
            yield table.report
    else:
        yield _say_everything if verbose else _say_improvement


def has_terminal() -> bool:
    """Whether standard error is one."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def shown_live(render: Callable[[], RenderableType]) -> Iterator[None]:
    """Show a table on standard error again and again, and take it away when the context ends."""
    live = Live(console=Console(stderr=True), get_renderable=render, transient=True)
    with suppress(OSError):
        live.start()
    try:
        yield
    finally:
        with suppress(OSError):
            live.stop()


def _say_improvement(progress: Progress) -> None:
    if progress.improved:
        _say_everything(progress)


def _say_everything(progress: Progress) -> None:
    elapsed, stage, *figures = _cells(progress)
    named = (f"{name} {figure}" for name, figure in zip(("time", "bound", "gap"), figures, strict=True))
    with suppress(OSError):
        click.echo(f"{elapsed:>8}  {stage:<24}  {'  '.join(named)}", err=True)


def _cells(progress: Progress) -> tuple[str, str, str, str, str]:
    time_us, bound_us = progress.time_us, progress.lower_bound_us
    gap = progress.gap if bound_us else None
    return (
        f"{progress.elapsed_s:.1f} s",
        progress.stage,
        "-" if time_us is None else f"{time_us:.2f} us",
        f"{bound_us:.2f} us" if bound_us else "-",
        "-" if gap is None else f"{100 * gap:.2f}%",
    )


class LiveTable:
    """The latest news as a table of one row whose clock goes on between news."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._latest: Progress | None = None

    def report(self, progress: Progress) -> None:
        self._latest = progress

    def render(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for name in ("elapsed", "stage", "incumbent", "lower bound", "gap"):
            table.add_column(name, justify="left" if name == "stage" else "right", header_style="dim")
        elapsed = f"{time.monotonic() - self._began:.1f} s"
        cells = ("", "starting", "-", "-", "-") if self._latest is None else _cells(self._latest)
        table.add_row(elapsed, *cells[1:])
        return table
