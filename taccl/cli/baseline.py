"""`taccl baseline`: what NCCL or RCCL would pick, and how long NCCL expects that to take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from taccl.analysis.baseline import LIBRARIES, SIZES, Baseline
from taccl.analysis.baseline import baseline as baseline_of
from taccl.analysis.baseline_size import BaselineSize
from taccl.analysis.baselines.nccl import RELEASES
from taccl.analysis.baselines.nccl.communicator import CPUS
from taccl.analysis.exploration.library_table import library as library_of
from taccl.analysis.exploration.sizes import sizes_of
from taccl.cli.options import (
    FILE,
    bounds_limit_option,
    collective_option,
    json_option,
    nodes_option,
    topology_option,
    without_option,
)
from taccl.cli.output import STDOUT, claim_outputs, show_json, show_reported, show_table, write_output
from taccl.cli.sections import Sectioned
from taccl.deployment.tuners.rules import DIALECTS, Dialect, reader_of
from taccl.deployment.tuners.writer import USE, to_csv
from taccl.model.collectives import plain_name


@click.command(cls=Sectioned)
@click.argument("library", metavar="nccl|rccl|all|ALGORITHM")
@topology_option()
@nodes_option
@without_option
@collective_option(
    "allreduce, allgather, reducescatter, broadcast or reduce; others are sent from point to point."
)
@click.option(
    "--size",
    default=",".join(SIZES),
    show_default=True,
    metavar="SIZE,...",
    help="As nccl-tests counts them.",
)
@click.option(
    "--root", type=int, help="Of an algorithm of broadcast, reduce, gather or scatter.  [default: 0]"
)
@click.option("--gpu", metavar="MODEL", help="The GPUs' model, such as H100, where the machine does not say.")
@click.option(
    "--cpu",
    type=click.Choice(CPUS),
    help="Whose CPUs the nodes have: NCCL's numbers between nodes depend on it. Default: intel; arm with "
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
@bounds_limit_option
@click.option(
    "--schedule",
    type=FILE,
    help="Where to write the schedule of the fastest at one size, to be shown, simulated or lowered.",
)
@click.option(
    "--graph",
    type=FILE,
    help="Of nccl and rccl: simulate the rings and trees of this file: NCCL's dump, or what was given to a "
    "library.",
)
@click.option(
    "--tuner",
    type=click.Choice(DIALECTS),
    help="Write the choice at all sizes as a tuner file: of NCCL's plugin, of NCCLX, or of RCCL.",
)
@click.option("-o", "--output", type=FILE, help="Of --tuner.  [default: standard output]", metavar="FILE")
@json_option
@click.pass_context
def baseline(
    ctx: click.Context,
    /,
    library: str,
    size: str,
    schedule: Path | None,
    graph: Path | None,
    tuner: Dialect | None,
    output: Path | None,
    as_json: bool,
    **request: Any,
) -> None:
    """What NCCL or RCCL picks for a collective by default, and the time that NCCL expects; or, with all or (a
    part of) an algorithm's name, what the algorithms of libraries take as schedules on this machine, links
    alone: rings, trees, doubling, all-pairs.

    The estimates are NCCL's own, of its model of costs. `measured/estimate` says how far published times of
    NCCL were from such estimates, at most 4 times as large or small, on machines with GPUs of the same
    generation or, where none were published, on any. The bound holds for any algorithm by the costs of links
    alone, however finely it cuts the size.

    \b
    taccl baseline nccl --topology dgx-h100 --nodes 1
    taccl baseline nccl --topology dgx-h100 --nodes 2 --collective allgather --size 1MB,1GB
    taccl baseline rccl --topology mi300x --nodes 1 --size 64KB,16MB
    taccl baseline nccl --topology ndv2 --nodes 1 --graph dump.xml
    taccl baseline nccl --topology dgx-h100 --nodes 2 --tuner nccl -o nccl_tuner.conf
    taccl baseline all --topology dgx-a100 --nodes 1 --size 1KB,1MB
    taccl baseline "double binary tree" --topology dgx-a100 --nodes 2 --size 64MB --schedule tree.json
    """
    if graph is not None:
        _of_graphs(ctx, library, graph, size, as_json=as_json, **request)
        return
    if tuner is not None:
        _as_tuner_file(ctx, library, tuner, output, as_json=as_json, schedule=schedule, **request)
        return
    if output is not None:
        raise click.UsageError("-o is of --tuner; --schedule writes a schedule")
    if library not in LIBRARIES:
        _as_schedules(ctx, library, size, schedule, as_json=as_json, **request)
        return
    if request.pop("root") is not None:
        raise click.UsageError(f"--root is of an algorithm, and {library} chooses one")
    if schedule is not None:
        raise click.UsageError(f"--schedule is of an algorithm, and {library} chooses one")
    found = baseline_of(library=library, sizes=size.split(","), **request)
    if as_json:
        show_json(found.to_dict())
    else:
        _show(found)


def _of_graphs(
    ctx: click.Context, library: str, graph: Path, size: str, *, as_json: bool, **request: Any
) -> None:
    """The rings and trees of a file, simulated."""
    if library not in LIBRARIES:
        raise click.UsageError("--graph is for nccl and rccl")
    for option in (*_OF_LIBRARIES, "tuner", "output", "schedule", "root"):
        if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--graph has no use for --{option.removesuffix('_us').replace('_', '-')}")
        request.pop(option, None)
    if plain_name(request.pop("collective")) != "allreduce":
        raise click.UsageError("--graph simulates allreduce")
    from taccl.analysis.graph_baseline import graph_baseline

    found = graph_baseline(graph, sizes=size.split(","), **request)
    show_reported(found, as_json=as_json)
    for note in () if as_json else found.notes:
        click.echo(f"note: {note}")


def _as_tuner_file(
    ctx: click.Context,
    library: str,
    dialect: Dialect,
    output: Path | None,
    *,
    as_json: bool,
    schedule: Path | None,
    time_limit: float,
    collective: str,
    root: int | None,
    **request: Any,
) -> None:
    """The library's own choice at all sizes; of one collective where it is named, else of all."""
    wanted = reader_of(dialect)
    if library != wanted:
        raise click.UsageError(f"--tuner {dialect} is for taccl baseline {wanted}")
    if as_json or schedule is not None or root is not None:
        raise click.UsageError("--tuner writes CSV; leave --json, --schedule and --root out")
    if ctx.get_parameter_source("size") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--tuner has all sizes; leave --size out")
    is_named = ctx.get_parameter_source("collective") is ParameterSource.COMMANDLINE
    claim_outputs((output,), (request["topology"],))
    from taccl.deployment.tuners.choices import tuning_of

    tuning = tuning_of([collective] if is_named else None, library=wanted, **request)
    write_output(STDOUT if output is None else output, to_csv(tuning, dialect))
    if output not in (None, STDOUT):
        click.echo(f"wrote {output}: {len(tuning.rules)} rules, {tuning.says}")
        click.echo(f"  {USE[dialect]}")


#: Options that say something of NCCL and RCCL alone.
_OF_LIBRARIES = ("gpu", "cpu", "nic_latency_us", "release")


def _as_schedules(
    ctx: click.Context, name: str, size: str, schedule: Path | None, *, as_json: bool, **request: Any
) -> None:
    """What algorithms take as schedules."""
    for option in _OF_LIBRARIES:
        if ctx.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{option.removesuffix('_us').replace('_', '-')} is for nccl and rccl")
        request.pop(option)
    claim_outputs((schedule,), (request["topology"],), as_json=as_json)
    sizes = sizes_of(size)
    if schedule is not None and len(sizes) > 1:
        raise click.UsageError("--schedule writes the schedule of one size: --size 64MB")
    found = library_of(name, sizes=sizes, **request)
    if schedule is not None:
        write_output(schedule, found.fastest_text(sizes[0]))
    if as_json:
        show_json(found.to_dict())
    else:
        table = found.report().table
        click.echo(table.title, err=schedule == STDOUT)
        show_table(list(table.header), [list(row) for row in table.cells], err=schedule == STDOUT)
        for note in found.notes:
            click.echo(f"note: {note}", err=schedule == STDOUT)


def _show(found: Baseline) -> None:
    click.echo(found.title)
    show_table(BaselineSize.HEADER, [each.cells() for each in found.sizes])
    click.echo(f"bounds: links alone, {found.bound_says}")
    for note in found.notes:
        click.echo(f"note: {note}")
