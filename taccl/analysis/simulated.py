"""How long a file takes on a machine: an MSCCL-XML or a schedule, at several sizes, each with a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from taccl.analysis.bound import believed, claim_notes
from taccl.analysis.simulated_result import SimulatedFile, SimulatedSize
from taccl.analysis.simulated_subject import Subject, of_file, of_schedule
from taccl.api import make_problem
from taccl.backend.program import Protocol
from taccl.backend.simulate.settings import Arbitration, SimulationSettings
from taccl.backend.targets.registry import target_executed_by
from taccl.encoding.bounds import lower_bound
from taccl.errors import TacclError, TopologyError, UnitError
from taccl.model import units
from taccl.model.collectives import COLLECTIVES, calls_served, chunk_bytes, parts_of_call, rounding_notes
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import begins_as_schedule, read_schedule
from taccl.support.arguments import file_path, shown
from taccl.support.files import read_bytes
from taccl.synthesis.predicted import execute, file_bound
from taccl.synthesis.request import MachineKeywords, Request, spelled_out

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Findings of verification that are written out.
_FINDINGS = 5
_TOO_FAST = "no bound: the file is faster than any that is right; taccl verify says what is missing"
_BOUND_WRONG = (
    "no bound: the file is faster than the bound, though verification finds its result right. The bound is "
    "wrong, which is a fault of taccl; please report it with the file and this command"
)


def _at_size(
    subject: Subject, problem: Problem, settings: SimulationSettings, *, own: bool
) -> tuple[SimulatedSize, Sequence[str]]:
    """A simulation next to its bound, and notes on what the file of a schedule claims.

    `own` : whether the problem is on the machine of the schedule's own file.
    """
    file, saved = subject.file, subject.saved
    chunk_mb = problem.chunk_mb * subject.cut
    schedule_us = None
    if problem.topology.executor is not None and not settings.links_only:
        called = execute(file, problem, chunk_mb, settings)
        simulation, bound = replace(called.simulated, time_us=called.time_us), called.bound
    elif file.relays is None:  # it may cut chunks however finely
        simulation = file.simulate(problem.topology, chunk_mb, settings)
        bound = file_bound(problem, file, file.protocol, links_only=True)
    else:
        simulation = file.simulate(problem.topology, chunk_mb, settings)
        bound = lower_bound(problem)
        if saved is not None and own and saved.schedule.problem.size_bytes == problem.size_bytes:
            schedule_us = saved.schedule.makespan_us
    run = SimulatedSize(
        size_bytes=problem.size_bytes,
        simulation=simulation,
        lower_bound_us=bound.value_us,
        bound_source=bound.witness,
        schedule_us=schedule_us,
        busbw_factor=subject.collective.busbw_factor,
    )
    return run, () if saved is None or schedule_us is None else claim_notes(saved, bound)


@spelled_out(MachineKeywords)
def simulate_file(
    path: str | Path,
    sizes: Sequence[str | int] = (),
    *,
    collective: str | Path | None = None,
    root: int | None = None,
    protocol: Protocol | None = None,
    slots: int | None = None,
    arbitration: Arbitration = "urgent",
    copy_us_per_mb: float = 0.0,
    links_only: bool = False,
    proxy_us: float = 0.0,
    **machine: Unpack[MachineKeywords],
) -> SimulatedFile:
    """Simulate a program on a machine, at each size.

    Parameters
    ----------
    path : an MSCCL-XML file, a plan for MSCCL++, or the JSON file of a schedule, which is lowered first. A
        schedule's file also has its machine; `topology` or `sketch` put another in its place.
    sizes : what nccl-tests prints as `size`, rounded down to a whole number of the program's chunks; by
        default the size that the schedule or sketch is for.
    machine : topology, sketch, nodes, profile, occupancy, nic_sharing, as in `taccl.Request`.
    collective : the YAML file of the custom collective that an MSCCL-XML is for.
    root : of broadcast, reduce, gather and scatter in an MSCCL-XML; by default the one that fits.
    protocol, slots, arbitration, copy_us_per_mb : as in `simulate_program`. Where the machine has an
        executor, that says what the last three do, and the file's own protocol has its costs, too.
    links_only : whether to leave out what the machine says of its executor.
    proxy_us : of a plan, as in `simulate_plan`; it has no use for the four above.

    Raises
    ------
    TacclError : the subclass says whether a file or the request is wrong, or the program cannot run.
    """
    path = file_path(path)
    settings = SimulationSettings(protocol, slots, arbitration, copy_us_per_mb, links_only, proxy_us)
    settings.check()
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise UnitError(f"sizes must be a list of sizes, not {shown(sizes)}", hint='["1MB", "64MB"]')
    subject = _subject(path, collective, root)
    requested = replace(_of_no_machine(subject), **machine)
    stated = [_problem(subject, requested, size) for size in sizes or (subject.default_size,)]
    problems, sums_at = [problem for problem, _ in stated], stated[0][1]
    runs = []
    claims: dict[str, None] = {}
    for problem in problems:
        try:
            run, claimed = _at_size(subject, problem, settings, own=_names_no_machine(requested))
        except TacclError as fault:
            fault.path = str(path)
            raise
        runs.append(run)
        claims |= dict.fromkeys(claimed)
    remarks, wrong = list(_remarks(subject, runs)), tuple[str, ...]()
    executor = None if links_only else problems[0].topology.executor
    if executor is not None and executor.origin is not None:
        remarks.append(executor.origin.note(problem.size_bytes for problem in problems))
    if subject.file.unbounded is not None and not problems[0].topology.num_helpers:
        remarks.append(subject.file.unbounded)
        runs = [run.without_bound() for run in runs]
    elif any(run.is_too_fast for run in runs):
        wrong = _wrong(subject)
        remarks.append(_TOO_FAST if wrong else _BOUND_WRONG)
        runs = [run.without_bound() for run in runs]
    return SimulatedFile(
        program=subject.file,
        collective=subject.collective,
        topology=problems[0].topology.name,
        sizes=tuple(runs),
        notes=(*_rounding_notes(subject, sizes, runs), *remarks, *claims),
        path=str(path),
        protocol=protocol,
        arbitration=arbitration,
        wrong=wrong,
        sums_at=sums_at,
    )


def _subject(path: str | Path, collective: str | Path | None, root: int | None) -> Subject:
    content = read_bytes(path)
    if begins_as_schedule(content):
        return of_schedule(read_schedule(path))
    return of_file(path, content, collective, root)


def _of_no_machine(subject: Subject) -> Request:
    return Request(subject.collective, target=target_executed_by(subject.file.executed_by))


def _names_no_machine(requested: Request) -> bool:
    return requested.topology is None and requested.sketch is None


def _problem(subject: Subject, requested: Request, size: str | int | None) -> tuple[Problem, str]:
    """What the program answers at a size, on all links that the machine or its sketch has.

    With it, where that machine makes sums other than at GPUs (`PhysicalTopology.sums_for`).
    """
    sums_at = ""
    chunks = subject.num_chunks
    size_bytes = None if size is None else chunks * chunk_bytes(chunks, units.parse_size(size))
    if subject.saved is not None and _names_no_machine(requested):
        if replace(requested, executor=requested.executor or None) != _of_no_machine(subject):
            raise TopologyError(
                "the machine is the one in the schedule's file", hint="--topology or --sketch"
            )
        problem = believed(subject.saved.schedule.problem)
    else:
        collective = subject.collective
        rounded = None
        if size_bytes is not None:  # finer chunks than the program's need not be whole bytes
            rounded = -(-size_bytes // collective.chunks_per_size) * collective.chunks_per_size
        stated = make_problem(replace(requested, size=rounded))
        problem = replace(stated.problem, symmetry=(), limits=RoutingLimits())
        sums_at = stated.topology.sums_for(collective)
    if size_bytes is None:
        size_bytes = problem.size_bytes
    chunk_mb = size_bytes / units.MB / subject.collective.chunks_per_size
    return replace(problem, chunk_mb=chunk_mb), sums_at


def _rounding_notes(
    subject: Subject, requested: Sequence[str | int], runs: Sequence[SimulatedSize]
) -> Iterator[str]:
    """The sizes that became smaller, since they are no whole number of the program's chunks."""
    chunks, unequal = subject.num_chunks, subject.file.is_unequal
    for size, run in zip(requested, runs, strict=False):  # none is requested where it is the schedule's own
        yield from rounding_notes(units.parse_size(size), run.size_bytes // chunks, chunks, unequal=unequal)


def _remarks(subject: Subject, runs: Sequence[SimulatedSize]) -> Iterator[str]:
    program = subject.file
    name, ranks = subject.collective.name, program.num_ranks
    per_call = parts_of_call(name, ranks)
    outside = [
        units.format_size(run.size_bytes)
        for run in runs
        if not program.min_bytes <= run.size_bytes // per_call <= (program.max_bytes or math.inf)
    ]
    if outside and subject.saved is None:
        yield (
            f"the file is for calls of {calls_served(name, ranks, program.min_bytes, program.max_bytes)}, "
            f"so no runtime would use it at {', '.join(outside)}"
        )


def _wrong(subject: Subject) -> tuple[str, ...]:
    """What verification finds in a file; empty where that is right."""
    collective = subject.collective
    custom = None if collective.name in COLLECTIVES else collective
    report = subject.file.verify(custom, collective.root)
    facts = report.facts
    if "right" in (facts.in_place, facts.out_of_place) and not facts.races:
        return ()
    found = [str(error) for error in report.errors[:_FINDINGS]]
    return tuple(found) or ("its result is right neither in place nor out of place",)
