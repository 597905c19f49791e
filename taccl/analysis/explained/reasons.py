"""`explain()`: why there is no schedule, or none by a target time, in the words of the sketch.

What can stand in the way is requested in the order in which a request is understood: symmetries that the
network does not have, demands that cannot be met, a bound above the target. Only where nothing stands in the
way, a short search shows that there is a schedule.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from taccl.analysis.explained.explanation import Explanation
from taccl.analysis.explained.routes import longest_way, unmet_demands
from taccl.analysis.explained.symmetry import broken_symmetries
from taccl.analysis.explained.targets import is_above, not_by_any_schedule, target_missed
from taccl.encoding.bounds import BY_SEARCH, lower_bound
from taccl.encoding.core.options import SearchOptions
from taccl.errors import NoScheduleInTime, SolverError
from taccl.model import units
from taccl.model.engine_costs import LINKS_ONLY
from taccl.model.problem import Problem, Statement
from taccl.sketch import apply_sketch
from taccl.sketch.apply import check_ranks
from taccl.sketch.rules import TakenApart
from taccl.support.arguments import is_whole, shown
from taccl.support.budget import Budget, check_time_limit
from taccl.synthesis.inputs import Inputs, inputs_of
from taccl.synthesis.request import AnyCollective, Request, RequestKeywords, request_of, spelled_out
from taccl.synthesis.search import STOP, Answer, Found, Progress, search

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Above this many demands, which of them is farthest is not looked for.
_MOST_ROUTES = 100_000
#: Seconds for each linear program of the request's own bound.
_PROGRAM_S = 10.0

_HOPS_NOTE = "--max-hops asks whether such routes exist; a schedule that is found may take longer ones"


@spelled_out(RequestKeywords)
def explain(
    collective: AnyCollective | Request = "allgather",
    *,
    target_time: str | float | None = None,
    max_hops: int | None = None,
    time_limit: float = 30.0,
    **requested: Unpack[RequestKeywords],
) -> Explanation:
    """Whether a request can be met; if not, the minimal set of lines that stands in the way.

    Parameters
    ----------
    collective, requested : as in `taccl.make_problem`; the symmetries are those of the sketch.
    target_time : by when a schedule has to end, like `500us`, or a number of microseconds.
    max_hops : ask also whether each chunk has a way of at most this many links.
    time_limit : seconds for finding minimal sets, and then again for the search.

    Raises
    ------
    TacclError : the request itself is wrong (exit code 2); what `synthesize` would call impossible is no
        error here but an explanation.
    KeyboardInterrupt : the user stopped it.
    """
    check_time_limit(time_limit, example="30")
    if max_hops is not None and (not is_whole(max_hops) or max_hops < 1):
        raise SolverError(
            f"a way has at least one link, so max_hops is not {shown(max_hops)}", hint="--max-hops 2"
        )
    target_us = None if target_time is None else units.parse_time_us(target_time)
    request = request_of(collective, requested)
    inputs = inputs_of(request)
    return _explained(inputs, _chunks_said(inputs, request.chunks), target_us, max_hops, time_limit)


def _explained(
    requested: Inputs,
    chunks_said: Statement,
    target_us: float | None,
    max_hops: int | None,
    time_limit: float,
) -> Explanation:
    budget = Budget(time_limit)
    check_ranks(requested.collective, requested.topology)
    apart = TakenApart(requested.sketch, requested.topology)
    nothing_yet = Explanation(
        collective=requested.collective,
        topology=requested.topology.name,
        sketch=None if requested.sketch is None else requested.sketch.name,
        size_bytes=requested.size_bytes,
        verdict="impossible",
        target_us=target_us,
        max_hops=max_hops,
        sums_at=requested.topology.sums_for(requested.collective),
    )
    broken = tuple(broken_symmetries(apart, budget))
    unmet = unmet_demands(requested, apart, max_hops, budget)
    requested_paths = replace(nothing_yet, unmet=unmet)
    if broken or unmet.unmet:
        return replace(requested_paths, conflicts=(*broken, *unmet.conflicts), helps=unmet.helps)
    applied = apply_sketch(
        requested.sketch,
        requested.topology,
        requested.collective,
        requested.chunk_mb,
        max_group=requested.max_group,
    )
    bound = lower_bound(applied.problem, _PROGRAM_S)
    hops_notes = () if max_hops is None else (_HOPS_NOTE,)
    cost_notes = () if requested.topology.executor is None else (LINKS_ONLY,)
    notes = (*requested.notes, *applied.notes, *hops_notes, *cost_notes)
    requested_bound = replace(requested_paths, bound=bound, notes=notes)
    if target_us is not None and is_above(bound, target_us):
        missed = target_missed(requested, apart, chunks_said, bound, target_us, budget)
        return replace(
            requested_bound, conflicts=(missed.conflict,), helps=missed.helps, machine_bound=missed.machine
        )
    found = _first_found(applied.problem, target_us, time_limit)
    if target_us is not None and found is not None:
        proved = BY_SEARCH.proof(found.lower_bound_us, found.bound_source)
        if is_above(proved, target_us):
            conflict = not_by_any_schedule(proved, target_us)
            return replace(requested_bound, conflicts=(conflict,), bound=proved, found=found)
    in_time = found is not None and (target_us is None or found.schedule.makespan_us <= target_us)
    return replace(
        requested_bound,
        verdict="possible" if in_time else "not excluded",
        found=found,
        way=longest_way(applied.problem) if unmet.demands <= _MOST_ROUTES else None,
    )


def _first_found(problem: Problem, target_us: float | None, time_limit: float) -> Found | None:
    """The first schedule by the target, or the best when the time is up; None if there is none by then."""

    def stop_when_enough(progress: Progress) -> Answer:
        time_us = progress.time_us
        return STOP if time_us is not None and (target_us is None or time_us <= target_us) else None

    try:
        return search(problem, SearchOptions(time_limit_s=time_limit), stop_when_enough)
    except NoScheduleInTime:
        return None


def _chunks_said(requested: Inputs, chunks: int | str | None) -> Statement:
    """What asks for this many chunks per rank."""
    number = requested.collective.chunks_per_rank
    if chunks is not None:
        return Statement(f"--chunks {number}: each rank's part is cut into this many")
    sketch = requested.sketch
    if sketch is not None and sketch.chunks_line is not None:
        text = f"chunks_per_rank: {number}: each rank's part is cut into this many"
        return Statement(text, sketch.path, sketch.chunks_line)
    return Statement(f"{number} chunk{'s' if number != 1 else ''} for each rank's part")
