"""`taccl topology check`: what is odd about a machine, and what limits it."""

from __future__ import annotations

from pathlib import Path

import click

from taccl.analysis.failures import Failures
from taccl.analysis.failures import failures as failures_of
from taccl.analysis.machine_check import SIZES, MachineBound, MachineCheck, check_machine
from taccl.cli import completion
from taccl.cli.options import FILE, bounds_limit_option, json_option, nodes_option, without_option
from taccl.cli.output import show_json, show_table
from taccl.cli.sections import Sectioned
from taccl.model import units
from taccl.model.network import OCCUPANCIES, Occupancy
from taccl.support.lists import few

#: A check failed: ranks have no way to each other.
_NOT_WHOLE = 4


@click.command(cls=Sectioned)
@click.argument("name", shell_complete=completion.machines)
@nodes_option
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
@bounds_limit_option
@click.option(
    "--failures",
    metavar="COLLECTIVE",
    help="Show what each link, NIC and switch is worth: this collective, of the largest size, without it.",
)
@click.option(
    "--effort",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    metavar="N",
    help="Units of work for each part that may fail.",
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
    failures: str | None,
    effort: int,
    as_json: bool,
) -> None:
    """What is odd about a machine, what no schedule on it can beat, and what limits each.

    Odd is what is not as its siblings are: links that are slow, missing or one way, GPUs with other links
    than most, GPUs without a NIC, NICs that nobody is near. The exit code is 0 whatever is odd, and 4 where
    GPUs have no way to each other.

    \b
    taccl topology check my-machine.yaml
    taccl topology check dgx-h100 --nodes 4 --size 64KB,1GB
    taccl topology check dgx-h100 --nodes 2 --size 16MB --failures allgather
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
    failed = None
    if failures is not None and checked.is_whole:
        largest = max(size.split(","), key=units.parse_size)
        failed = failures_of(checked.machine, failures, largest, effort=effort)
    if as_json:
        show_json(checked.to_dict() | {"failures": None if failed is None else failed.to_dict()})
    else:
        _show(checked)
        if failed is not None:
            _show_failures(failed)
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


def _show_failures(failed: Failures) -> None:
    what = f"{failed.collective} of {units.format_size(failed.size_bytes)}"
    click.echo(f"\n{what}: {failed.time_us:.2f} us, bound {failed.bound_us:.2f}, links alone; without")
    header = ["part", "and alike", "time(us)", "bound(us)", "slower", "mended(us)"]
    rows = []
    for each in failed.parts:
        others = str(each.alike - 1) if each.alike > 1 else "-"
        if each.time_us is None or each.bound_us is None:
            rows.append([each.part, others, "-", "-", "-", each.why.split(": ")[0]])
            continue
        mended = "-" if each.mended_us is None else f"{each.mended_us:.2f}"
        slower = f"{each.time_us / failed.time_us:.2f}x" if failed.time_us else "-"
        rows.append([each.part, others, f"{each.time_us:.2f}", f"{each.bound_us:.2f}", slower, mended])
    show_table(header, rows)


def _row(each: MachineBound) -> list[str]:
    bound, any_cut = each.bound, each.any_chunks
    return [
        units.format_size(each.size_bytes),
        each.collective,
        "" if bound is None else f"{bound.value_us:.2f}",
        "" if any_cut is None else f"{any_cut.value_us:.2f}",
        "" if each.busbw_gbps is None else f"{each.busbw_gbps:.2f}",
        each.limit or "",
        each.why,
    ]


def _counted(count: int) -> str:
    return "no anomalies" if not count else f"{count} anomal{'ies' if count > 1 else 'y'}"
