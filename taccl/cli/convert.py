"""`taccl convert`: an MSCCL-XML file as a plan for MSCCL++."""

from __future__ import annotations

from pathlib import Path

import click

from taccl.cli.options import FILE, json_option
from taccl.cli.output import claim_outputs, output_name, show_json, write_output
from taccl.cli.sections import Sectioned
from taccl.deployment.converted import ConvertedFile, convert_file
from taccl.model import units


@click.command(cls=Sectioned)
@click.argument("file", type=FILE)
@click.option(
    "-o", "--output", type=FILE, required=True, help="Where to write the plan; - for standard output."
)
@click.option(
    "--ranks-per-node",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ranks that write into each other's memory; others go through ports. Default: all.",
)
@click.option(
    "--in-place/--out-of-place",
    default=None,
    help="Calls that the plan is for. Default: those of the file; of both, AllReduce and Broadcast in place.",
)
@json_option
def convert(
    file: Path, output: Path, ranks_per_node: int | None, in_place: bool | None, as_json: bool
) -> None:
    """Make a plan for MSCCL++ (JSON) that does what an MSCCL-XML FILE does.

    Both are verified. Exit code 4: FILE is wrong, or the plan is over a limit of MSCCL++; 2: bad input.

    \b
    taccl convert ag.xml -o ag.json
    """
    on_stdout = claim_outputs((output,), (file,), as_json=as_json)
    converted = convert_file(file, ranks_per_node=ranks_per_node, in_place=in_place)
    write_output(output, converted.text)
    if as_json:
        show_json(converted.to_dict(output))
        return
    for line in _lines(converted, output):
        click.echo(line, err=on_stdout)


def _lines(converted: ConvertedFile, output: Path) -> list[str]:
    plan = converted.plan
    way = "in place" if plan.in_place else "out of place"
    sizes = f"{units.format_size(plan.min_bytes)} to {units.format_size(plan.max_bytes)}"
    return [
        f"wrote {output_name(output)}: {plan.collective}, {plan.num_ranks} ranks, "
        f"{plan.num_blocks} thread blocks, {plan.num_operations} operations",
        f"  serves calls of {sizes}, {way}",
        *(f"  note: {note}" for note in converted.notes),
    ]
