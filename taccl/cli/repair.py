"""`taccl repair`: a schedule that runs, on the machine as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taccl.analysis.repair import TIME_LIMIT_S, Repaired
from taccl.analysis.repair import repair as repaired
from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.cli.options import FILE, json_option, machine_options
from taccl.cli.output import Attempts, claim_outputs, show_json
from taccl.cli.progress import progress_reports
from taccl.cli.sections import Sectioned
from taccl.cli.signals import undisturbed
from taccl.cli.targets import target_option


@click.command(cls=Sectioned)
@click.argument("schedule", type=FILE)
@machine_options
@click.option(
    "--at",
    "at_us",
    type=float,
    metavar="US",
    help="The machine changed at this moment of a call: plan what is left of it. A schedule, no file.",
)
@click.option(
    "--time-limit",
    type=float,
    metavar="SECONDS",
    help=f"For the whole call.  [default: {TIME_LIMIT_S:g}; none with --effort]",
)
@click.option("--effort", type=int, metavar="N", help="Units of work in place of seconds.")
@click.option("--gap", type=float, default=0.0, show_default=True, metavar="FRACTION", help="Stop there.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of every random choice.")
@target_option("What the file is for.", default=DEFAULT_TARGET.name)
@click.option("-o", "--output", type=FILE, help="Where to write the file.")
@click.option(
    "--schedule", "kept", type=FILE, help="Where to write the schedule, as `taccl synthesize` does."
)
@json_option
@click.option("-q", "--quiet", is_flag=True, help="Show no progress.")
def repair(
    schedule: Path, output: Path | None, kept: Path | None, as_json: bool, quiet: bool, **request: Any
) -> None:
    """Make SCHEDULE, written by `taccl synthesize --schedule`, valid for a machine that has changed.

    Sends whose links are gone or slower are rerouted at once, the others stay; then a search goes on from
    there until its time is up. The machine may have other links and costs, but as many GPUs.

    \b
    taccl repair allgather.json --topology now.yaml -o allgather.xml --schedule now.json
    taccl repair allgather.json --topology dgx-h100 --nodes 2 --without node0.gpu0-node0.nic0
    """
    aside = claim_outputs((output, kept), [schedule, request["topology"]], as_json=as_json)
    if request["at_us"] is not None and output is not None:
        raise click.UsageError(
            "what is left of a call has no file, as it begins in the middle: --schedule keeps it"
        )
    if request["time_limit"] is None and request["effort"] is None:
        request["time_limit"] = TIME_LIMIT_S
    with progress_reports(quiet=quiet, verbose=False) as report:
        done = repaired(schedule, file=output is not None, on_progress=report, **request)
    attempts = Attempts()
    with undisturbed():
        written = () if output is None else attempts.of(lambda: done.result.write(output)) or ()
        if kept is not None:
            attempts.of(lambda: done.result.write_schedule(kept))
        if as_json:
            more = {"files": [str(each) for each in written], "schedule": None if kept is None else str(kept)}
            attempts.of(lambda: show_json(done.to_dict() | more))
        else:
            attempts.of(lambda: click.echo(_summary(done, [*written, *([kept] if kept else [])]), err=aside))
        attempts.end()


def _summary(done: Repaired, written: list[Path]) -> str:
    first = "not mended" if done.first_us is None else f"{done.first_us:.2f} us, after {done.first_s:.2f} s"
    stopped = ""
    if done.at_us is not None:
        stopped = f", stopped at {done.at_us:g} us; the rest begins at {done.from_us:g} us"
    rows = [
        ("before", f"{done.before_us:.2f} us{stopped}"),
        ("mended", first),
        ("kept", f"{100 * done.kept:.1f}% of the transfers"),
    ]
    lines = [f"{label:<12} {value}" for label, value in rows]
    return "\n".join([*lines, done.result.summary(), *(f"wrote {each}" for each in written)])
