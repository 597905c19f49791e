"""`taccl show`: what a schedule or a program does, as text, as a page, as a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from taccl.backend.show import Timeline, describe_schedule, schedule_timeline, to_html, to_trace
from taccl.backend.show.facts import time_facts, topology_words
from taccl.backend.targets.registry import unfold_file
from taccl.backend.unfolded import Unfolded
from taccl.cli import completion
from taccl.cli.options import FILE
from taccl.cli.output import claim_outputs, output_name, write_output
from taccl.cli.sections import Sectioned
from taccl.errors import TacclError
from taccl.model import units
from taccl.model.schedule import begins_as_schedule, read_schedule
from taccl.support.files import read_bytes

if TYPE_CHECKING:
    from taccl.analysis.simulated_result import SimulatedSize


@click.command(cls=Sectioned)
@click.argument("file", type=FILE)
@click.option("--rank", type=int, help="Only this rank, in the text.")
@click.option(
    "--html", type=FILE, metavar="OUT.html", help="Write a page for the browser; - for standard output."
)
@click.option(
    "--trace",
    type=FILE,
    metavar="OUT.json",
    help="Write a trace for Perfetto (ui.perfetto.dev); - for standard output.",
)
@click.option(
    "--sketch",
    shell_complete=completion.sketches,
    metavar="NAME|FILE",
    help="For the times of an XML: the sketch to simulate it on.",
)
@click.option(
    "--topology",
    shell_complete=completion.machines,
    metavar="NAME|FILE",
    help="For the times of an XML: the machine.",
)
@click.option("--nodes", type=int, help="Number of nodes. Default: the sketch's, else the topology's.")
@click.option("--profile", type=FILE, help="A TACCL profile (JSON) with measured costs of the links.")
@click.option("--size", help="Size of the call, as nccl-tests counts it. Default: the sketch's.")
@click.option(
    "--collective",
    shell_complete=completion.files,
    metavar="FILE",
    help="The YAML file of the custom collective of a file, or its table of --sizes.",
)
def show(
    file: Path,
    rank: int | None,
    html: Path | None,
    trace: Path | None,
    sketch: str | None,
    topology: str | None,
    nodes: int | None,
    profile: Path | None,
    size: str | None,
    collective: str | None,
) -> None:
    """Show what FILE does: an MSCCL-XML, a plan for MSCCL++, or a schedule (JSON or Parquet) that
    `taccl synthesize --schedule` wrote.

    Without --html or --trace it is shown as text. A schedule knows its times; its lower bound is computed
    again, whatever the file claims. An XML and a plan have none: they come
    from a simulation on --topology or --sketch at --size, or else every step is shown as one unit of time.
    """
    aside = claim_outputs((html, trace), (file, sketch, topology, profile, collective))
    machine = _Machine(sketch, topology, nodes, profile, size, collective)
    content = read_bytes(file)
    is_saved = begins_as_schedule(content)
    subject = _schedule(file, machine) if is_saved else _program(file, content, machine)
    if html is None and trace is None:
        for line in subject.lines(rank):
            click.echo(line)
        return
    if rank is not None:
        raise click.UsageError("--rank is for the text; a page and a trace have all ranks")
    timeline = subject.timeline()
    for path, write in ((html, to_html), (trace, to_trace)):
        if path is not None:
            write_output(path, write(timeline))
            bars = f"{len(timeline.bars)} bars, {timeline.transfers} transfers"
            click.echo(f"wrote {output_name(path)}: {bars}", err=aside)
    for note in timeline.notes:
        click.echo(f"note: {note}", err=aside)


class _Subject(NamedTuple):
    """A file that was read, and the two forms in which it is shown."""

    lines: Callable[[int | None], Iterable[str]]
    timeline: Callable[[], Timeline]


class _Machine(NamedTuple):
    """What the user says about where and at which size an XML is to run."""

    sketch: str | None
    topology: str | None
    nodes: int | None
    profile: Path | None
    size: str | None
    collective: str | None


#: What a picture of steps says on a machine whose executor is known.
_WITHOUT_EXECUTOR = (
    "by the links' costs alone; taccl simulate predicts what the machine's executor makes of it"
)
_NEEDS_MACHINE = "times need a machine: give --topology or --sketch as well"
_NOT_GIVEN = _Machine(None, None, None, None, None, None)


def _schedule(file: Path, machine: _Machine) -> _Subject:
    if machine != _NOT_GIVEN:
        raise click.UsageError("a schedule knows its machine and its size; these options are for an XML")
    saved = read_schedule(file)
    from taccl.analysis.bound import prove_again  # it loads the solvers, which showing an XML does without

    proved, notes = prove_again(saved)
    shown = replace(saved, lower_bound_us=proved.value_us, bound_source=proved.witness)
    return _Subject(
        lambda rank: describe_schedule(shown, rank, notes), lambda: schedule_timeline(shown, notes)
    )


def _program(file: Path, content: bytes, machine: _Machine) -> _Subject:
    unfolded = unfold_file(file, content, "shown")
    if machine.sketch is None and machine.topology is None:
        if machine != _NOT_GIVEN:
            raise click.UsageError(_NEEDS_MACHINE)
        return _Subject(unfolded.describe, lambda: _untimed(unfolded, file))
    run, notes = _simulated(file, machine)
    if run.simulation.topology.executor is not None:
        notes = (*notes, _WITHOUT_EXECUTOR)
    facts = _facts(run)
    reported = (*facts, *(("note", note) for note in notes))
    return _Subject(
        lambda rank: unfolded.describe(rank, run.simulation, reported),
        lambda: unfolded.timeline(run.simulation, facts, notes),
    )


def _untimed(unfolded: Unfolded, file: Path) -> Timeline:
    try:
        return unfolded.timeline()
    except TacclError as fault:
        fault.path = str(file)
        raise


def _simulated(file: Path, machine: _Machine) -> tuple[SimulatedSize, tuple[str, ...]]:
    from taccl.analysis.simulated import (
        simulate_file,  # it loads the solvers, which all else here does without
    )

    sizes = [] if machine.size is None else [machine.size]
    simulated = simulate_file(
        file,
        sizes,
        sketch=machine.sketch,
        topology=machine.topology,
        nodes=machine.nodes,
        profile=machine.profile,
        collective=machine.collective,
        links_only=True,
    )
    return simulated.sizes[0], simulated.notes


def _facts(run: SimulatedSize) -> tuple[tuple[str, str], ...]:
    topology, chunk = run.simulation.topology, round(run.simulation.chunk_mb * units.MB)
    return (
        ("topology", topology_words(topology)),
        ("size", f"{units.format_size(run.size_bytes)}, in chunks of {units.format_size(chunk)}"),
        *time_facts(run.time_us, run.lower_bound_us, run.bound_source),
        ("algbw", units.format_bandwidth(run.algbw_gbps)),
        ("busbw", units.format_bandwidth(run.busbw_gbps)),
    )
