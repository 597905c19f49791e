"""How long a file takes on a machine: an MSCCL-XML or a schedule, at several sizes, each with a bound."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from taccl.analysis.reprove import believed, claim_notes
from taccl.analysis.simulated_result import SimulatedFile, SimulatedSize
from taccl.analysis.simulated_subject import PlanSubject, Subject, of_file, of_plan, of_schedule
from taccl.api import make_problem
from taccl.backend.plan import ExecutionPlan
from taccl.backend.program import Protocol
from taccl.backend.simulate import Simulation, simulate_program
from taccl.backend.simulate.simulator import Arbitration
from taccl.backend.simulate_plan import PlanSimulation, simulate_plan
from taccl.backend.targets.registry import plan_of_file
from taccl.backend.verify.msccl_xml import verify_program
from taccl.backend.verify.mscclpp import verify_plan
from taccl.encoding.bounds import Proof, lower_bound
from taccl.errors import TacclError, TopologyError, UnitError
from taccl.model import units
from taccl.model.collectives import COLLECTIVES, chunk_bytes, rounding_notes
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import is_schedule, read_schedule
from taccl.model.schedule.parquet import MAGIC as PARQUET
from taccl.support.arguments import file_path, number, shown, whole_number, word
from taccl.support.files import read_bytes
from taccl.synthesis.predicted import Execution, execute, plan_bound
from taccl.synthesis.request import MachineKeywords, Request, spelled_out

if TYPE_CHECKING:
    from typing_extensions import Unpack

_PER_RANK = ("gather", "scatter")
_MOST_SLOTS = 2**20
#: Findings of verification that are written out.
_FINDINGS = 5
#: Why no bound stands next to a plan with switch channels.
_IN_SWITCH = (
    "no bound: the plan sums or copies in a switch, and bounds are for programs that send over links alone; "
    "its time is of the same bytes over links, so the plan may be faster"
)
_TOO_FAST = "no bound: the file is faster than any that is right; taccl verify says what is missing"
_BOUND_WRONG = (
    "no bound: the file is faster than the bound, though verification finds its result right. The bound is "
    "wrong, which is a fault of taccl; please report it with the file and this command"
)


def _at_size(
    subject: Subject | PlanSubject, problem: Problem, settings: _Settings, *, own: bool
) -> tuple[SimulatedSize, Sequence[str]]:
    """A simulation next to its bound, and notes on what the file of a schedule claims."""
    simulation = _simulated(subject, problem, settings)
    bound, schedule_us = _bound_of(subject, problem, simulation, settings, own=own)
    has_claims = subject.saved is not None and schedule_us is not None
    run = SimulatedSize(
        size_bytes=problem.size_bytes,
        simulation=simulation,
        lower_bound_us=bound.value_us,
        bound_source=bound.witness,
        schedule_us=schedule_us,
        busbw_factor=subject.collective.busbw_factor,
    )
    return run, claim_notes(subject.saved, bound) if has_claims and subject.saved is not None else ()


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
    settings = _Settings(protocol, slots, arbitration, copy_us_per_mb, links_only, proxy_us)
    settings.check()
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise UnitError(f"sizes must be a list of sizes, not {shown(sizes)}", hint='["1MB", "64MB"]')
    subject = _subject(path, collective, root)
    settings.check_for(subject)
    requested = Request(subject.collective, **machine)
    problems = [_problem(subject, requested, size) for size in sizes or (subject.default_size,)]
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
    if isinstance(subject.program, ExecutionPlan) and subject.program.uses_switches:
        remarks.append(_IN_SWITCH)
        runs = [run.without_bound() for run in runs]
    elif any(run.is_too_fast for run in runs):
        wrong = _wrong(subject)
        remarks.append(_TOO_FAST if wrong else _BOUND_WRONG)
        runs = [run.without_bound() for run in runs]
    return SimulatedFile(
        program=subject.program,
        collective=subject.collective,
        topology=problems[0].topology.name,
        sizes=tuple(runs),
        notes=(*_rounding_notes(subject, sizes, runs), *remarks, *claims),
        path=str(path),
        protocol=protocol,
        arbitration=arbitration,
        wrong=wrong,
    )


def _subject(path: str | Path, collective: str | Path | None, root: int | None) -> Subject | PlanSubject:
    content = read_bytes(path)
    plan = None if content.startswith(PARQUET) else plan_of_file(path, content)
    if plan is not None:
        return of_plan(plan, path, collective, root)
    return of_schedule(read_schedule(path)) if is_schedule(path) else of_file(path, collective, root)


@dataclass(frozen=True)
class _Settings:
    """How a file is simulated; see `simulate_file`."""

    protocol: Protocol | None
    slots: int | None
    arbitration: Arbitration
    copy_us_per_mb: float
    links_only: bool
    proxy_us: float

    def check(self) -> None:
        """Refuse values that mean nothing for any file."""
        if self.protocol is not None and not isinstance(self.protocol, Protocol):
            known = ", ".join(f"Protocol.{each.name}" for each in Protocol)
            raise TacclError(
                f"unknown protocol {shown(self.protocol)}", hint=f"one of {known}, of taccl.backend.program"
            )
        if self.slots is not None:
            whole_number(self.slots, "slots", TacclError, least=1, most=_MOST_SLOTS, hint="--slots 2")
        word(self.arbitration, "arbitration", get_args(Arbitration), TacclError)
        most, hint = units.MAX_BETA_US_PER_MB, "--copy-cost 5"
        what, unit = "the cost of a copy", "us per MB"
        number(self.copy_us_per_mb, what, TacclError, most=most, unit=unit, hint=hint)
        what, hint = "the cost of a push", "--proxy-cost 2"
        number(self.proxy_us, what, TacclError, most=units.MAX_ALPHA_US, unit="us", hint=hint)

    def check_for(self, subject: Subject | PlanSubject) -> None:
        """Refuse what means nothing for the class of program that it is."""
        if not isinstance(subject.program, ExecutionPlan):
            if self.proxy_us:
                raise TacclError("only plans have proxies", hint="leave --proxy-cost out")
            return
        for name, given in (
            ("another protocol", self.protocol is not None),
            ("a number of slots", self.slots is not None),
            ("an arbitration", self.arbitration != "urgent"),
            ("a copy cost", self.copy_us_per_mb > 0),
        ):
            if given:
                raise TacclError(
                    f"a plan is simulated as it is, so {name} means nothing", hint="leave it out"
                )

    def check_executed(self) -> None:
        """Refuse what is part of the machine's executor, or means nothing under it."""
        for name, given in (
            ("slots", self.slots is not None),
            ("arbitration", self.arbitration != "urgent"),
            ("copy cost", self.copy_us_per_mb > 0),
        ):
            if given:
                raise TacclError(
                    f"the machine's executor says how a file is executed, so a {name} of one's own means "
                    "nothing",
                    hint="change the section executor: of the machine's file, or take it out",
                )


def _simulated(
    subject: Subject | PlanSubject, problem: Problem, settings: _Settings
) -> Simulation | Execution | PlanSimulation:
    """One call: of a plan; of a program by the machine's executor; or by links alone."""
    chunk_mb = problem.chunk_mb * subject.cut
    if isinstance(subject.program, ExecutionPlan):
        return simulate_plan(
            subject.program,
            problem.topology,
            chunk_mb,
            proxy_us=settings.proxy_us,
            links_only=settings.links_only,
        )
    if problem.topology.executor is not None and not settings.links_only:
        settings.check_executed()
        protocol = subject.program.protocol if settings.protocol is None else settings.protocol
        return execute(subject.program, problem, subject.cut, protocol)
    return simulate_program(
        subject.program,
        problem.topology,
        chunk_mb,
        protocol=settings.protocol,
        slots=settings.slots,
        arbitration=settings.arbitration,
        copy_us_per_mb=settings.copy_us_per_mb,
    )


def _bound_of(
    subject: Subject | PlanSubject,
    problem: Problem,
    simulation: Simulation | Execution | PlanSimulation,
    settings: _Settings,
    own: bool,
) -> tuple[Proof, float | None]:
    """The bound of a call; and the schedule's time where this is its own machine and size (`own`)."""
    if isinstance(simulation, Execution):
        return simulation.bound, None
    if isinstance(subject.program, ExecutionPlan):
        return plan_bound(problem, subject.program, links_only=settings.links_only), None
    return _known_times(subject, problem, own)


def _names_no_machine(requested: Request) -> bool:
    return requested.topology is None and requested.sketch is None


def _problem(subject: Subject | PlanSubject, requested: Request, size: str | int | None) -> Problem:
    """What the program answers at a size, on all links that the machine or its sketch has."""
    chunks = subject.num_chunks
    size_bytes = None if size is None else chunks * chunk_bytes(chunks, units.parse_size(size))
    if subject.saved is not None and _names_no_machine(requested):
        if requested != Request(subject.collective):
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
    if size_bytes is None:
        size_bytes = problem.size_bytes
    return replace(problem, chunk_mb=size_bytes / units.MB / subject.collective.chunks_per_size)


def _rounding_notes(
    subject: Subject | PlanSubject, requested: Sequence[str | int], runs: Sequence[SimulatedSize]
) -> Iterator[str]:
    """The sizes that became smaller, since they are no whole number of the program's chunks."""
    chunks = subject.num_chunks
    for size, run in zip(requested, runs, strict=False):  # none is requested where it is the schedule's own
        yield from rounding_notes(units.parse_size(size), run.size_bytes // chunks, chunks)


def _known_times(subject: Subject | PlanSubject, problem: Problem, own: bool) -> tuple[Proof, float | None]:
    """The bound, proved here; and the schedule's time where this is its own machine and size."""
    saved = subject.saved
    if saved is None or not own or saved.schedule.problem.size_bytes != problem.size_bytes:
        return lower_bound(problem), None
    return lower_bound(problem), saved.schedule.makespan_us


def _remarks(subject: Subject | PlanSubject, runs: Sequence[SimulatedSize]) -> Iterator[str]:
    program = subject.program
    per_call = program.num_ranks if subject.collective.name in _PER_RANK else 1
    outside = [
        units.format_size(run.size_bytes)
        for run in runs
        if not program.min_bytes <= run.size_bytes // per_call <= (program.max_bytes or math.inf)
    ]
    if outside and subject.saved is None:
        yield (
            f"the file is for calls of {program.min_bytes} to {program.max_bytes} bytes, "
            f"so no runtime would use it at {', '.join(outside)}"
        )


def _wrong(subject: Subject | PlanSubject) -> tuple[str, ...]:
    """What verification finds in a file; empty where that is right."""
    collective = subject.collective
    custom = None if collective.name in COLLECTIVES else collective
    if isinstance(subject.program, ExecutionPlan):
        report = verify_plan(subject.program, collective=custom, root=collective.root)
    else:
        report = verify_program(subject.program, targets=None, collective=custom, root=collective.root)
    facts = report.facts
    if "right" in (facts.in_place, facts.out_of_place) and not facts.races:
        return ()
    found = [str(error) for error in report.errors[:_FINDINGS]]
    return tuple(found) or ("its result is right neither in place nor out of place",)
