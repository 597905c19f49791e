"""`taccl run`: execute a file for real, on CPU arrays, and check the result against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taccl.backend.execute import Execution
from taccl.backend.execute.call import DTYPES, OPS
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.outcome import outcomes_to_dict
from taccl.backend.execute.requested import RunRequested
from taccl.backend.targets.registry import unfold_file
from taccl.cli import completion
from taccl.cli.options import FILE, json_option
from taccl.cli.output import show_json
from taccl.cli.sections import Sectioned
from taccl.errors import CheckError, TacclError
from taccl.model import units
from taccl.support.arguments import number
from taccl.support.budget import MAX_TIME_LIMIT_S
from taccl.support.files import read_bytes
from taccl.synthesis.collective_file import load_collective

#: Options that are passed on as they are.
_CALL_OPTIONS = ("in_place", "dtype", "op", "root", "slots", "seed", "ranks_as", "check", "calls")


@click.command(cls=Sectioned)
@click.argument("file", type=FILE)
@click.option("--size", metavar="SIZE", help="Size of the call, as nccl-tests counts it. Default: about 1MB.")
@click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True)
@click.option("--op", type=click.Choice(OPS), default="sum", show_default=True, help="How to reduce.")
@click.option("--root", type=int, help="Root of broadcast, reduce, gather, scatter. Default: any that fits.")
@click.option(
    "--collective",
    shell_complete=completion.files,
    metavar="FILE",
    help="The YAML file of a custom collective, or the table of --sizes, to check against.",
)
@click.option(
    "--in-place/--out-of-place", default=None, help="How to call it. Default: each way that the file claims."
)
@click.option(
    "--ranks-as",
    type=click.Choice(["threads", "processes", "turns"]),
    default="threads",
    show_default=True,
    help="A thread or a process for every rank, or all by turns in an order that the seed repeats.",
)
@click.option(
    "--backend",
    type=click.Choice(["local", "mpi"]),
    default="local",
    show_default=True,
    help="mpi: by rounds; each rank is a process of mpirun -n RANKS taccl run ...",
)
@click.option("--slots", type=int, help="Pieces that a connection holds. Default: 2 (Simple), 8 (LL, LL128).")
@click.option("--piece", metavar="SIZE", help="Most bytes in a piece. Default: the protocol's.")
@click.option("--calls", type=int, help="Calls in a row, with new inputs each; for plans. Default: 3.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the inputs, delays and orders.")
@click.option("--check/--no-check", default=True, show_default=True, help="Compare with NumPy's answer.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    type=float,
    default=60.0,
    show_default=True,
    help="For the whole call: give up when it is over.",
)
@json_option
@click.pass_context
def run(ctx: click.Context, /, file: Path, backend: str, as_json: bool, **options: Any) -> None:
    """Execute an MSCCL-XML file or an MSCCL++ plan on CPU arrays, with real blocking between thread blocks.

    Exit code 0: the result is right; 4: it is wrong, or the program hangs; 2: bad input. The time that
    it takes says nothing about a GPU.
    """
    number(options["timeout"], "--timeout", TacclError, above=0, most=MAX_TIME_LIMIT_S, unit="s")
    deadline = Deadline(options["timeout"])
    if backend == "local":
        unfolded = unfold_file(file, read_bytes(file), "run", deadline.look)
        executions = list(unfolded.run(_requested(options, deadline)))
        speaks = True
    else:
        executions, speaks = _over_mpi(ctx, file, options, deadline)
    ok = all(execution.ok for execution in executions)
    if speaks and as_json:
        show_json(outcomes_to_dict(executions, str(file)))
    elif speaks:
        click.echo(f"{file}: {'ok' if ok else 'NOT ok'}")
        for execution in executions:
            _show(execution)
    if not ok:
        ctx.exit(CheckError.exit_code)


def _over_mpi(
    ctx: click.Context, file: Path, options: dict[str, Any], deadline: Deadline
) -> tuple[list[Execution], bool]:
    """The outcomes, and whether this process is the one that says so."""
    from taccl.deployment.mpi.running import run_over_mpi
    from taccl.deployment.mpi.world import World

    world = World()
    try:
        unfolded = world.all_do(lambda: unfold_file(file, read_bytes(file), "run over MPI", deadline.look))
        return run_over_mpi(unfolded, _requested(options, deadline), world), world.rank == 0
    except TacclError as error:
        if world.rank == 0:
            raise
        ctx.exit(error.exit_code)


def _requested(options: dict[str, Any], deadline: Deadline) -> RunRequested:
    return RunRequested(
        deadline,
        size_bytes=None if options["size"] is None else units.parse_size(options["size"]),
        piece_bytes=None if options["piece"] is None else units.parse_size(options["piece"]),
        collective=None if options["collective"] is None else load_collective(options["collective"]),
        **{name: options[name] for name in _CALL_OPTIONS},
    )


def _show(run: Execution) -> None:
    root = "" if run.root is None else f" (root {run.root})"
    times = "" if run.iterations == 1 else f", {run.iterations} iterations"
    held = f"; {run.calls} calls in a row" if run.calls > 1 else ""
    held = held if run.slots is None else f"; {run.slots} slots{times}"
    for label, value in (
        ("collective", f"{run.collective}{root}, {run.ranks} ranks as {run.ranks_as}, {run.mode}"),
        ("call", f"{units.format_size(run.size_bytes)} of {run.dtype}, {run.op}{held}"),
        ("program", _program(run)),
        ("result", _result(run)),
        ("wall time", f"{run.seconds:.2f} s here, which says nothing about a GPU"),
    ):
        click.echo(f"  {label:<12} {value}")
    for note in run.notes:
        click.echo(f"  {'note':<12} {note}")
    for finding in run.findings:
        click.echo(f"  error: {finding}")


def _program(run: Execution) -> str:
    if not run.thread_blocks:
        return f"{run.steps} rounds, {run.pieces} messages"
    return f"{run.thread_blocks} thread blocks, {run.steps} steps, {run.pieces} pieces sent"


def _result(run: Execution) -> str:
    if run.verdict == "hangs":
        return "hangs: these thread blocks wait for ever"
    if run.verdict == "not checked":
        return "it ended; the result was not checked"
    return f"{run.verdict}, {run.wrong} of {run.checked} elements off"
