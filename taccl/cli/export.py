"""`taccl export`: a file for simulators of others."""

from __future__ import annotations

from pathlib import Path

import click

from taccl.analysis.exported import FORMATS
from taccl.analysis.exported import export as exported
from taccl.cli.options import FILE
from taccl.cli.output import STDOUT, claim_outputs, output_name, write_output
from taccl.cli.sections import Sectioned
from taccl.model import units


@click.command(cls=Sectioned)
@click.argument("file", type=FILE)
@click.option("--format", "name", type=click.Choice(list(FORMATS)), default="goal", show_default=True)
@click.option("--size", help="Of the call, as nccl-tests counts. Default: of the schedule or the file.")
@click.option(
    "--sum-cost",
    "sum_us_per_mb",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="US",
    help="What adding a MB takes.",
)
@click.option(
    "-o", "--output", type=FILE, required=True, metavar="FILE", help="- for standard output, of goal."
)
def export(file: Path, name: str, size: str | None, sum_us_per_mb: float, output: Path) -> None:
    """Write the sends, receives and sums of FILE for a simulator: a schedule, an MSCCL-XML, a file of
    actions, or rings and trees of a library.

    goal is the text that LogGOPSim and ATLAHS read, after their txt2bin. chakra are execution traces for
    ASTRA-sim, a file for each rank: -o is how their names begin.

    \b
    taccl export schedule.json --format goal -o allreduce.goal
    taccl export allreduce.xml --size 64MB -o allreduce.goal
    """
    aside = claim_outputs((output,), (file,))
    made = exported(file, name, size=size, sum_us_per_mb=sum_us_per_mb)
    if made.files:
        written = _write_each(output, made.files)
    else:
        write_output(output, made.text)
        written = output_name(output)
    size_text = units.format_size(made.size_bytes)
    what = f"{made.collective} of {size_text}, {len(made.trace.ranks)} ranks"
    click.echo(f"wrote {written}: {what}, {made.trace.num_messages} messages", err=aside)
    for note in made.notes:
        click.echo(f"note: {note}", err=aside)


def _write_each(begins: Path, files: tuple[bytes, ...]) -> str:
    """A file for each rank, as ASTRA-sim names them; the first and the last name."""
    if begins == STDOUT:
        raise click.UsageError("chakra has a file for each rank: -o says how their names begin")
    paths = [begins.with_name(f"{begins.name}.{rank}.et") for rank in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        write_output(path, content)
    return " .. ".join(dict.fromkeys(map(str, (paths[0], paths[-1]))))
