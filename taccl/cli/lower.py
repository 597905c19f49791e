"""`taccl lower`: what a file becomes for a library that knows messages and no thread blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taccl.analysis.lowered import LoweredFile, lower_file
from taccl.backend.rounds.lowering import MOST_OPERATIONS
from taccl.backend.rounds.tuning import SHOWN
from taccl.cli import completion
from taccl.cli.options import FILE, json_option, machine_options
from taccl.cli.output import show_json, show_table
from taccl.cli.sections import Sectioned
from taccl.errors import TacclError


@click.command(cls=Sectioned)
@click.argument("file", type=FILE)
@click.option("--rounds", is_flag=True, help="Rounds of messages, for PyTorch, MPI and others.")
@machine_options
@click.option(
    "--size", "sizes", metavar="SIZES", help="With a machine, as nccl-tests counts: 1KB,1MB. Default: 1MB."
)
@click.option(
    "--collective",
    shell_complete=completion.files,
    metavar="FILE",
    help="The YAML file of the custom collective of a file.",
)
@click.option("--root", type=int, help="Root of broadcast, reduce, gather, scatter. Default: any that fits.")
@click.option("--in-place/--out-of-place", default=False, help="How it will be called.")
@click.option(
    "--pipelined", is_flag=True, help="Keep the order of thread blocks: more rounds, links busy at once."
)
@click.option(
    "--max-ops",
    "most_operations",
    type=click.IntRange(min=2),
    default=MOST_OPERATIONS,
    show_default=True,
    metavar="N",
    help="Sends and receives of a rank in a round; a round of more is cut.",
)
@click.option(
    "--launch",
    "launch_us",
    type=click.FloatRange(min=0),
    metavar="US",
    help="What posting a round takes. Default: what the machine's executor says of a call, else 17.",
)
@json_option
def lower(file: Path, rounds: bool, sizes: str | None, as_json: bool, **request: Any) -> None:
    """What FILE becomes for a library of messages: an MSCCL-XML, a plan for MSCCL++ or a file of actions,
    whoever made it, as rounds in which each rank posts sends and receives and waits for all of them.

    The rounds are verified like every program: each output holds what it should, nothing is read and written
    at once, and both ends of each message are in one round, so that nothing can hang.

    \b
    taccl lower allgather.xml --rounds
    taccl lower allgather.xml --rounds --topology ndv2 --nodes 2 --size 1MB,64MB
    """
    if not rounds:
        raise TacclError("lowered to what?", hint="--rounds is what there is")
    result = lower_file(file, [] if sizes is None else sizes.split(","), **request)
    if as_json:
        show_json(result.to_dict())
        return
    _show(result)


def _show(result: LoweredFile) -> None:
    rounds = result.rounds
    how = "in place" if rounds.in_place else "out of place"
    root = "" if rounds.root is None else f" (root {rounds.root})"
    click.echo(f"{rounds.collective}{root}, {rounds.num_ranks} ranks, {how}, {rounds.chunks} chunks")
    chain = " -> ".join(map(str, rounds.chain))
    said = "no fewer carry out these transfers" if rounds.fewest == len(rounds.rounds) else "the fewest"
    click.echo(f"rounds: {len(rounds.rounds)}; {said}: {rounds.fewest}, by what goes {chain or 'nowhere'}")
    rows = [
        [
            str(number),
            str(len(each.messages)),
            str(each.most_operations),
            str(sum(message.count for message in each.messages)),
            str(len(each.after)),
        ]
        for number, each in enumerate(rounds.rounds, start=1)
    ]
    shown = rows if len(rows) <= SHOWN else [*rows[:SHOWN], ["..", "", "", "", ""]]
    show_table(["round", "messages", "most of a rank", "chunks", "sums and copies after"], shown)
    if result.sizes:
        click.echo(f"on {result.topology}, {result.launch_us:g} us for posting a round, sums left out:")
        show_table(
            ["size(B)", "time(us)", "of that posting(us)", "bound(us)", "why no schedule is faster"],
            [
                [
                    str(each.size_bytes),
                    f"{each.timed.time_us:.2f}",
                    f"{each.timed.launches_us:.2f}",
                    f"{each.lower_bound_us:.2f}",
                    each.bound_source,
                ]
                for each in result.sizes
            ],
        )
