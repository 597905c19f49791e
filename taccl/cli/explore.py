"""`taccl explore`: the fastest algorithm at each size of a range, next to bounds and what libraries run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from taccl.cli import completion
from taccl.cli.options import FILE, json_option, without_option
from taccl.cli.output import claim_outputs, output_name, show_json, show_table, write_output
from taccl.cli.sections import Sectioned
from taccl.cli.signals import undisturbed
from taccl.cli.targets import protocol_option, target_option
from taccl.exploration.explore import explore as explore_machine
from taccl.exploration.explored import Cell, Explored
from taccl.model import units


@click.command(cls=Sectioned)
@click.option(
    "--topology",
    multiple=True,
    required=True,
    shell_complete=completion.machines,
    metavar="NAME|FILE",
    help="A machine of the catalogue or a YAML file; may be repeated.",
)
@click.option("--nodes", type=int, help="Number of nodes. Default: the topology's.")
@click.option(
    "--sketch",
    multiple=True,
    shell_complete=completion.sketches,
    metavar="NAME|FILE",
    help="A sketch to keep to; of several the fastest counts. Without one, all links may be used.",
)
@click.option(
    "--collective",
    default="allgather",
    show_default=True,
    shell_complete=completion.collectives,
    metavar="NAME,...",
    help="One or several, with commas between them.",
)
@click.option(
    "--sizes",
    default="1KB..1GB",
    show_default=True,
    metavar="FROM..TO|SIZE,...",
    help="A range that doubles from its first size on, or a list.",
)
@click.option("--root", type=int, help="Root of broadcast, reduce, gather and scatter.  [default: 0]")
@without_option
@click.option(
    "--executor/--no-executor",
    default=None,
    help="Whether what executing costs counts, as in `synthesize`.",
)
@target_option(
    "What files are for; every algorithm has one then. Default: none, schedules alone.", default=None
)
@protocol_option
@click.option("--instances", type=click.IntRange(min=1), metavar="N", help="As in `synthesize`.")
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help="For all together.  [default: 15 for each size and collective, at most 900]",
)
@click.option(
    "--effort",
    type=int,
    metavar="N",
    help="Units of work for all together, in place of seconds: the same effort and seed give the same table.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of every random choice.")
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="A Dask scheduler whose workers search as well, such as tcp://10.0.0.1:8786.",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Searches at once."
)
@click.option("--no-cache", is_flag=True, help="Neither keep answers nor use those of earlier runs.")
@click.option("--csv", type=FILE, help="Where to write the table as CSV; - for standard output.")
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def explore(
    topology: tuple[str, ...],
    csv: Path | None,
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
    """
    aside = claim_outputs((csv,), topology, as_json=as_json)
    table = explore_machine(
        topology=topology, cache=not no_cache, on_search=None if quiet else _report, **requested
    )
    with undisturbed():
        if as_json:
            show_json(table.to_dict())
        else:
            _show(table, err=aside)
        if csv is not None:
            write_output(csv, table.to_csv())
            click.echo(f"wrote {output_name(csv)}", err=True)


def _report(cell: Cell, table: Explored) -> None:
    """One search that has ended."""
    what = f"{cell.question.name}, {units.format_size(cell.size_bytes)}"
    if cell.answer is None:
        came = cell.failure
    else:
        took = "known" if cell.is_known else f"{cell.answer.seconds:.1f} s"
        came = f"{cell.answer.saved.schedule.makespan_us:.2f} us, {took}"
    with suppress(OSError):  # the search goes on where nobody can be informed
        click.echo(f"{len(table.cells):3}  {what}: {came}", err=True)


def _show(table: Explored, *, err: bool) -> None:
    shown = table.report().table
    click.echo(shown.title, err=err)
    show_table(list(map(str, shown.header)), [list(row) for row in shown.cells], err=err)
    for note in table.notes:
        click.echo(f"note: {note}", err=err)
    if table.interrupted:
        click.echo("note: it was interrupted; the same command goes on where it was", err=err)
