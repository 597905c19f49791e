"""`taccl topology import`: a machine from what tools print about it."""

from __future__ import annotations

from pathlib import Path

import click

from taccl.cli.options import FILE, json_option
from taccl.cli.output import show_json
from taccl.dumps.registry import read_dump


@click.command("import")
@click.argument("files", type=FILE, nargs=-1, required=True, metavar="FILE...")
@json_option
def import_machine(files: tuple[Path, ...], as_json: bool) -> None:
    """Make a machine file of what tools print about a machine."""
    dump = read_dump(files[0])
    values = {"format": dump.format, "gpus": len(dump.gpus), "nics": len(dump.nics or ())}
    if as_json:
        show_json(values)
    else:
        click.echo(values)
