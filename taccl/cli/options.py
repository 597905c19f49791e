"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from taccl.cli import completion
from taccl.model.collectives import COLLECTIVES
from taccl.model.network import OCCUPANCIES
from taccl.sketch.model import NIC_SHARINGS
from taccl.support.arguments import shown
from taccl.synthesis.inputs import choose_topology
from taccl.synthesis.request import SYMMETRIES


class _File(click.Path):
    """The name of a file. What no file system takes as one is refused as any other bad value."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        try:
            return super().convert(value, param, ctx)
        except ValueError as fault:  # a null character
            self.fail(f"{os.fspath(value)!r} cannot name a file: {fault}", param, ctx)


FILE = _File(path_type=Path)
#: No number of chunks or of a rank has more.
DIGITS = 40

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _names(ctx: click.Context, option: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    return value or None


without_option = click.option(
    "--without",
    multiple=True,
    callback=_names,
    metavar="NAME",
    help="Leave out a helper (nvswitch, pbox3) or a link (gpu0-nic0) of the machine; may be repeated.",
)

nodes_option = click.option("--nodes", type=int, help="Number of nodes. Default: the topology's.")

bounds_limit_option = click.option(
    "--time-limit",
    type=float,
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="Bounds that would come later are left out.",
)


def topology_option(
    help: str = "A machine of the catalogue or a YAML file.",
) -> Callable[[_Command], _Command]:
    """`--topology`, for commands that need a machine and take no sketch."""
    return click.option(
        "--topology", required=True, shell_complete=completion.machines, metavar="NAME|FILE", help=help
    )


def collective_option(help: str) -> Callable[[_Command], _Command]:
    """`--collective`, for commands whose collectives are known by name."""
    return click.option(
        "--collective",
        shell_complete=completion.collectives,
        default="allreduce",
        show_default=True,
        metavar="NAME",
        help=help,
    )


_MACHINE = (
    click.option(
        "--sketch",
        shell_complete=completion.sketches,
        metavar="NAME|FILE",
        help="A published sketch, a YAML file, or a TACCL JSON. Without one, all links may be used.",
    ),
    click.option(
        "--topology",
        shell_complete=completion.machines,
        metavar="NAME|FILE",
        help="A machine of the catalogue or a YAML file. Default: the one that the sketch names.",
    ),
    click.option("--nodes", type=int, help="Number of nodes. Default: the sketch's, else the topology's."),
    click.option("--profile", type=FILE, help="A TACCL profile (JSON) with measured costs of the links."),
    click.option(
        "--occupancy",
        type=click.Choice(OCCUPANCIES),
        help="Whether a transfer keeps its ports busy for alpha too. Default: the topology's; for mscclpp, "
        "pipelined.",
    ),
    click.option(
        "--nic-sharing",
        type=click.Choice(NIC_SHARINGS),
        help="How links that share a NIC divide it; static is TACCL's rule. Default: the sketch's.",
    ),
    without_option,
    click.option(
        "--executor/--no-executor",
        "executor",
        default=None,
        help="Whether what executing costs counts: as the machine's file says, else by defaults of its GPUs. "
        "Without: links alone.  [default: where either is known]",
    ),
)


#: What simulation of a plan for MSCCL++ wants to know next to the machine.
proxy_option = click.option(
    "--proxy-cost",
    "proxy_us",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    metavar="US",
    help="Of a plan: what the proxy of a rank takes for each push into a port channel.",
)


def machine_options(command: _Command) -> _Command:
    """Which links there are, and what they cost: the parameters of `api.make_problem` of that kind."""
    for option in reversed(_MACHINE):
        command = option(command)
    return command


_COLLECTIVE = click.option(
    "--collective",
    shell_complete=completion.collectives,
    default="allgather",
    show_default=True,
    metavar="NAME|FILE",
    help=f"{', '.join(COLLECTIVES)}, or a YAML file that says what each chunk does.",
)
_SIZE = click.option(
    "--size",
    help="As nccl-tests counts it: 64KB, 16MB, 1GB; rounded down to a whole number of equal chunks. "
    "Default: what the profile, else the sketch, is meant for.",
)
_SIZES = click.option(
    "--sizes",
    type=FILE,
    metavar="FILE",
    help="Of an alltoall of unequal parts: CSV or .npy, row i, column j: bytes from rank i to rank j.",
)
_WINDOWS = click.option(
    "--windows",
    type=FILE,
    metavar="FILE",
    help="YAML: when computing makes chunks ready, and what it does with them then (docs/windows.md).",
)
_ROOT = click.option("--root", type=int, help="Root of broadcast, reduce, gather and scatter.  [default: 0]")
_CHUNKS = click.option(
    "--chunks",
    type=click.IntRange(min=1),
    metavar="N",
    help="Pieces that one rank's part is cut into. Default: the sketch's, else 1.",
)


def request_options(command: _Command) -> _Command:
    """All of a request but the number of chunks, symmetries and target."""
    return _COLLECTIVE(machine_options(_SIZE(_SIZES(_WINDOWS(_ROOT(command))))))


def chunks_option(command: _Command) -> _Command:
    """`--chunks`, for commands that do not search for it."""
    return _CHUNKS(command)


def _count_or_range(ctx: click.Context, option: click.Parameter, value: str | None) -> int | range | None:
    """The number of servers, or the numbers to compare."""
    if value is None:
        return None
    match = re.fullmatch(r"([0-9]{1,4})(?:\.\.([0-9]{1,4}))?", value)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise click.BadParameter(f"{shown(value)} is neither a number nor a range such as 0..8")
    return range(int(match[1]), int(match[2]) + 1) if match[2] else int(match[1])


#: Of commands that compare machines with several numbers of servers.
helper_counts_option = click.option(
    "--helpers",
    metavar="N|A..B",
    callback=_count_or_range,
    help="With this many servers that aggregate, or a table of what each buys: 0..8. Default: those of the "
    "machine's file.",
)

#: Of commands that take one machine.
helpers_option = click.option(
    "--helpers",
    type=click.IntRange(min=0),
    metavar="N",
    help="With this many servers that aggregate. Default: those of the machine's file.",
)


def symmetry_option(command: _Command) -> _Command:
    """`--symmetry`, where it makes a difference."""
    return click.option(
        "--symmetry",
        type=click.Choice(SYMMETRIES),
        default="sketch",
        show_default=True,
        help="Symmetries of the schedule: those of the sketch, or with auto, as many more as are found.",
    )(command)


def json_option(command: _Command) -> _Command:
    """`--json`, as the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")(
        command
    )


def named_ranks(ctx: click.Context, option: click.Parameter, value: str | None) -> range | None:
    """The ranks from A to B, or A alone."""
    if value is None:
        return None
    first, dash, last = value.partition("-")
    if not all(each.isdecimal() and len(each) <= DIGITS for each in (first, last if dash else first)):
        raise click.BadParameter(f"{shown(value)} names no ranks, such as 0-7")
    named = range(int(first), int(last if dash else first) + 1)
    if not named:
        raise click.BadParameter(f"{shown(value)} names no ranks: the first comes first, as in 0-7")
    return named


def check_ranks(ranks: range | None, **request: Any) -> None:
    """Raise UsageError for ranks that the machine has not, before a search for what they do."""
    if ranks is None or request["topology"] is None:
        return
    machine = choose_topology(request["topology"], nodes=request["nodes"], without=request["without"])
    last = machine.num_members - 1
    if ranks[-1] > last:
        named = f"{ranks[0]}-{ranks[-1]}" if ranks[0] < ranks[-1] else f"{ranks[0]}"
        raise click.UsageError(f"--ranks {named} names ranks that there are not: {machine.name} has 0-{last}")
