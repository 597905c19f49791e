"""`taccl synthesize --requests`: several collectives, one after another, overlaid and as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from taccl.analysis.several import WAYS, Several, several
from taccl.cli.options import FILE
from taccl.cli.output import STDOUT, Attempts, claim_outputs, show_json, show_table, write_output
from taccl.cli.progress import progress_reports
from taccl.cli.signals import undisturbed
from taccl.model.schedule.codec import SavedSchedule
from taccl.model.schedule.saved import schedule_file
from taccl.support.files import write_atomically

#: Options of `taccl synthesize` that mean something with it; `_MACHINE` are those of the machine.
_MACHINE = ("topology", "sketch", "nodes", "profile", "occupancy", "nic_sharing", "without", "helpers")
_SEARCH = ("chunks", "time_limit", "effort", "gap", "seed")
_OTHERS = ("requests", "schedule", "no_file", "as_json", "quiet", "verbose")

requests_option = click.option(
    "--requests",
    type=FILE,
    metavar="FILE",
    help="Several collectives at once, from a file with parts (docs/several.md): one after another, their "
    "plans overlaid, and planned as one, with a bound.",
)


def plan_requests(path: Path, schedule: Path | None, *, as_json: bool, quiet: bool, **words: Any) -> None:
    """Plan the collectives in a file, keep the fastest schedule, and show all.

    Raises
    ------
    click.UsageError : an option that says what the file says, or is for a file of one collective.
    """
    _check_options(words["chunks"])
    aside = claim_outputs((schedule,), [path, words["sketch"], words["topology"]], as_json=as_json)
    searching = {name: words[name] for name in (*_MACHINE, *_SEARCH) if words[name] is not None}
    with progress_reports(quiet=quiet, verbose=False) as report:
        found = several(path, on_progress=report, **searching)
    attempts = Attempts()
    with undisturbed():
        if schedule is not None:
            attempts.of(lambda: _write(found, schedule))
        if as_json:
            kept = None if schedule is None else str(schedule)
            attempts.of(lambda: show_json(found.to_dict() | {"schedule": kept}))
        else:
            attempts.of(lambda: _show(found, aside))
        attempts.end()


def _check_options(chunks: object) -> None:
    context = click.get_current_context()
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if given and name not in (*_MACHINE, *_SEARCH, *_OTHERS):
            raise click.UsageError(
                f"{option.opts[0]} is of no use with --requests, whose file says what is wanted and which is "
                "planned as a schedule: leave it out"
            )
    if isinstance(chunks, str):
        raise click.UsageError("--requests takes the chunks of its file: --chunks N cuts each into N pieces")


def _write(found: Several, path: Path) -> None:
    saved = SavedSchedule(found.schedule, found.bound.value_us, found.bound.witness)
    content = schedule_file(path, saved)
    if path == STDOUT:
        write_output(path, str(content))
    else:
        write_atomically(path, content)


def _show(found: Several, aside: bool) -> None:
    """A row for each collective, then one for each way of planning."""
    ends = [found.parts.ends_us(found.plans[way]) for way in WAYS]
    rows = [
        [part.name, part.collective, f"{len(part.groups)} x {len(part.groups[0].members)}"]
        + [f"{us:.2f}" for us in (alone.schedule.makespan_us, *(end[place] for end in ends))]
        for place, (part, alone) in enumerate(zip(found.parts.requested, found.alone, strict=True))
    ]
    last = [f"{found.plans[way].makespan_us:.2f}" for way in WAYS]
    mean = [f"{found.mean_end_us(way):.2f}" for way in WAYS]
    show_table(
        ["request", "collective", "ranks", "alone us", *(f"{way}, us" for way in WAYS)],
        [*rows, ["all", "", "", "", *last], ["mean end", "", "", "", *mean]],
        err=aside,
    )
    bound = f"{found.bound.value_us:.2f} us, {found.bound.witness}; gap {found.gap:.1%}, {found.status}"
    click.echo(f"bound: {bound}", err=aside)
