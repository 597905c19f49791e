"""The options of `explore` and `bundle`: what is explored, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from taccl.cli import completion
from taccl.cli.options import nodes_option, without_option
from taccl.cli.targets import protocol_option

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    nodes_option,
    click.option(
        "--sketch",
        multiple=True,
        shell_complete=completion.sketches,
        metavar="NAME|FILE",
        help="A sketch to keep to; of several the fastest counts. Without one, all links may be used.",
    ),
    click.option(
        "--collective",
        default="allgather",
        show_default=True,
        shell_complete=completion.collectives,
        metavar="NAME,...",
        help="One or several, with commas between them.",
    ),
    click.option(
        "--sizes",
        default="1KB..1GB",
        show_default=True,
        metavar="FROM..TO|SIZE,...",
        help="A range that doubles from its first size on, or a list.",
    ),
    click.option("--root", type=int, help="Root of broadcast, reduce, gather and scatter.  [default: 0]"),
    without_option,
    click.option(
        "--executor/--no-executor",
        default=None,
        help="Whether what executing costs counts, as in `synthesize`.  [default: where there is a target]",
    ),
    protocol_option,
    click.option("--instances", type=click.IntRange(min=1), metavar="N", help="As in `synthesize`."),
    click.option(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="For all together.  [default: 13 for each size and collective, at most 840]",
    ),
    click.option(
        "--effort",
        type=int,
        metavar="N",
        help="Units of work for all together, in place of seconds: the same effort and seed give the same "
        "table.",
    ),
    click.option("--seed", type=int, default=0, show_default=True, help="Of every random choice."),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="A Dask scheduler whose workers search, a search each, such as tcp://10.0.0.1:8786.",
    ),
    click.option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Searches at once.",
    ),
    click.option("--no-cache", is_flag=True, help="Neither keep answers nor use those of earlier runs."),
    click.option("-q", "--quiet", is_flag=True, help="Show no progress."),
)


def explore_options(command: _Command) -> _Command:
    """What is explored, and for how long: the parameters of `taccl.explore` but for the machine."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
