"""`taccl pareto`: latency against bandwidth on a small machine, point by point."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from taccl.analysis.pareto import Frontier, FrontierPoint
from taccl.analysis.pareto import pareto as find_frontier
from taccl.cli import completion
from taccl.cli.options import FILE, nodes_option, topology_option
from taccl.cli.output import (
    STDOUT,
    Attempts,
    claim_outputs,
    output_name,
    show_json,
    show_table,
    write_output,
)
from taccl.cli.sections import Sectioned
from taccl.cli.signals import undisturbed
from taccl.model import units
from taccl.model.schedule import schedule_to_json

_HEADER = (
    "steps",
    "rounds",
    "chunks",
    "rounds/chunk",
    "minimal",
    "time(us)",
    "bound(us)",
    "gap",
    "algbw(GB/s)",
    "found(s)",
    "why no fewer rounds",
)


@click.command(cls=Sectioned)
@topology_option()
@nodes_option
@click.option("--profile", type=FILE, help="A TACCL profile (JSON) with measured costs of the links.")
@click.option(
    "--collective",
    shell_complete=completion.copying_or_summing,
    default="allgather",
    show_default=True,
    metavar="NAME",
    help="allgather, reducescatter, alltoall, broadcast, reduce, gather or scatter.",
)
@click.option("--root", type=int, help="Root of broadcast, reduce, gather and scatter.  [default: 0]")
@click.option(
    "--occupancy",
    type=click.Choice(["serial", "pipelined"]),
    help="Whether a transfer keeps its ports busy for alpha too. Default: the topology's.",
)
@click.option(
    "--size",
    default="16MB",
    show_default=True,
    help="For the times, as nccl-tests counts it: 64KB, 16MB, 1GB.",
)
@click.option(
    "--max-steps", type=click.IntRange(min=1), metavar="N", help="Default: three more than the fewest."
)
@click.option(
    "--max-chunks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Default: enough to reach the bound on rounds per chunk, at most 8.",
)
@click.option(
    "--time-limit", type=float, default=120.0, show_default=True, metavar="SECONDS", help="Seconds of search."
)
@click.option(
    "--schedule",
    type=FILE,
    help="Where to write a point's schedule: as Parquet if the name ends in .parquet, else as JSON; - for "
    "standard output.",
)
@click.option(
    "--point",
    type=click.IntRange(min=1),
    metavar="K",
    help="Which point's: 1 is the first of the table. Default: the fastest at --size.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def pareto(schedule: Path | None, point: int | None, as_json: bool, quiet: bool, **request: Any) -> None:
    """Latency against bandwidth on one node or another small machine, after SCCL: from the algorithm
    with the fewest steps to the one with the fewest rounds per chunk. In a round, each link carries as many
    chunks as it is faster than the slowest. `minimal` means it is proved that no fewer rounds do.

    Ctrl-C stops the search and shows the points found so far.

    \b
    taccl pareto --topology ndv2 --nodes 1 --collective allgather
    taccl pareto --topology ring:4 --collective alltoall --size 1MB --json
    """
    if point is not None and schedule is None:
        raise click.UsageError("--point says which schedule to write, and there is no --schedule")
    aside = claim_outputs((schedule,), (request["topology"], request["profile"]), as_json=as_json)
    frontier = find_frontier(**request, on_point=None if quiet else _report)
    chosen = _chosen(frontier, point)
    with undisturbed():
        attempts = Attempts()
        written = None
        if schedule is not None and chosen is not None:
            written = attempts.of(lambda: _write(chosen, schedule))
        attempts.of(lambda: _show(frontier, request["size"], written, as_json=as_json, aside=aside))
        attempts.end()


def _report(found: FrontierPoint) -> None:
    point = found.point
    with suppress(OSError):  # the search goes on where nobody can be informed
        click.echo(
            f"{point.seconds:6.1f} s  {point.steps} steps, {point.rounds} rounds, {point.chunks} chunks: "
            f"{point.rounds_per_chunk} rounds per chunk",
            err=True,
        )


def _chosen(frontier: Frontier, point: int | None) -> FrontierPoint | None:
    if not frontier.points:
        return None
    if point is None:
        return frontier.fastest
    if point > len(frontier.points):
        raise click.UsageError(f"there is no point {point}: {len(frontier.points)} were found")
    return frontier.points[point - 1]


def _write(found: FrontierPoint, path: Path) -> str:
    """Write its schedule, and say so."""
    if path == STDOUT:
        bound = found.bound
        text = schedule_to_json(found.schedule, lower_bound_us=bound.value_us, bound_source=bound.witness)
        write_output(path, text)
    else:
        found.write_schedule(path)
    point = found.point
    return f"wrote {output_name(path)}: {point.steps} steps, {point.rounds} rounds, {point.chunks} chunks"


def _show(frontier: Frontier, size: str, written: str | None, *, as_json: bool, aside: bool) -> None:
    """The report; `aside`: on standard error, because standard output is taken."""
    if as_json:
        show_json(frontier.to_dict())
        return
    bound, say = frontier.round_bound, partial(click.echo, err=aside)
    say(
        f"{frontier.collective.name}, {frontier.collective.num_ranks} ranks, on {frontier.topology}, "
        f"{units.format_size(units.parse_size(size))}"
    )
    say(f"at least {frontier.least_steps} steps: the longest of the shortest routes")
    say(f"at least {bound.rounds_per_chunk} rounds per chunk: {bound.witness}")
    show_table(_HEADER, [_row(point) for point in frontier.points], err=aside)
    for each in frontier.undecided:
        say(
            f"not decided in time: {each.steps} steps, {each.rounds} rounds, {each.chunks} chunks; "
            "a point may be missing"
        )
    say(f"{frontier.status}, {frontier.seconds:.1f} s")
    for note in frontier.notes:
        say(f"note: {note}")
    if written is not None:
        say(written)


def _row(found: FrontierPoint) -> list[str]:
    point = found.point
    return [
        str(point.steps),
        str(point.rounds),
        str(point.chunks),
        str(point.rounds_per_chunk),
        "yes" if point.is_minimal else "not proved",
        f"{found.time_us:.2f}",
        f"{found.bound.value_us:.2f}",
        f"{100 * found.gap:.2f}%",
        f"{found.schedule.algbw_gbps:.2f}",
        f"{point.seconds:.1f}",
        point.proof,
    ]
