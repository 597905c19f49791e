"""`taccl bound`: what no schedule can beat, and why."""

from __future__ import annotations

from typing import Any

import click

from taccl.analysis.bound import Bounds, bounds
from taccl.analysis.server_curve import ServerCurve, what_servers_buy
from taccl.backend.target import THREAD_BLOCKS
from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.cli.hints import pointing_to_explain
from taccl.cli.options import (
    chunks_option,
    helper_counts_option,
    json_option,
    request_options,
    symmetry_option,
)
from taccl.cli.output import show_json, show_table
from taccl.cli.sections import Sectioned
from taccl.cli.targets import TARGET_OF_PROBLEM, target_option
from taccl.encoding.bounds import Proof


@click.command(cls=Sectioned)
@request_options
@helper_counts_option
@symmetry_option
@chunks_option
@target_option(TARGET_OF_PROBLEM, default=DEFAULT_TARGET.name)
@click.option(
    "--protocol",
    metavar="NAME",
    help="Simple, LL or LL128: what it costs, where that is known. Default: links alone.",
)
@click.option(
    "--instances",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --protocol: parallel copies of the program. Default: bounds hold for any number.",
)
@click.option(
    "--thread-blocks",
    type=click.Choice(THREAD_BLOCKS),
    help="With --protocol: whether a thread block may both send and receive. Default: bounds hold for both.",
)
@json_option
def bound(as_json: bool, helpers: int | range | None, **request: Any) -> None:
    """The lower bounds on the time of any schedule, each with the chunk, cut or ports that make it so.

    No engine runs. What holds for any number of chunks comes first; what holds for the number requested (one
    a rank, unless --chunks says another) may be larger. The witness says where the machine is the limit.

    Where it is known what executing costs, --protocol says with which costs; what every schedule pays (the
    launch) is distinguished, and so is a bound of the file's own time. Defaults of a GPU prove nothing of
    schedules, and of a file's time what is left at the lower end of their interval.

    \b
    taccl bound --sketch ndv2-sk-1 --collective allgather --size 16MB
    taccl bound --topology dgx2 --nodes 2 --collective alltoall --size 1GB
    taccl bound --topology rack.yaml --collective allreduce --size 256MB --helpers 0..8
    """
    if isinstance(helpers, range):
        with pointing_to_explain(request):
            curve = what_servers_buy(helpers, **request)
        if as_json:
            show_json(curve.to_dict())
        else:
            _show_curve(curve)
        return
    request["helpers"] = helpers
    with pointing_to_explain(request):
        proven = bounds(**request)
    if as_json:
        show_json(proven.to_dict())
    else:
        _show(proven)


def _show(proven: Bounds) -> None:
    stated, problem, largest = proven.stated, proven.problem, proven[0]
    size = " in ".join(problem.size_and_chunks)
    on = stated.topology.name if stated.sketch is None else f"{stated.topology.name} ({stated.sketch.name})"
    on += stated.topology.sums_for(problem.collective)
    click.echo(f"{problem.collective.name}, {problem.collective.counted_ranks}, on {on}: {size}")
    if not largest.value_us:
        click.echo("no bound: nothing has to move, or moving costs nothing")
        return
    limits = [each for each in (proven.any_chunks, largest) if each.value_us > 0]
    for each in dict.fromkeys(limits):
        click.echo(
            f"no schedule is faster than {each.value_us:.2f} us for {_chunk_count(each)}: "
            f"{each.witness}; what moves it: {each.remedy}"
        )
    click.echo()
    header = ["bound", "time(us)", "algbw(GB/s)", "busbw(GB/s)", "holds for", "why no schedule is faster"]
    in_order = sorted(proven, key=lambda each: not each.holds_for_any_chunks)
    show_table(header, [_row(proven, each) for each in in_order if each.value_us > 0])
    if proven.served is not None:
        any_file = proven.served.any_file
        click.echo(
            f"no file of {proven.served.files}, executed, takes less than "
            f"{any_file.value_us:.2f} us ({any_file.witness})"
        )
    for note in stated.notes:
        click.echo(f"note: {note}")


def _show_curve(curve: ServerCurve) -> None:
    click.echo(curve.title)
    show_table(curve.header, curve.cells)


def _row(proven: Bounds, each: Proof) -> list[str]:
    algbw, busbw = proven.algbw_gbps(each), proven.busbw_gbps(each)
    figures = [f"{value:.2f}" for value in (each.value_us, algbw, busbw)]
    return [each.kind, *figures, _chunk_count(each), each.witness]


def _chunk_count(each: Proof) -> str:
    return "any chunk count" if each.holds_for_any_chunks else "this chunk count"
