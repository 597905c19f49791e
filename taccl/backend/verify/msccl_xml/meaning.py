"""Does a program compute its collective: compare the outputs of a symbolic execution with the wanted ones."""

from __future__ import annotations

from typing import Literal

import numpy as np

from taccl.backend.machine.expected import Expectation, Value
from taccl.backend.machine.report import FINDINGS_PER_RULE, Collector, Finding
from taccl.backend.machine.values import describe, named_ranks
from taccl.backend.verify.msccl_xml.columns import OUTPUT, WRITES_TARGET
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.memory import Memory
from taccl.backend.verify.msccl_xml.symbolic import Trace
from taccl.model.collective import BoolArray, IntArray


def check_meaning(
    executed: ExecutedSteps,
    expectation: Expectation | None,
    memory: Memory,
    trace: Trace,
    collector: Collector,
    runtimes: tuple[str, ...] = (),
) -> Literal["right", "wrong", "not checked"]:
    """Findings for wrong outputs, writes where none may be and reads of unwritten memory, and the verdict.

    `runtimes` : those that the findings concern; none for all.
    """
    wrong = 0
    if expectation is not None:
        wrong += _wrong_outputs(executed, expectation, memory, trace, collector, runtimes)
        wrong += _changed_inputs(executed, memory, trace, collector, runtimes)
        wrong += _outputs_that_are_not_there(executed, expectation, memory, collector, runtimes)
    tainted = wrong > 0 and any(map(trace.values.is_tainted, set(trace.cells)))
    _unwritten_reads(executed, memory, trace, tainted, collector, runtimes)
    if wrong:
        return "wrong"
    return "right" if expectation is not None else "not checked"


def _wrong_outputs(
    executed: ExecutedSteps,
    expectation: Expectation,
    memory: Memory,
    trace: Trace,
    collector: Collector,
    runtimes: tuple[str, ...],
) -> int:
    cell = memory.base[expectation.wanted_rank, OUTPUT] + expectation.wanted_offset
    found = np.array(trace.cells, dtype=np.int64)[cell]
    wrong = np.flatnonzero(_differs(expectation, trace, found))
    for row in wrong[:FINDINGS_PER_RULE]:
        rank, offset = int(expectation.wanted_rank[row]), int(expectation.wanted_offset[row])
        writer = trace.writer[cell[row]]
        wanted = expectation.values[expectation.wanted_value[row]][0]
        message = (
            f"{memory.mode}, rank {rank}: o[{offset}] should hold {describe(wanted)}, "
            f"but {_compare(wanted, trace.values[int(found[row])])}"
        )
        if writer >= 0:
            message += f"; it was last written by {executed.name(writer)}"
        collector.add(_at_writer(executed, writer, "wrong-result", message, rank, runtimes))
    if len(wrong) > FINDINGS_PER_RULE:
        more = Finding("meaning", "error", "wrong-result", "", runtimes=runtimes)
        collector.add_more(more, len(wrong) - FINDINGS_PER_RULE)
    return len(wrong)


def _differs(expectation: Expectation, trace: Trace, found: IntArray) -> BoolArray:
    """Per wanted chunk, whether what was found is none of the alternatives."""
    rounds = max((len(alternatives) for alternatives in expectation.values), default=0)
    differs = np.ones(len(found), dtype=np.bool_)
    for k in range(rounds):
        numbers = np.array(
            [trace.values.number(value[min(k, len(value) - 1)]) for value in expectation.values],
            dtype=np.int64,
        )
        differs &= found != numbers[expectation.wanted_value]
    return differs


def _at_writer(
    executed: ExecutedSteps, writer: int, rule: str, message: str, rank: int, runtimes: tuple[str, ...]
) -> Finding:
    if writer < 0:
        return Finding("meaning", "error", rule, message, rank=rank, runtimes=runtimes)
    columns, step = executed.columns, int(executed.step[writer])
    block = columns.step_block[step]
    return Finding(
        "meaning",
        "error",
        rule,
        message,
        rank=rank,
        thread_block=int(columns.block_id[block]),
        step=int(columns.position[step]),
        line=int(columns.line[step]) or None,
        runtimes=runtimes,
    )


def _changed_inputs(
    executed: ExecutedSteps, memory: Memory, trace: Trace, collector: Collector, runtimes: tuple[str, ...]
) -> int:
    for index, cell in trace.clobbered:
        rank = int(executed.columns.block_rank[executed.block[index]])
        collector.add(
            executed.columns.at_step(
                int(executed.step[index]),
                "meaning",
                "error",
                "input-changed",
                f"out of place, this changes {memory.name(rank, cell)}, and a caller's input must not change",
                hint="write to scratch or to the output, or declare the file for in-place calls only "
                '(inplace="1" outofplace="0")',
                runtimes=runtimes,
            )
        )
    return len(trace.clobbered)


def _outputs_that_are_not_there(
    executed: ExecutedSteps,
    expectation: Expectation,
    memory: Memory,
    collector: Collector,
    runtimes: tuple[str, ...],
) -> int:
    """Out of place, only the root of a reduce or gather has an output; others may pass any pointer."""
    if memory.mode != "out of place" or expectation.has_output.all():
        return 0
    columns, steps = executed.columns, executed.step
    writes = WRITES_TARGET[columns.op[steps]] & (columns.dst[steps] == OUTPUT)
    wrong = np.flatnonzero(writes & ~expectation.has_output[executed.rank])
    for index in wrong.tolist():
        collector.add(
            columns.at_step(
                int(steps[index]),
                "meaning",
                "error",
                "no-output",
                f"out of place, this writes the output of a rank that has none: only the root of a "
                f"{expectation.collective} has one, which is rank {expectation.root}",
                hint="write to scratch",
                runtimes=runtimes,
            )
        )
    return len(wrong)


def _unwritten_reads(
    executed: ExecutedSteps,
    memory: Memory,
    trace: Trace,
    tainted: bool,
    collector: Collector,
    runtimes: tuple[str, ...],
) -> None:
    """Errors if what was read got into a wrong result, else warnings."""
    for index, cell in trace.unwritten_reads:
        rank = int(executed.columns.block_rank[executed.block[index]])
        collector.add(
            executed.columns.at_step(
                int(executed.step[index]),
                "meaning",
                "error" if tainted else "warning",
                "unwritten-read",
                f"{memory.mode}, this reads {memory.name(rank, cell)} before anything was written there",
                hint="write it first, and let this step wait for that (depid, deps)",
                runtimes=runtimes,
            )
        )


def _compare(wanted: Value, found: Value) -> str:
    """What is wrong, said by the difference where the difference is short."""
    if len(wanted) == len(found) == 1 and wanted[0][0] == found[0][0]:
        ranks, seen, twice = wanted[0][1], found[0][1], found[0][2]
        is_sum = ranks & (ranks - 1)
        missing, extra = ranks & ~seen, seen & ~ranks
        said = []
        if is_sum and missing:
            said.append(f"lacks that of {named_ranks(missing)}")
        if is_sum and extra:
            said.append(f"also has that of {named_ranks(extra)}")
        if twice:
            said.append(f"has that of {named_ranks(twice)} more than once")
        if said:
            return " and ".join(said)
    return f"holds {describe(found)}"
