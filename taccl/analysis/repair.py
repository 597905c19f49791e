"""A schedule that runs, on the machine as it is now: valid at once, then as good as is found in time.

saved schedule, machine now ──► its sends, broken ones rerouted ──► search from there on ──► file
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taccl.analysis.under_way import rest_of
from taccl.encoding.core.mending import mended, share_kept
from taccl.encoding.core.options import SearchOptions
from taccl.errors import ScheduleError, TacclError
from taccl.model.collective import Collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.saved import read_schedule
from taccl.support.gc_paused import gc_paused
from taccl.support.schemas import stamped
from taccl.synthesis.autotune.file_choice import Searched, unpredicted
from taccl.synthesis.emit import emit
from taccl.synthesis.formulated import Formulated
from taccl.synthesis.job import Job, formulate
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import MachineKeywords, Request
from taccl.synthesis.result import Result
from taccl.synthesis.search import Observer
from taccl.synthesis.searcher import Alone, found_from

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Why a schedule is not mended of which `rest_of` has none.
_NO_SUMS = "what it still sends are no sums of what ranks have by then"
#: Of a search whose schedule is waited for.
TIME_LIMIT_S = 10.0


@dataclass(frozen=True, eq=False)
class Repaired:
    """What became of a schedule.

    Parameters
    ----------
    result : the schedule now, its bound and its files. before_us : of the old one, where it was made.
    first_us, first_s : of the old schedule with other routes for what is broken, its time and when it was
        there, in seconds from the call; None: it could not be mended, and `why` says why.
    kept : the share of the old transfers that are transfers still.
    at_us, from_us : when the collective was interrupted, and when its rest begins, which is the result: then
        all that was under way has ended. None: it begins anew.
    contributions : of the rest of sums, what each input is the sum of (`Rest.contributions`).
    """

    result: Result
    before_us: float
    first_us: float | None
    first_s: float | None
    kept: float
    at_us: float | None
    from_us: float | None = None
    why: str = ""
    contributions: dict[tuple[int, int], int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        result = self.result
        values = {
            "collective": result.collective_name,
            "topology": result.topology,
            "ranks": result.collective.num_members,
            "size_bytes": result.size_bytes,
            "before_us": self.before_us,
            "at_us": self.at_us,
            "from_us": self.from_us,
            "first_us": self.first_us,
            "first_s": None if self.first_s is None else round(self.first_s, 3),
            "not_mended": self.why or None,
            "time_us": result.time_us,
            "lower_bound_us": result.lower_bound_us,
            "bound_source": result.bound_source,
            "gap": result.gap,
            "kept": self.kept,
            "solve_s": round(result.solve_s, 3),
            "status": result.status,
            "notes": list(result.notes),
        }
        return stamped("taccl.repair/1", values)


def repair(
    path: str | Path,
    *,
    at_us: float | None = None,
    time_limit: float | None = TIME_LIMIT_S,
    effort: int | None = None,
    gap: float = 0.0,
    seed: int = 0,
    target: str = "all",
    file: bool = True,
    on_progress: Observer | None = None,
    **machine: Unpack[MachineKeywords],
) -> Repaired:
    """The schedule in a file, made valid for a machine, and improved for as long as there is time.

    Links alone count, and no sketch of the old schedule: whatever link there is may be used now.

    Parameters
    ----------
    path : what `--schedule` of `taccl synthesize` wrote.
    at_us : when the machine changed, in a call that began at 0. Chunks are then where they had arrived, those
        under way on links that are left still arrive, and the rest is planned from there on.
    time_limit, effort, gap, seed, target, file, on_progress : as in `taccl.synthesize`.
    machine : topology, nodes, without and so on, as in `taccl.Request`: the machine now.

    Raises
    ------
    TacclError : the file or the machine is wrong, it has other ranks, or nothing leads to one any more.
    KeyboardInterrupt : the user stopped it before there was any schedule; later, the best is kept.
    """
    began_s = time.monotonic()
    whole = read_schedule(path).schedule
    old: Schedule | None = whole
    stated, rest = whole.problem, None
    options = SearchOptions(time_limit_s=time_limit, gap=gap, seed=seed, effort=effort)
    job = _job(whole, target, OutputOptions(file=file and at_us is None), machine)
    if at_us is not None:
        rest = rest_of(whole, at_us, job.network.topology)
        old, stated = rest.schedule, rest.problem
    formulated = _formulated(job, stated)
    first, why = (None, _NO_SUMS) if old is None else first_of(old, formulated.problem)
    first_s = time.monotonic() - began_s
    found = found_from(formulated.problem, options.since(began_s), first, on_progress)
    choice = unpredicted(
        Searched(job.configurations[0], formulated, found, ((formulated, found),)),
        *([f"the old schedule was not mended: {why}"] if why else []),
    )
    result = emit(job, choice, options, Alone(), began_s)
    return Repaired(
        result,
        whole.makespan_us,
        None if first is None else first.makespan_us,
        None if first is None else first_s,
        0.0 if old is None else share_kept(old, result.schedule),
        at_us,
        None if rest is None else rest.from_us,
        why,
        {} if rest is None else rest.contributions,
    )


def _job(old: Schedule, target: str, output: OutputOptions, machine: MachineKeywords) -> Job:
    """The collective of the old schedule on the machine now."""
    problem = old.problem
    words: dict[str, Any] = {"executor": False, "occupancy": problem.topology.occupancy}
    words |= {name: value for name, value in machine.items() if value is not None}
    if words["executor"]:
        raise TacclError("a schedule is repaired by links alone", hint="leave --executor out")
    request = Request(
        collective=_of_members(problem.collective), size=problem.size_bytes, target=target, **words
    )
    return formulate(request, output)


def _of_members(collective: Collective) -> Collective:
    """The collective without the helpers of the machine that it was for; the machine now brings its own."""
    members = collective.num_ranks - collective.num_helpers
    return replace(
        collective, num_ranks=members, num_helpers=0, in_place_shift=collective.in_place_shift[:members]
    )


def _formulated(job: Job, before: Problem) -> Formulated:
    """The problem now, with the sizes and moments of the old one."""
    formulated = job.problem(job.configurations[0])
    helpers = formulated.problem.topology.num_helpers
    problem = replace(
        formulated.problem,
        collective=_of_members(before.collective).with_helpers(helpers),
        chunk_mb=before.chunk_mb,
        sizes=before.sizes,
        ready_us=before.ready_us,
        tail_us=before.tail_us,
        sum_work_us=before.sum_work_us,
        symmetry=(),
    )
    return replace(formulated, problem=problem)


def first_of(old: Schedule, problem: Problem) -> tuple[Schedule | None, str]:
    """The old schedule mended and checked; or why that cannot be."""
    try:
        with gc_paused():
            first = mended(old, problem)
            first.check()
    except ScheduleError as fault:
        return None, "; ".join((fault.message, *fault.findings[:1]))
    return first, ""
