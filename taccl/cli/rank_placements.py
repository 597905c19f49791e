"""`taccl rank-placements`: what each allocation of GPUs costs a job."""

from __future__ import annotations

from typing import Any

import click

from taccl.analysis.training.placements import rank_placements as ranked
from taccl.cli import completion
from taccl.cli.options import FILE, json_option, nodes_option, topology_option
from taccl.cli.output import show_reported
from taccl.cli.sections import Sectioned


@click.command(name="rank-placements", cls=Sectioned)
@topology_option("The cluster: a machine of the catalogue or a YAML file.")
@nodes_option
@click.option(
    "--job",
    required=True,
    shell_complete=completion.files,
    metavar="FILE",
    help="The job, as taccl stall takes it.",
)
@click.option("--candidates", type=FILE, required=True, metavar="FILE", help="Allocations, one a line.")
@click.option(
    "--iterations", type=int, default=1000, show_default=True, metavar="N", help="Steps of the job."
)
@click.option("--wait", metavar="TIME", help="Until as many GPUs are free on fewest nodes: 40min.")
@click.option(
    "--policy",
    type=FILE,
    metavar="FILE",
    help="Waits of jobs with as many GPUs, in leases, one a line: Dally's tuner says how long to hold out.",
)
@click.option(
    "--leases", type=int, default=100, show_default=True, metavar="N", help="In which these jobs waited."
)
@click.option("--plan", default="ring", show_default=True, metavar="NAME", help="As of taccl stall.")
@click.option("--bucket", default="25MB", show_default=True, metavar="BYTES|auto", help="As of taccl stall.")
@click.option("--batch", type=float, metavar="N", help="Samples of a GPU. Default: the job's.")
@click.option(
    "--time-limit",
    type=float,
    default=4.0,
    show_default=True,
    metavar="SECONDS",
    help="For each allocation that differs from all others.",
)
@click.option("--effort", type=int, metavar="N", help="Units of work for each collective of synthesize.")
@json_option
def rank_placements(as_json: bool, **requested: Any) -> None:
    """Rank allocations of GPUs by the step time of a job on them, with bounds, and say how long waiting for
    a compact one is worth.

    A line of --candidates is n[0-1].gpu[0-3], or n0.gpu[0-4],n1.gpu[0-2]; a node alone stands for all its
    GPUs. Equivalent allocations are computed once.

    \b
    taccl rank-placements --topology cluster.yaml --job vgg.yaml --candidates offers.txt --iterations 20000
    """
    found = ranked(**requested)
    show_reported(found, as_json=as_json)
    if not as_json:
        click.echo(found.advice)
        if found.policy is not None:
            click.echo(found.policy.advice)
        for note in found.notes:
            click.echo(f"note: {note}")
