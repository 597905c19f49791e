"""`taccl show`: what a schedule or a program does, as text, as a page, as a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import lcm
from pathlib import Path
from typing import NamedTuple

import click

from taccl import units
from taccl.backend.msccl_xml import read_xml
from taccl.backend.program import Program
from taccl.backend.show import (
    Timeline,
    describe_program,
    describe_schedule,
    program_timeline,
    schedule_timeline,
    to_html,
    to_trace,
)
from taccl.backend.show.of_schedule import bandwidth_words, time_facts
from taccl.backend.simulate import Simulation, simulate_program
from taccl.backend.verify import verify_program
from taccl.cli.output import claim_outputs
from taccl.collectives import COLLECTIVES
from taccl.errors import CollectiveError
from taccl.files import write_atomically
from taccl.problem import Problem
from taccl.schedule import read_schedule

_FILE = click.Path(path_type=Path)

_FROM_RANK_TO_RANK = ("gather", "scatter")
_ROOTED = ("broadcast", "reduce", *_FROM_RANK_TO_RANK)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--rank", type=int, help="Only this rank, in the text.")
@click.option("--html", type=_FILE, metavar="OUT.html", help="Write a page for the browser.")
@click.option("--trace", type=_FILE, metavar="OUT.json", help="Write a trace for Perfetto (ui.perfetto.dev).")
@click.option("--sketch", metavar="NAME|FILE", help="For the times of an XML: the sketch to simulate it on.")
@click.option("--topology", metavar="NAME|FILE", help="For the times of an XML: the machine.")
@click.option("--nodes", type=int, help="Number of nodes. Default: the sketch's, else the topology's.")
@click.option("--profile", type=_FILE, help="A TACCL profile (JSON) with measured costs of the links.")
@click.option("--size", help="Size of the call, as nccl-tests counts it. Default: the sketch's.")
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
) -> None:
    """Show what FILE does: an MSCCL-XML, or a schedule (JSON) written by `taccl synthesize --schedule`.

    Without --html or --trace it is shown as text. A schedule knows its times. An XML has none: they come
    from a simulation on --topology or --sketch at --size, or else every step is shown as one unit of time.
    """
    claim_outputs((html, trace), (file, sketch, topology, profile))
    machine = _Machine(sketch, topology, nodes, profile, size)
    subject = _schedule(file, machine) if _is_json(file) else _program(file, machine)
    if html is None and trace is None:
        for line in subject.lines(rank):
            click.echo(line)
        return
    if rank is not None:
        raise click.UsageError("--rank is for the text; a page and a trace have all ranks")
    timeline = subject.timeline()
    for path, write in ((html, to_html), (trace, to_trace)):
        if path is not None:
            write_atomically(path, write(timeline))
            click.echo(f"wrote {path}: {len(timeline.bars)} bars, {timeline.transfers} transfers")
    for note in timeline.notes:
        click.echo(f"note: {note}")


class _Subject(NamedTuple):
    """A file that was read, and its two ways to be shown."""

    lines: Callable[[int | None], Iterable[str]]
    timeline: Callable[[], Timeline]


class _Machine(NamedTuple):
    """What the user says about where and at which size an XML is to run."""

    sketch: str | None
    topology: str | None
    nodes: int | None
    profile: Path | None
    size: str | None


def _is_json(file: Path) -> bool:
    """Whether a file begins like JSON; one that cannot be read is left for the XML reader to refuse."""
    try:
        with file.open("rb") as opened:
            return opened.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    except (OSError, ValueError):
        return False


def _schedule(file: Path, machine: _Machine) -> _Subject:
    if machine != _Machine(None, None, None, None, None):
        raise click.UsageError("a schedule knows its machine and its size; these options are for an XML")
    saved = read_schedule(file)
    return _Subject(lambda rank: describe_schedule(saved, rank), lambda: schedule_timeline(saved))


def _program(file: Path, machine: _Machine) -> _Subject:
    program = read_xml(file)
    simulation: Simulation | None = None
    facts: tuple[tuple[str, str], ...] = ()
    if machine.sketch is not None or machine.topology is not None:
        simulation, facts = _simulated(program, machine)
    elif machine != _Machine(None, None, None, None, None):
        raise click.UsageError("times need a machine: give --topology or --sketch as well")
    return _Subject(
        lambda rank: describe_program(program, rank, simulation, facts),
        lambda: program_timeline(program, simulation, facts),
    )


def _simulated(program: Program, machine: _Machine) -> tuple[Simulation, tuple[tuple[str, str], ...]]:
    from taccl.encoding.bounds import lower_bound

    problem = _problem(program, machine)
    collective = problem.collective
    per_call = collective.chunks_per_size
    in_file = program.chunks_per_loop * (program.num_ranks if collective.name in _FROM_RANK_TO_RANK else 1)
    chunk_mb = problem.chunk_mb * per_call / in_file
    simulation = simulate_program(program, problem.topology, chunk_mb)
    bound = lower_bound(problem)
    algbw = units.bandwidth_gbps(problem.size_bytes, simulation.time_us)
    chunk = units.format_size(round(chunk_mb * units.MB))
    return simulation, (
        ("topology", f"{problem.topology.name}, {problem.topology.occupancy}"),
        ("size", f"{units.format_size(problem.size_bytes)}, in chunks of {chunk}"),
        *time_facts(simulation.time_us, bound.value_us, bound.witness),
        ("algbw", bandwidth_words(algbw)),
        ("busbw", bandwidth_words(algbw * collective.busbw_factor)),
    )


def _problem(program: Program, machine: _Machine) -> Problem:
    """What the file answers, cut so finely that any cut of the file is made of whole chunks.

    So the bound of the problem is one for the file.
    """
    from taccl import api  # it loads the solvers, which all else here does without

    name = program.collective.lower().replace("_", "").replace("-", "")
    if name not in COLLECTIVES:
        raise CollectiveError(
            f"coll is {program.collective!r}, and what its size means is not known",
            hint="leave --topology, --sketch and --size out",
        )
    chunks, root = program.chunks_per_loop, None
    if name in _ROOTED:
        root = verify_program(program).facts.root
    else:
        chunks = lcm(chunks, program.num_ranks) // program.num_ranks
    return api.make_problem(name, chunks=chunks, root=root, **machine._asdict()).problem
