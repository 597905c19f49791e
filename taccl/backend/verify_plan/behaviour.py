"""Meaning and concurrency of a plan: what it computes, in every order that the runtime allows.

Every size at which the plan cuts its ranges unlike is executed for some calls in a row. What follows from
one greedy run, from the order of its moments and from counting is put together here; what makes a plan well
formed (limits, traps) must not be known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.expected import MAX_CELLS
from taccl.backend.verify.report import Collector, Finding
from taccl.backend.verify_plan.counters import check_counters
from taccl.backend.verify_plan.deadlock import report_deadlock
from taccl.backend.verify_plan.execution import run
from taccl.backend.verify_plan.layout import Layout, chunk_sizes, cuts_of
from taccl.backend.verify_plan.meaning import check_meaning
from taccl.backend.verify_plan.races import check_races
from taccl.backend.verify_plan.unfold import unfold
from taccl.backend.verify_plan.wanted import what_is_wanted
from taccl.collective import Collective

#: Calls in a row: with double buffering the third uses what the first has used.
CALLS = 3
#: Acts of one call that are executed at most.
MOST_ACTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What was found out by executing.

    Parameters
    ----------
    result : of calls as the plan says it is called, in place or out of place.
    races : pairs of accesses that nothing orders (errors only); None: it never got so far.
    deadlock : whether it hangs; None: it was not executed.
    root : of rooted collectives, found or given.
    chunk_bytes : the sizes of chunks that were looked at.
    """

    result: Literal["right", "wrong", "not checked"] = "not checked"
    races: int | None = None
    deadlock: bool | None = None
    root: int | None = None
    chunk_bytes: tuple[int, ...] = ()


def behaviour(
    plan: ExecutionPlan,
    collector: Collector,
    *,
    collective: Collective | None = None,
    root: int | None = None,
) -> Behaviour:
    """Execute a plan whose structure is sound; findings go to `collector`.

    Parameters
    ----------
    collective : what it has to compute, where its name does not say so (test, custom).
    root : of rooted collectives; None: any that fits.
    """
    wanted = what_is_wanted(plan, collective, root, collector)
    if collector.fatal:
        return Behaviour(root=root)
    shift = wanted.shift if plan.in_place else None
    seen: set[tuple[object, ...]] = set()
    races, found_root = 0, root
    results = []
    looked_at = []
    hangs = False
    for chunk_bytes in chunk_sizes(plan):
        if _is_too_large(plan, chunk_bytes, collector):
            break
        unfolded = unfold(plan, Layout.of(plan, chunk_bytes, shift), collector)
        if collector.fatal or sum(map(len, unfolded.acts)) > MOST_ACTS:
            break
        looked_at.append(chunk_bytes)
        check_counters(unfolded, seen, collector)
        trace = run(unfolded, CALLS)
        if report_deadlock(unfolded, trace, seen, collector):
            hangs = True
            continue
        result, found_root = check_meaning(unfolded, trace, wanted, seen, collector)
        results.append(result)
        races += check_races(unfolded, trace.order, trace.record, seen, collector)
    verdict: Literal["right", "wrong", "not checked"] = "not checked"
    if results and not hangs:
        verdict = "wrong" if "wrong" in results else results[0]
    return Behaviour(
        result=verdict,
        races=races if results else None,
        deadlock=hangs if looked_at else None,
        root=found_root,
        chunk_bytes=tuple(looked_at),
    )


def _is_too_large(plan: ExecutionPlan, chunk_bytes: int, collector: Collector) -> bool:
    chunks = sum(each.input_chunks + each.output_chunks + 4 * each.scratch_chunks for each in plan.ranks)
    if chunks * len(cuts_of(plan, chunk_bytes)) <= MAX_CELLS:
        return False
    message = f"the buffers have {chunks} chunks in all, cut into more pieces than can be checked"
    collector.add(Finding("meaning", "error", "too-large", message), fatal=True)
    return True
