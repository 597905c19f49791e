"""Meaning and concurrency of a plan: what it computes, in every order that the runtime allows.

Every size at which the plan cuts its ranges unlike is executed for some calls in a row. What follows from
one greedy run, from the order of its moments and from counting is put together here; what makes a plan well
formed (limits, traps) must not be known here.
"""

from __future__ import annotations

from dataclasses import replace

from taccl.backend.machine.acts import Machine
from taccl.backend.machine.contents import carry_out
from taccl.backend.machine.counters import check_counters
from taccl.backend.machine.deadlock import deadlock_finding
from taccl.backend.machine.meaning import check_meaning, closest
from taccl.backend.machine.moments import order_of_threads
from taccl.backend.machine.race_findings import check_races_of_threads
from taccl.backend.machine.report import Collector, Facts, Finding, Severity, Verdict
from taccl.backend.machine.run import run_calls
from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.mscclpp.layout import chunk_sizes, layout_of, num_turns
from taccl.backend.verify.mscclpp.memory import check_in_place_addressing
from taccl.backend.verify.mscclpp.subject import Subject
from taccl.backend.verify.mscclpp.unfold import unfold
from taccl.backend.verify.mscclpp.wanted import Wanted, what_is_wanted
from taccl.model.collective import Collective, IntArray

#: Calls in a row: with double buffering the third uses what the first has used.
CALLS = 3
#: The most acts of a call, and the most accesses to cells in all calls, that are looked at.
MOST_ACTS = 100_000
MOST_ACCESSES = 8_000_000
#: The most acts of a plan that is also executed as it does not say that it is called.
MOST_ACTS_THE_OTHER_WAY = 2_000
#: The largest chunk, in bytes.
MOST_BYTES = 2**40


def behaviour(
    plan: ExecutionPlan,
    collector: Collector,
    facts: Facts,
    *,
    collective: Collective | None,
    root: int | None,
) -> Facts:
    """The facts with all that only an execution shows; findings go to the collector.

    Parameters
    ----------
    plan : its structure is sound: ids are positions, every number names something, every range is inside its
        buffer, and operations have the operands that `signatures` tells.
    facts : what is known before.
    collective : what it has to compute, where the plan does not say so (test, custom).
    root : of rooted collectives; None: any that fits.
    """
    wanted = what_is_wanted(plan, collective, root, collector)
    if collector.fatal:
        return facts
    shift = wanted.shift if plan.in_place else None
    seen: set[tuple[object, ...]] = set()
    races, hangs = 0, False
    verdicts: list[Verdict] = []
    for chunk_bytes in chunk_sizes(plan):
        machine = _unfold_if_small(plan, chunk_bytes, shift, bool(verdicts) or hangs, collector)
        if machine is None or collector.fatal:
            break
        check_counters(machine, seen, collector)
        judged = _judge(machine, wanted, seen, collector)
        if judged is None:
            hangs = True
        else:
            verdict, root, more = judged
            verdicts.append(verdict)
            races += more
    facts = replace(facts, root=root, deadlock=hangs if hangs or verdicts else None)
    if hangs or not verdicts:
        return facts
    result: Verdict = "wrong" if "wrong" in verdicts else verdicts[0]
    other: Verdict = "right" if result == "right" and _serves_the_other_way(plan, wanted) else "not claimed"
    in_place, out_of_place = (result, other) if plan.in_place else (other, result)
    return replace(facts, races=races, in_place=in_place, out_of_place=out_of_place)


def _judge(
    machine: Machine, wanted: Wanted, seen: set[tuple[object, ...]], collector: Collector
) -> tuple[Verdict, int | None, int] | None:
    """What some calls of one size compute, for which root, and how many races there are; None: they hang."""
    run = run_calls(machine, CALLS)
    if not run.ends:
        if ("deadlock",) not in seen:
            seen.add(("deadlock",))
            when, memory = f"in call {len(run.sequence)}", (machine.moves, machine.layout)
            hint = "let whoever it waits for signal before it waits itself; give every wait its signal"
            collector.add(deadlock_finding(machine.acts, machine.names, run.stuck, when, hint, memory=memory))
        return None
    contents = carry_out(machine, run)
    expectation = closest(machine, contents, wanted.alternatives)
    verdict = check_meaning(machine, contents, expectation, seen, collector)
    races = check_races_of_threads(machine, contents, *order_of_threads(machine, run), seen, collector)
    return verdict, None if expectation is None else expectation.root, races


def _serves_the_other_way(plan: ExecutionPlan, wanted: Wanted) -> bool:
    """Whether a short plan would also be right if it were called out of place instead of in place, or so."""
    turned = replace(plan, in_place=not plan.in_place)
    if not wanted.alternatives:
        return False
    silent = Collector()
    check_in_place_addressing(Subject(turned, silent))
    for chunk_bytes in () if silent.findings() else chunk_sizes(turned):
        shift = wanted.shift if turned.in_place else None
        machine = unfold(turned, layout_of(turned, chunk_bytes, shift), silent)
        if len(machine.acts) > MOST_ACTS_THE_OTHER_WAY:
            return False
        _judge(machine, wanted, set(), silent)
    return all(finding.severity == "warning" for finding in silent.findings())


def _unfold_if_small(
    plan: ExecutionPlan,
    chunk_bytes: int,
    shift: IntArray | None,
    is_checked: bool,
    collector: Collector,
) -> Machine | None:
    """The acts of a call; None, and a finding, where they are too many. `is_checked`: smaller calls are."""
    too_much, machine = _too_many_acts(plan, chunk_bytes), None
    if too_much is None:
        machine = unfold(plan, layout_of(plan, chunk_bytes, shift), collector)
        too_much = _too_many_accesses(machine)
    if too_much is None:
        return machine
    message = f"{too_much} in calls with chunks of {chunk_bytes} bytes are more than can be executed"
    severity: Severity = "warning" if is_checked else "error"
    collector.add(Finding("meaning", severity, "too-large", message), fatal=not is_checked)
    return None


def _too_many_acts(plan: ExecutionPlan, chunk_bytes: int) -> str | None:
    """What is too much, in words; None if nothing is."""
    acts = sum(
        num_turns(operation, chunk_bytes) * len(operation.inner) if operation.turns is not None else 1
        for rank in plan.ranks
        for block in rank.blocks
        for operation in block.operations
    )
    return None if acts <= MOST_ACTS and chunk_bytes <= MOST_BYTES else f"{acts} operations"


def _too_many_accesses(machine: Machine) -> str | None:
    accesses = CALLS * int(machine.moves.count[machine.moves.move].sum())
    accesses += CALLS * machine.layout.num_cells
    return None if accesses <= MOST_ACCESSES else f"{accesses} accesses to pieces of chunks"
