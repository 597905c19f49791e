"""`taccl simulate`: how long a file takes on a machine, in nccl-tests' columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taccl.analysis.simulated import simulate_file
from taccl.analysis.simulated_result import SimulatedFile, SimulatedSize
from taccl.backend.program import Protocol
from taccl.cli import completion
from taccl.cli.options import FILE, json_option, machine_options, proxy_option
from taccl.cli.output import show_json, show_table
from taccl.cli.sections import Sectioned
from taccl.model.engine_costs import LINKS_ALONE


@click.command(cls=Sectioned)
@click.argument("file", type=FILE)
@machine_options
@click.option(
    "--size",
    "sizes",
    metavar="SIZES",
    help="As nccl-tests counts them: 1KB,1MB,64MB. Default: what the schedule or sketch is for.",
)
@click.option(
    "--collective",
    shell_complete=completion.files,
    metavar="FILE",
    help="The YAML file of the custom collective of a file, or its table of --sizes.",
)
@click.option(
    "--root", type=int, help="Root of broadcast, reduce, gather, scatter. Default: the one that fits."
)
@click.option(
    "--protocol",
    type=click.Choice([protocol.value for protocol in Protocol], case_sensitive=False),
    help="Run with this protocol's connections, and let its flags take bandwidth (LL half, LL128 1/16). "
    "Default: the connections of the file's protocol, and no flags.",
)
@click.option(
    "--slots",
    type=click.IntRange(min=1),
    metavar="N",
    help="Pieces that a connection holds. Default: the protocol's, 2 or 8.",
)
@click.option(
    "--arbitration",
    type=click.Choice(["urgent", "first-come"]),
    default="urgent",
    show_default=True,
    help="Whom a port serves first: who has the longest way ahead, or who came first.",
)
@click.option(
    "--copy-cost",
    "copy_us_per_mb",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="US_PER_MB",
    help="What copies and additions inside a GPU take.",
)
@proxy_option
@json_option
def simulate(file: Path, sizes: str | None, protocol: str | None, as_json: bool, **request: Any) -> None:
    """How long FILE takes under the cost model: an MSCCL-XML or a plan for MSCCL++, whoever made it, or a
    schedule (JSON or Parquet) written by `taccl synthesize --schedule`, which is lowered to a program first.

    Its thread blocks, waits and connections are simulated event by event on the links and ports of a
    machine. Each time comes with a lower bound for all programs of that collective with its chunks
    on these links; of one that is executed, with its protocol and no more thread blocks. Where it
    is known what executing costs, by the machine's file or by its GPUs, the file is executed so,
    thread block by thread block.

    \b
    taccl simulate ag.xml --sketch ndv2-sk-1 --size 1MB,16MB,64MB
    taccl simulate schedule.json
    """
    result = simulate_file(
        file,
        [] if sizes is None else sizes.split(","),
        protocol=next((each for each in Protocol if each.value == protocol), None),
        **request,
    )
    if as_json:
        show_json(result.to_dict())
    else:
        _show(result)
    result.check()


def _show(result: SimulatedFile) -> None:
    program = result.program
    ranks = "rank" if program.num_ranks == 1 else "ranks"
    # without an executor, another protocol than the file's is a question about its connections
    protocol = result.protocol_name if result.is_executed else program.protocol
    on = f"{result.topology}{result.sums_at}"
    click.echo(
        f"{result.collective.name}, {program.num_ranks} {ranks}, {protocol}, on {on}"
        + (" as its executor runs it" if result.is_executed else f"  ({LINKS_ALONE})")
    )
    header = ["size(B)", "time(us)", "algbw(GB/s)", "busbw(GB/s)", "bound(us)", "gap"]
    has_schedule = any(run.schedule_us is not None for run in result.sizes)
    if has_schedule:
        header.append("schedule(us)")
    header.append("why no program over links with its chunks and thread blocks is faster")
    show_table(header, [_row(run, has_schedule) for run in result.sizes])
    for note in result.notes:
        click.echo(f"note: {note}")


def _row(run: SimulatedSize, has_schedule: bool) -> list[str]:
    row = [
        str(run.size_bytes),
        f"{run.time_us:.2f}",
        f"{run.algbw_gbps:.2f}",
        f"{run.busbw_gbps:.2f}",
        *run.bound_words,
    ]
    if has_schedule:
        row.append("-" if run.schedule_us is None else f"{run.schedule_us:.2f}")
    return [*row, run.bound_source or "-"]
