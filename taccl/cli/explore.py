"""`taccl explore`: the fastest algorithm at each size of a range, next to bounds and what libraries run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from taccl.analysis.exploration.explore import explore as explore_machine
from taccl.analysis.exploration.explored import Explored
from taccl.cli import completion
from taccl.cli.explore_options import explore_options
from taccl.cli.explore_progress import search_reports
from taccl.cli.options import FILE, json_option
from taccl.cli.output import STDOUT, claim_outputs, output_name, show_json, show_table, write_output
from taccl.cli.sections import Sectioned
from taccl.cli.signals import undisturbed
from taccl.cli.targets import target_option
from taccl.deployment.tuners.rules import DIALECTS, Dialect, reader_of
from taccl.deployment.tuners.writer import USE, to_csv


@click.command(cls=Sectioned)
@click.option(
    "--topology",
    multiple=True,
    required=True,
    shell_complete=completion.machines,
    metavar="NAME|FILE",
    help="A machine of the catalogue or a YAML file; may be repeated.",
)
@explore_options
@target_option("What files are for; every algorithm has one then. Default: schedules alone.")
@click.option("--csv", type=FILE, help="Where to write the table as CSV; - for standard output.")
@click.option(
    "--html",
    type=FILE,
    metavar="OUT.html",
    help="Write a page for the browser: curves, link loads, timelines; - for standard output.",
)
@click.option("--svg", type=FILE, metavar="OUT.svg", help="Write algbw against size as SVG (matplotlib).")
@click.option("--png", type=FILE, metavar="OUT.png", help="The same as PNG.")
@click.option(
    "--tuner",
    type=click.Choice(DIALECTS),
    help="Write a tuner file for these sizes: which of its own algorithms NCCL (or NCCLX, RCCL) shall take.",
)
@click.option("-o", "--output", type=FILE, help="Of --tuner.  [default: standard output]", metavar="FILE")
@json_option
def explore(
    topology: tuple[str, ...],
    csv: Path | None,
    html: Path | None,
    svg: Path | None,
    png: Path | None,
    tuner: Dialect | None,
    output: Path | None,
    as_json: bool,
    quiet: bool,
    no_cache: bool,
    **requested: Any,
) -> None:
    """Find the fastest algorithm of each collective at each size, with proven bounds, next to the
    algorithms of today's libraries.

    Each schedule is timed at all sizes, so a search serves many of them. Answers are kept: a run that was
    ended goes on where it was. Ctrl-C keeps the table so far.

    \b
    taccl explore --topology dgx2 --nodes 2 --collective allgather
    taccl explore --topology my-machine.yaml --collective allreduce,alltoall --sizes 64KB..64MB --csv best.csv
    taccl explore --topology dgx-a100 --nodes 2 --collective allreduce --tuner nccl -o nccl_tuner.conf
    """
    if output is not None and tuner is None:
        raise click.UsageError("-o is of --tuner; --csv writes the table")
    place = output or (None if tuner is None else STDOUT)
    aside = claim_outputs((csv, html, svg, png, place), topology, as_json=as_json)
    with search_reports(quiet=quiet) as listen:
        table = explore_machine(topology=topology, cache=not no_cache, on_search=listen, **requested)
    with undisturbed():
        if as_json:
            show_json(table.to_dict())
        else:
            _show(table, err=aside, is_kept=not no_cache)
        _write((csv, table.to_csv), (html, table.to_html))
        _write((svg, partial(table.picture, "svg")), (png, partial(table.picture, "png")))
        if tuner is not None:
            _write((place, partial(_tuner_file, table, tuner)))
            click.echo(f"  {USE[tuner]}", err=True)


def _write(*outputs: tuple[Path | None, Callable[[], str | bytes]]) -> None:
    for path, content in outputs:
        if path is not None:
            write_output(path, content())
            click.echo(f"wrote {output_name(path)}", err=True)


def _tuner_file(table: Explored, dialect: Dialect) -> str:
    from taccl.deployment.tuners.explored import tuning_of_explored

    return to_csv(tuning_of_explored(table, reader_of(dialect)), dialect)


def _show(table: Explored, *, err: bool, is_kept: bool) -> None:
    shown = table.report().table
    click.echo(shown.title, err=err)
    show_table(list(map(str, shown.header)), [list(row) for row in shown.cells], err=err)
    for line in table.front_lines():
        click.echo(line, err=err)
    for note in table.notes:
        click.echo(f"note: {note}", err=err)
    if table.interrupted:
        goes_on = "; the same command goes on where it was" if is_kept else ""
        click.echo(f"note: it was interrupted{goes_on}", err=err)
