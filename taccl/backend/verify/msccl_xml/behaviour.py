"""Meaning and concurrency of a program that can be executed at all, for the runtimes that call it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taccl.backend.machine.acts import Machine
from taccl.backend.machine.contents import Contents, carry_out
from taccl.backend.machine.expected import Expectation, is_rooted
from taccl.backend.machine.layout import OUTPUT, Layout
from taccl.backend.machine.meaning import check_meaning
from taccl.backend.machine.race_findings import check_races_of_steps
from taccl.backend.machine.races import conflicts
from taccl.backend.machine.report import Collector, Facts, Verdict
from taccl.backend.machine.run import Run, run_acts
from taccl.backend.machine.steps import Steps
from taccl.backend.program import Program, Protocol
from taccl.backend.verify.msccl_xml.columns import READS_SOURCE, WRITES_TARGET
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.deadlock import check_bounded, report_unbounded
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.expected import expect_standard
from taccl.backend.verify.msccl_xml.limits import RCCL, Runtime
from taccl.backend.verify.msccl_xml.unfold import (
    MODES,
    Mode,
    StepNames,
    callers,
    layout_of,
    places_of,
    unfold_acts,
    unfold_moves,
)
from taccl.backend.verify.msccl_xml.visibility import check_early_flags, check_visibility


def behaviour(
    executed: ExecutedSteps,
    connections: Connections,
    expectation: Expectation | None,
    root: int | None,
    runtimes: Sequence[Runtime],
    collector: Collector,
    facts: Facts,
) -> Facts:
    """The facts with all that only an execution shows; findings go to the collector."""
    acts = unfold_acts(executed, connections)
    names = StepNames(executed, connections, acts)
    run = run_acts(acts)
    program = executed.columns.program
    if run.ends:
        depths = check_bounded(executed, acts, names, runtimes, collector)
    else:
        depths = report_unbounded(executed, acts, names, run, collector)
    facts = replace(
        facts,
        slot_depth=depths.slot_depth,
        deadlock=depths.deadlock,
        deadlock_whole=depths.deadlock_whole,
        deadlock_split=depths.deadlock_split,
        safe_bytes=depths.safe_bytes,
    )
    verdicts = _verdicts_before(program, runtimes)
    if run.ends:
        steps = Steps.of(acts, run.sequence[0], in_order=program.protocol is Protocol.SIMPLE)
        order, races = steps.order(), 0
        for mode in (mode for mode in MODES if callers(program, mode, runtimes)):
            if expectation is not None and is_rooted(expectation.collective) and root is None:
                layout = layout_of(executed.columns, expectation, mode)
                moves = unfold_moves(executed, connections, acts, layout)
                contents = carry_out(Machine(acts, moves, layout, names), run)
                root = find_root(expectation, layout, contents)
                expectation = expect_standard(program, root, collector)
            layout = layout_of(executed.columns, expectation, mode)
            moves = unfold_moves(executed, connections, acts, layout)
            machine = Machine(acts, moves, layout, names)
            calling = callers(program, mode, runtimes)
            concerned = () if len(calling) == len(runtimes) else calling
            verdicts[mode] = _meaning(executed, machine, run, expectation, collector, concerned)
            check_overlaps(executed, machine, collector, concerned)
            pairs = conflicts(steps.touches(machine))
            races += check_races_of_steps(machine, steps, order, pairs, collector, concerned)
            if RCCL.name in calling:
                check_visibility(executed, machine, pairs, collector)
                check_early_flags(executed, machine, steps, order, pairs, collector)
        facts = replace(facts, races=races)
    return replace(
        facts,
        root=None if expectation is None else expectation.root,
        in_place=verdicts["in place"],
        out_of_place=verdicts["out of place"],
    )


def _verdicts_before(program: Program, runtimes: Sequence[Runtime]) -> dict[Mode, Verdict]:
    """What is known of each mode before anything is executed."""
    claimed: dict[Mode, bool] = {"in place": program.in_place, "out of place": program.out_of_place}
    verdicts: dict[Mode, Verdict] = {}
    for mode in MODES:
        if callers(program, mode, runtimes):
            verdicts[mode] = "not checked"
        else:
            verdicts[mode] = "not used" if claimed[mode] else "not claimed"
    return verdicts


def _meaning(
    executed: ExecutedSteps,
    machine: Machine,
    run: Run,
    expectation: Expectation | None,
    collector: Collector,
    runtimes: tuple[str, ...],
) -> Verdict:
    """What was computed; where nobody knows the collective, it may be meant to change its input."""
    has_input = None if expectation is None else expectation.has_input
    contents = carry_out(machine, run, has_input=has_input)
    if expectation is None:
        contents = replace(contents, changed_inputs=contents.changed_inputs[:0])
    verdict = check_meaning(machine, contents, expectation, set(), collector, runtimes)
    if expectation is None:
        return "not checked"
    absent = check_outputs_are_there(executed, machine, expectation, collector, runtimes)
    return "wrong" if absent else verdict


def check_outputs_are_there(
    executed: ExecutedSteps,
    machine: Machine,
    expectation: Expectation,
    collector: Collector,
    runtimes: tuple[str, ...],
) -> int:
    """Out of place, only the root of a reduce or gather has an output; others may pass any pointer."""
    if machine.layout.in_place or expectation.has_output.all():
        return 0
    columns, steps = executed.columns, executed.step
    writes = WRITES_TARGET[columns.op[steps]] & (columns.dst[steps] == OUTPUT)
    wrong = np.flatnonzero(writes & ~expectation.has_output[executed.rank])
    for index in wrong.tolist():
        message = (
            f"out of place, this writes the output of a rank that has none: only the root of a "
            f"{expectation.collective} has one, which is rank {expectation.root}"
        )
        finding = columns.at_step(
            int(steps[index]), "meaning", "error", "no-output", message, "write to scratch", runtimes
        )
        collector.add(finding)
    return len(wrong)


def check_overlaps(
    executed: ExecutedSteps, machine: Machine, collector: Collector, runtimes: tuple[str, ...]
) -> None:
    """A step whose source and target overlap without being the same reads what it is writing."""
    columns, steps = executed.columns, executed.step
    op = columns.op[steps]
    source, target = places_of(executed, machine.layout)
    distance = np.abs(source - target)
    tangled = READS_SOURCE[op] & WRITES_TARGET[op] & (distance > 0) & (distance < columns.count[steps])
    for row in np.flatnonzero(tangled):
        mode = machine.layout.mode
        message = f"{mode}, its source and its target overlap, so it reads chunks that it is writing"
        hint = "cut it into steps that do not overlap"
        collector.add(
            columns.at_step(int(steps[row]), "concurrency", "error", "overlap", message, hint, runtimes)
        )


def find_root(expectation: Expectation, layout: Layout, contents: Contents) -> int:
    """The rank that the outputs speak for, from an execution in which every rank had input.

    Broadcast and Scatter: the rank whose data most output chunks hold. Reduce and Gather: the rank
    whose output has the most right chunks. A program that is right for some root is right for this one.

    Parameters
    ----------
    expectation : for any root. The file format has no word for it.
    """
    outputs = [output.values for output in contents.outputs[0]]
    if expectation.collective in ("reduce", "gather"):
        wanted = np.array([contents.values.canonical(some[0]) for some in expectation.values])
        wanted = wanted[expectation.wanted_value]
        votes = [int((contents.values.equal_numbers(found) == wanted).sum()) for found in outputs]
    else:
        votes = [0] * len(layout.base)
        for number in np.concatenate(outputs).tolist():
            offset, ranks, _ = contents.values[number][0]
            if offset >= 0 and ranks & (ranks - 1) == 0:
                votes[ranks.bit_length() - 1] += 1
    return max(range(len(votes)), key=votes.__getitem__)
