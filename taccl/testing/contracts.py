"""What engines, bounds, targets and formats promise, as checks that can be run on one from outside.

The problems for engines can be drawn on a napkin. Each check calls the
value as `taccl` does and raises AssertionError with the promise that is broken. Nothing is printed, and
nothing is registered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from taccl.api import make_problem
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.requested import RunRequested
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.target import AnyTarget, Lowered, LoweringOptions
from taccl.backend.unfolded import Unfolded
from taccl.encoding.bounds import Bound, Proof, proofs
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.engines.engine import Engine, Run, Verdict
from taccl.encoding.instance import Instance
from taccl.errors import ScheduleError, TacclError
from taccl.model import units
from taccl.model.collectives import COLLECTIVES
from taccl.model.problem import Problem
from taccl.model.schedule import TOLERANCE_US, Schedule
from taccl.model.tolerance import contradicts
from taccl.support.budget import Budget
from taccl.support.reading import Format
from taccl.synthesis.search import search

#: Units of work for one run of an engine, and for all proofs of a bound. Our engines find no more in 300.
_EFFORT, _PROVING = 100, 20_000
#: Seconds for one run of a file.
_RUNNING_S = 60.0
#: A text is cut after this many of its lines, evenly spread.
_CUTS = 40


def check_engine(engine: Engine, problems: Iterable[Problem] | None = None) -> None:
    """Check that an engine keeps its promises on small problems.

    It serves a problem or says why not in a sentence. What it yields are valid schedules of that problem,
    each faster than those before and than the one it was given, and bounds that no schedule beats. The same
    seed and effort give the same schedules. With one unit of work it ends by itself.

    Parameters
    ----------
    problems : None: `napkin_problems()`.

    Raises
    ------
    AssertionError : with the promise that it breaks, and on which problem.
    """
    for problem in napkin_problems() if problems is None else problems:
        what = f"engine {engine.name} on {problem!r}"
        verdict = engine.can(Instance(problem))
        _require(isinstance(verdict, Verdict), what, f"answers {verdict!r}, which is no Verdict")
        if not verdict:
            _require(_is_sentence(verdict.reason), what, f"declines without a reason: {verdict.reason!r}")
            continue
        run = engine.run
        if Instance(problem).features & {"reductions"} and not engine.takes_sums:
            run = by_phases(engine.run)
        first = list(_answers(run, problem, None, _EFFORT, what))
        again = list(_answers(run, problem, None, _EFFORT, what))
        times, times_again = ([schedule.makespan_us for schedule in each] for each in (first, again))
        _require(times == times_again, what, f"one seed gives {times} and then {times_again}")
        list(_answers(run, problem, first[-1] if first else None, 1, what))


def _answers(
    run: Run, problem: Problem, incumbent: Schedule | None, units: int, what: str
) -> Iterator[Schedule]:
    """The schedules of one run, checked; `incumbent` : the one that it is given."""
    best_us = math.inf if incumbent is None else incumbent.makespan_us
    bound_us = 0.0
    options = SearchOptions(effort=units)
    for update in run(Instance(problem), options, Budget.of_work(units), incumbent):
        bound_us = max(bound_us, update.lower_bound_us)
        if update.schedule is not None and update.schedule is not incumbent:
            schedule = update.schedule
            try:
                schedule.check()
            except ScheduleError as fault:
                raise AssertionError(f"{what} yields a schedule that is not valid: {fault}") from None
            _require(schedule.problem.collective == problem.collective, what, "answers another collective")
            time_us = schedule.makespan_us
            _require(
                time_us < best_us + TOLERANCE_US,
                what,
                f"yields {time_us:.3f} us after {best_us:.3f} us, which is no improvement",
            )
            best_us = min(best_us, time_us)
            yield schedule
        beaten = f"proves {bound_us:.3f} us, and {best_us:.3f} us is possible"
        _require(not contradicts(bound_us, best_us), what, beaten)


def check_bound(bound: Bound, schedules: Iterable[Schedule] | None = None) -> None:
    """Check that what a bound proves is true of valid schedules, and is a proof of its own.

    A bound that says nothing of a problem keeps this promise, so hold it against exhaustive search, too.

    Parameters
    ----------
    schedules : valid ones; None: `napkin_schedules()`.

    Raises
    ------
    AssertionError : a bound above a schedule's time, or a proof without a witness.
    """
    for schedule in napkin_schedules() if schedules is None else schedules:
        what = f"bound {bound.name} on {schedule.problem!r}"
        instance = Instance(schedule.problem)
        reason = bound.reason_against(instance)
        _require(not reason or _is_sentence(reason), what, f"declines without a reason: {reason!r}")
        for proof in proofs(instance, Budget.of_work(_PROVING), (bound,)):
            _require(isinstance(proof, Proof), what, f"yields {proof!r}, which is no Proof")
            _require(bool(proof.kind and proof.witness), what, "has no kind or no witness")
            _require(proof.value_us >= 0, what, f"proves {proof.value_us} us")
            _require(
                not contradicts(proof.value_us, schedule.makespan_us),
                what,
                f"proves {proof.value_us:.3f} us ({proof.witness}), and a valid schedule takes "
                f"{schedule.makespan_us:.3f} us",
            )


def check_target(target: AnyTarget, schedules: Iterable[Schedule] | None = None) -> None:
    """Check that a target's files hold what they say, and that it refuses what it cannot hold.

    A schedule is refused with a reason before it is lowered, or its files pass the target's own verification
    after they are read back. A damaged file is refused or found wrong, never taken. What its files
    unfold into, if they do, computes the collective on arrays, takes time on the network, and can be shown.

    Parameters
    ----------
    schedules : valid ones; None: `napkin_schedules()`.

    Raises
    ------
    AssertionError : with the promise that it breaks.
    """
    options = LoweringOptions(protocol=target.protocols[0])
    served = 0
    for schedule in napkin_schedules() if schedules is None else schedules:
        what = f"target {target.name} on {schedule.problem!r}"
        try:
            target.check_problem(schedule.problem, options)
        except TacclError as refused:
            _require(_is_sentence(refused.message), what, "refuses without a reason")
            continue
        for lowered in target.lower(schedule, options):
            served += 1
            _require(bool(lowered.readers), what, "writes a file that nobody reads")
            _check_file(target, lowered, schedule, what)
    _require(served > 0, f"target {target.name}", "has no file for any of the schedules")


def _check_file(target: AnyTarget, lowered: Lowered[Any], schedule: Schedule, what: str) -> None:
    collective = schedule.problem.collective
    try:
        text = target.verified_text(lowered, collective)
    except TacclError as fault:
        raise AssertionError(f"{what} writes a file that it finds wrong itself: {fault}") from None
    _require(text == target.write(lowered.program), what, "writes one program in two forms")
    _require(target.knows is None or target.knows(text.encode()), what, "does not know its own file")
    if target.parse is not None and target.unfold is not None:
        _check_unfolded(target.unfold(target.parse(text.encode(), None, lambda: None)), schedule, what)
    cut = text[: len(text) // 2]
    try:
        report = target.verify(
            target.read(cut, None), readers=lowered.readers, collective=collective, root=None
        )
    except TacclError:
        return
    _require(not report.ok, what, "takes half of a file for a whole one")


def _check_unfolded(file: Unfolded, schedule: Schedule, what: str) -> None:
    """Execution shares nothing with verification: each is held against the other."""
    problem = schedule.problem
    collective = None if problem.collective.name in COLLECTIVES else problem.collective
    try:
        file.check(collective, None)
        root = problem.collective.root
        size = max(file.min_bytes, units.KB * file.chunks_of_size)
        requested = RunRequested(
            Deadline(_RUNNING_S), size_bytes=size, collective=collective, root=root, ranks_as="turns"
        )
        for run in file.run(requested):
            _require(run.verdict == "right", what, f"has a file that runs {run.verdict}: {run.findings}")
        chunk_mb = problem.size_bytes / units.MB / file.chunks_of_size
        simulated = file.simulate(problem.topology, chunk_mb, SimulationSettings(links_only=True))
        timeline = file.timeline(simulated)
    except TacclError as fault:
        raise AssertionError(f"{what} has a file that is verified, but not executed: {fault}") from None
    _require(simulated.time_us > 0, what, "has a file that takes no time")
    _require(len(timeline.bars) > 0 and any(file.describe()), what, "has a file of which nothing is shown")


def check_format(format_: Format[Callable[[str, str | None], object]], sample: str) -> None:
    """Check that a format knows its sample, reads it, and refuses what is left of it after a cut.

    Parameters
    ----------
    sample : a text of this format.

    Raises
    ------
    AssertionError : it does not know or read the sample, knows an empty text, or breaks down over a part of
        the sample with another error than a `TacclError`.
    """
    what, path = f"format {format_.name}", "sample.txt"
    _require(_is_sentence(format_.summary), what, "has no summary")
    _require(bool(format_.looks_like(sample)), what, "does not know its sample")
    _require(not format_.looks_like(""), what, "knows an empty text")
    try:
        format_.read(sample, path)
    except TacclError as fault:
        raise AssertionError(f"{what} refuses its sample: {fault}") from None
    lines = sample.splitlines(keepends=True)
    for end in range(0, len(lines), max(1, len(lines) // _CUTS)):
        part = "".join(lines[:end])
        try:
            if format_.looks_like(part):
                format_.read(part, path)
        except TacclError:
            continue
        except Exception as fault:
            raise AssertionError(f"{what} breaks down over the first {end} lines: {fault!r}") from fault


def _is_sentence(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text


def _require(holds: bool, what: str, fault: str) -> None:
    if not holds:
        raise AssertionError(f"{what}: {fault}")


#: A machine, a collective, chunks in each part.
_NAPKINS = (
    ("ring:3", "allgather", 1),
    ("ring-oneway:3", "allgather", 2),
    ("switch:4", "alltoall", 1),
    ("mesh:2x2", "broadcast", 2),
    ("ring:4", "reducescatter", 1),
    ("full:3", "allreduce", 1),
)
#: Units of work for a schedule.
_EFFORT = 400


def napkin_problems() -> Iterator[Problem]:
    """Six collectives of 3 MB on six machines of three or four ranks."""
    for machine, collective, chunks in _NAPKINS:
        yield make_problem(collective, topology=machine, size="3MB", chunks=chunks).problem


def napkin_schedules() -> Iterator[Schedule]:
    """A good schedule for each of `napkin_problems`; the same ones in each call."""
    for problem in napkin_problems():
        yield search(problem, SearchOptions(effort=_EFFORT)).schedule
