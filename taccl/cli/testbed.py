"""`taccl testbed`: run ranks on a machine that is built out of shaped links on this computer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from fractions import Fraction

import click

from taccl.cli import completion
from taccl.cli.options import json_option
from taccl.cli.output import show_reported
from taccl.deployment.testbed.building import build, enter, environment_of, in_rank
from taccl.deployment.testbed.checking import TOLERANCE, check
from taccl.deployment.testbed.design import Design, design_of
from taccl.errors import CheckError, TacclError
from taccl.topologies import load_topology

#: The port of the rendezvous, on a network that nobody else reaches.
_PORT = 29400


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("machine", shell_complete=completion.machines)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--nodes", type=click.IntRange(min=1), metavar="N")
@click.option("--scale", default="1/1000", show_default=True, help="What rates are multiplied by.")
@click.option("--check", "checks", is_flag=True, help="Measure each link against its rate; no COMMAND.")
@click.option(
    "--tolerance",
    type=float,
    default=TOLERANCE,
    show_default=True,
    help="How far --check lets a rate be off.",
)
@json_option
def testbed(
    machine: str,
    command: tuple[str, ...],
    nodes: int | None,
    scale: str,
    checks: bool,
    tolerance: float,
    as_json: bool,
) -> None:
    """Build MACHINE on this computer, at scaled rates, and run COMMAND once for each rank in it, with the
    environment of a job (RANK, WORLD_SIZE, MASTER_ADDR ..). Every device is a network namespace, every link
    a shaped wire. Nothing outside is touched, and all is gone when this command ends, however it ends.

    With --check, each link is measured alone, shared, and with all links busy; exit code 4 where one is off.

    Needs Linux and root, or user namespaces. Alphas are not emulated: they are whatever processes cost here.

    \b
    taccl testbed dgx2 --nodes 1 --scale 1/10000 -- python train.py
    taccl testbed dgx2 --nodes 1 --scale 1/10000 --check
    """
    if checks == bool(command):
        raise TacclError(
            "a command or --check is needed, and not both",
            hint="taccl testbed MACHINE -- COMMAND, or taccl testbed MACHINE --check",
        )
    topology = load_topology(machine, nodes=nodes)
    design = design_of(topology, _scale(scale))
    enter(sys.argv[1:])
    build(design)
    if checks:
        found = check(topology, design, tolerance=tolerance)
        show_reported(found, as_json=as_json)
        if not found.ok:
            raise CheckError(f"rates of {topology.name} are off by more than {100 * tolerance:g}%")
        return
    _run(design, command)


def _run(design: Design, command: tuple[str, ...]) -> None:
    """Once for each rank, to the end of all of them."""
    started = [
        subprocess.Popen(
            in_rank(rank, command), env=os.environ | environment_of(rank, design.num_ranks, _PORT)
        )
        for rank in range(design.num_ranks)
    ]
    codes: list[int] = []
    try:
        codes = [each.wait() for each in started]
    finally:
        for each in started:
            if each.poll() is None:
                each.send_signal(signal.SIGTERM)
    failed = [(rank, code) for rank, code in enumerate(codes) if code]
    if failed:
        rank, code = failed[0]
        raise CheckError(f"rank {rank} ended with exit code {code}")


def _scale(text: str) -> float:
    try:
        scale = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise TacclError(f"--scale is no number: {text!r}", hint="1/1000, or 0.01") from None
    if not 0 < scale <= 1:
        raise TacclError(f"--scale must be above 0 and at most 1, not {text}")
    return float(scale)
