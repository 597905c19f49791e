"""`taccl order`: the order of hosts in which a plan is fastest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taccl.analysis.ordering.hostfile import FORMATS, Format
from taccl.analysis.ordering.ordered import best_order
from taccl.backend.target import AnyTarget
from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.cli import completion
from taccl.cli.options import (
    FILE,
    collective_option,
    json_option,
    nodes_option,
    topology_option,
    without_option,
)
from taccl.cli.output import claim_outputs, output_name, show_reported, write_output
from taccl.cli.sections import Sectioned
from taccl.cli.targets import target_option
from taccl.synthesis.lowering import write_files


@click.command(cls=Sectioned)
@topology_option("A machine of the catalogue or a YAML file, which may name a CSV of measured costs.")
@nodes_option
@without_option
@click.option(
    "--plan",
    shell_complete=completion.files,
    default="ring",
    show_default=True,
    metavar="NAME|FILE",
    help="ring, tree, nccl (what NCCL picks at this size), a textbook algorithm, a schedule or a file.",
)
@collective_option("Of a named plan.")
@click.option("--size", required=True, metavar="BYTES", help="What nccl-tests prints as size, such as 64MB.")
@click.option("--chunks", type=int, metavar="N", help="Pieces of one rank's part.  [default: 1]")
@click.option("--root", type=int, help="Of a rooted collective.")
@click.option(
    "--hosts", type=FILE, help="Names of the hosts in the machine's order, one a line. Default: node0, ..."
)
@click.option(
    "--time-limit", type=float, default=30.0, show_default=True, metavar="SECONDS", help="For the search."
)
@click.option("--effort", type=int, metavar="N", help="Units of work in place of seconds.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the search.")
@click.option(
    "-o", "--output", type=FILE, metavar="FILE", help="Write the hosts in order; - for standard output."
)
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    default="hostfile",
    show_default=True,
    help="Of --output: hosts with slots, a rank on each line, or a host on each line for each task.",
)
@target_option(
    "Write no order, but the plan with its ranks renamed, as a verified file for this target. "
    "Of an --output FILE.xml it is all.",
    default=None,
)
@json_option
def order(
    output: Path | None,
    format: Format,
    target: AnyTarget | None,
    hosts: Path | None,
    as_json: bool,
    **requested: Any,
) -> None:
    """Find the order of hosts in which a plan is fastest, with what this plan takes in any order at least,
    and what any algorithm takes at least.

    The plan stays as it is; which host has which place changes. On one node, its GPUs are ordered. Up to 9
    hosts every order is compared. Times are by links alone.

    \b
    taccl order --topology cloud.yaml --plan ring --size 64MB -o hosts.txt
    taccl order --topology cloud.yaml --plan plan.xml --size 64MB --format slurm -o hosts.txt
    taccl order --topology cloud.yaml --plan tree --size 64MB --target mscclpp -o tree.json
    """
    if target is None and output is not None and output.suffix == ".xml":
        target = DEFAULT_TARGET
    inputs = (requested["topology"], requested["plan"], hosts)
    claim_outputs((output,), inputs, as_json=as_json)
    found = best_order(hosts=hosts, **requested)
    if output is not None and target is not None:
        for path in write_files(found.files(target), output):
            click.echo(f"wrote {path}", err=True)
    elif output is not None:
        write_output(output, found.text(format))
        click.echo(f"wrote {output_name(output)}", err=True)
    if output != Path("-"):
        show_reported(found, as_json=as_json)
        for note in () if as_json else found.notes:
            click.echo(f"note: {note}")
