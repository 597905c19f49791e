"""`taccl topology check`: what is odd about a machine, and what limits it."""

from __future__ import annotations

from pathlib import Path

import click

from taccl.analysis.machine_check import SIZES, MachineBound, MachineCheck, check_machine
from taccl.cli import completion
from taccl.cli.options import FILE, json_option, without_option
from taccl.cli.output import show_json, show_table
from taccl.cli.sections import Sectioned
from taccl.model import units
from taccl.model.network import OCCUPANCIES, Occupancy
from taccl.support.lists import few

#: A check failed: ranks have no way to each other.
_NOT_WHOLE = 4


@click.command(cls=Sectioned)
@click.argument("name", shell_complete=completion.machines)
@click.option("--nodes", type=int, help="Number of nodes. Default: the topology's.")
@click.option("--profile", type=FILE, help="A TACCL profile (JSON).")
@click.option(
    "--occupancy",
    type=click.Choice(OCCUPANCIES),
    help="Whether a transfer keeps its ports busy for alpha too. Default: the topology's.",
)
@without_option
@click.option(
    "--size",
    default=",".join(SIZES),
    show_default=True,
    metavar="SIZE,...",
    help="Sizes for bounds, as nccl-tests counts them.",
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
@click.pass_context
def check(
    ctx: click.Context,
    name: str,
    nodes: int | None,
    profile: Path | None,
    occupancy: Occupancy | None,
    without: tuple[str, ...] | None,
    size: str,
    time_limit: float,
    as_json: bool,
) -> None:
    """What is odd about a machine, what no schedule on it can beat, and what limits each.

    Odd is what is not as its siblings are: links that are slow, missing or one way, GPUs with other links
    than most, GPUs without a NIC, NICs that nobody is near. The exit code is 0 whatever is odd, and 4 where
    GPUs have no way to each other.

    \b
    taccl topology check my-machine.yaml
    taccl topology check dgx-h100 --nodes 4 --size 64KB,1GB
    """
    checked = check_machine(
        name,
        nodes=nodes,
        profile=profile,
        occupancy=occupancy,
        without=without,
        sizes=size.split(","),
        time_limit=time_limit,
    )
    if as_json:
        show_json(checked.to_dict())
    else:
        _show(checked)
    if not checked.is_whole:
        ctx.exit(_NOT_WHOLE)


def _show(checked: MachineCheck) -> None:
    machine = checked.machine
    nodes = f"{machine.num_nodes} node{'s' if machine.num_nodes > 1 else ''}"
    gpus = f"{machine.num_members} GPU{'s' if machine.num_members > 1 else ''}"
    helpers = [helper.name for helper in machine.gpus[machine.num_members :]]
    if helpers:
        gpus += f", {len(helpers)} helper{'s' if len(helpers) > 1 else ''} ({few(helpers, 4)})"
    click.echo(f"{machine.name}, {nodes}, {gpus}: {_counted(len(checked.anomalies))} found")
    if machine.sums_at:
        click.echo(f"bounds hold for the machine{machine.sums_at}")
    for anomaly in checked.anomalies:
        click.echo(f"- {anomaly.kind}: {anomaly.message}\n    {anomaly.hint}")
    if checked.bounds:
        click.echo()
        header = [
            "size",
            "collective",
            "bound(us)",
            "bound for any chunk count (us)",
            "busbw(GB/s)",
            "limit",
            "what limits it",
        ]
        show_table(header, map(_row, checked.bounds))
    for note in checked.notes:
        click.echo(f"note: {note}")


def _row(each: MachineBound) -> list[str]:
    bound, any_cut = each.bound, each.any_chunks
    return [
        units.format_size(each.size_bytes),
        each.collective,
        "" if bound is None else f"{bound.value_us:.2f}",
        "" if any_cut is None else f"{any_cut.value_us:.2f}",
        "" if each.busbw_gbps is None else f"{each.busbw_gbps:.2f}",
        each.limit or "",
        each.reason if each.witness is None else each.witness.witness,
    ]


def _counted(count: int) -> str:
    return "no anomalies" if not count else f"{count} anomal{'ies' if count > 1 else 'y'}"
