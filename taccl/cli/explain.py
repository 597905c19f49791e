"""`taccl explain`: which lines of a sketch leave no schedule, or none by a target time."""

from __future__ import annotations

from typing import Any

import click

from taccl.analysis.explained import explain as explained
from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.cli.options import chunks_option, helpers_option, json_option, request_options
from taccl.cli.output import show_json
from taccl.cli.sections import Sectioned
from taccl.cli.targets import TARGET_OF_PROBLEM, target_option


@click.command(cls=Sectioned)
@request_options
@helpers_option
@chunks_option
@target_option(TARGET_OF_PROBLEM, default=DEFAULT_TARGET.name)
@click.option(
    "--target-time",
    "--within",
    metavar="TIME",
    help="By when a schedule has to end: 500us, 1.5ms, or a number of microseconds.",
)
@click.option(
    "--max-hops",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ask also whether each chunk has a way of at most this many links.",
)
@click.option(
    "--time-limit",
    type=float,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds for the minimal set, and again for a search where nothing stands in the way.",
)
@json_option
@click.pass_context
def explain(ctx: click.Context, /, as_json: bool, **request: Any) -> None:
    """Why there is no schedule, or none by --target-time: the minimal set of lines of the sketch that
    together make it so, and what helps.

    Where nothing stands in the way, it says so, with a first schedule and its bound. The exit code is
    that of `taccl synthesize`: 0; 2 for a symmetry that the network does not have; 3 for no schedule.

    \b
    taccl explain --sketch my-sketch.yaml --collective alltoall
    taccl explain --sketch ndv2-sk-1 --collective allgather --size 16MB --target-time 850us
    """
    explanation = explained(**request)
    if as_json:
        show_json(explanation.to_dict())
    else:
        click.echo(explanation.summary())
    ctx.exit(explanation.exit_code)
