"""`taccl baseline`: what NCCL or RCCL would pick, and how long NCCL expects that to take."""

from __future__ import annotations

from typing import Any

import click

from taccl.analysis.baseline import LIBRARIES, SIZES, Baseline
from taccl.analysis.baseline import baseline as baseline_of
from taccl.analysis.baseline_size import BaselineSize
from taccl.baselines.nccl import RELEASES
from taccl.baselines.nccl.communicator import CPUS
from taccl.cli import completion
from taccl.cli.options import json_option, without_option
from taccl.cli.output import show_json, show_table
from taccl.cli.sections import Sectioned


@click.command(cls=Sectioned)
@click.argument("library", type=click.Choice(LIBRARIES))
@click.option(
    "--topology",
    shell_complete=completion.machines,
    required=True,
    metavar="NAME|FILE",
    help="A machine of the catalogue or a YAML file.",
)
@click.option("--nodes", type=int, help="Number of nodes. Default: the topology's.")
@without_option
@click.option(
    "--collective",
    shell_complete=completion.collectives,
    default="allreduce",
    show_default=True,
    metavar="NAME",
    help="allreduce, allgather, reducescatter, broadcast or reduce; others are sent from point to point.",
)
@click.option(
    "--size",
    default=",".join(SIZES),
    show_default=True,
    metavar="SIZE,...",
    help="As nccl-tests counts them.",
)
@click.option("--gpu", metavar="MODEL", help="The GPUs' model, such as H100, where the machine does not say.")
@click.option(
    "--cpu",
    type=click.Choice(CPUS),
    help="Whose CPUs the nodes have: NCCL's numbers between nodes depend on it. Default: intel; arm beside "
    "GH200, GB200 and GB300.",
)
@click.option(
    "--nic-latency",
    "nic_latency_us",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="US",
    help="What the network's plugin states as its latency; InfiniBand states 0.",
)
@click.option(
    "--release", default=list(RELEASES)[-1], show_default=True, metavar="NAME", help="Of NCCL's constants."
)
@click.option(
    "--time-limit",
    type=float,
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="Bounds that would come later are left out.",
)
@json_option
def baseline(size: str, as_json: bool, **request: Any) -> None:
    """What NCCL or RCCL picks for a collective by default, and the time that NCCL expects.

    The estimates are NCCL's own, of its model of costs. `measured/estimate` says how far published times of
    NCCL were from such estimates, at most 4 times as large or small, on machines with GPUs of the same
    generation or, where none were published, on any. The bound holds for any algorithm by the costs of links
    alone, however finely it cuts the size.

    \b
    taccl baseline nccl --topology dgx-h100 --nodes 1
    taccl baseline nccl --topology dgx-h100 --nodes 2 --collective allgather --size 1MB,1GB
    taccl baseline rccl --topology mi300x --nodes 1 --size 64KB,16MB
    """
    found = baseline_of(sizes=size.split(","), **request)
    if as_json:
        show_json(found.to_dict())
    else:
        _show(found)


def _show(found: Baseline) -> None:
    click.echo(found.title)
    show_table(BaselineSize.HEADER, [each.cells() for each in found.sizes])
    click.echo(f"bounds: links alone, {found.bound_says}")
    for note in found.notes:
        click.echo(f"note: {note}")
