"""What a runtime refuses, misreads or chokes on: rules about single steps and runs of them."""

from __future__ import annotations

import numpy as np

from taccl.backend.program import Op
from taccl.backend.step_rows import BUFFERS
from taccl.backend.verify.msccl_xml import limits
from taccl.backend.verify.msccl_xml.columns import (
    IS_NOP,
    OP_CODE,
    READS_SOURCE,
    RECEIVES,
    SENDS,
    WRITES_TARGET,
)
from taccl.backend.verify.msccl_xml.limits import RUNTIMES
from taccl.backend.verify.msccl_xml.subject import Rule, Subject, runtimes_where

_IS_RRC = np.arange(len(SENDS)) == OP_CODE[Op.RECV_REDUCE_COPY]
_FUSED = (SENDS & RECEIVES) | _IS_RRC


def _fused_steps_are_supported(subject: Subject) -> None:
    fused = np.flatnonzero(_FUSED[subject.columns.op])
    if len(fused):
        subject.step(
            int(fused[0]),
            "fused-step",
            f"this is the first of {len(fused)} steps rcs, rrs, rrc or rrcs; a call with any of them is "
            "refused (from ROCm 6.1 on)",
            "synthesize for target rccl or all, which use s, r, cpy and re",
            runtimes_where(lambda runtime: not runtime.fused_steps),
            refusal="launch",
        )


def _counts_are_within_the_limit(subject: Subject) -> None:
    columns = subject.columns
    wrong = ~IS_NOP[columns.op] & ((columns.count < 1) | (columns.count > limits.MAX_COUNT))
    for step in np.flatnonzero(wrong):
        count = int(columns.count[step])
        subject.step(
            int(step),
            "count-range",
            f"cnt is {count}; a step moves 1 .. {limits.MAX_COUNT} chunks",
            "cut it into several steps" if count > 0 else "remove it",
            refusal=None if count == 0 else "load",
            fatal=count < 0,
        )


def _offsets_are_as_declared(subject: Subject) -> None:
    """Readers compare the first chunk of most operands with what the <gpu> declares."""
    columns = subject.columns
    declared = np.array(
        [(rank.input_chunks, rank.output_chunks, rank.scratch_chunks) for rank in subject.program.ranks]
    ).reshape(-1, 3)
    rank = columns.block_rank[columns.step_block]
    for used, buffer, offset, word in (
        (READS_SOURCE & ~_IS_RRC, columns.src, columns.src_offset, "srcoff"),
        (WRITES_TARGET & ~_IS_RRC, columns.dst, columns.dst_offset, "dstoff"),
    ):
        room = declared[rank, buffer]
        for step in np.flatnonzero(used[columns.op] & ((offset < -1) | (offset >= room))):
            name = BUFFERS[buffer[step]].value
            subject.step(
                int(step),
                "declared-chunks",
                f"{word} is {offset[step]} in buffer {name}, for which <gpu> declares {room[step]} chunks",
                f"correct the offset or {name}_chunks",
                refusal="load",
            )
        for step in np.flatnonzero(~IS_NOP[columns.op] & (offset > limits.MAX_OFFSET)):
            message = f"{word} is {offset[step]}, which wraps around in the 16 bits that the runtimes keep"
            subject.step(
                int(step), "offset-range", message, f"use fewer chunks: offsets end at {limits.MAX_OFFSET}"
            )


def _waits_are_for_something(subject: Subject) -> None:
    """A wait is for a thread block and a step of the same rank that exist, and can be stated of."""
    columns = subject.columns
    asker = np.flatnonzero(columns.dep_block >= 0)
    blocks, index_there = columns.dep_block[asker], columns.dep_step[asker]
    rows = columns.block_of(columns.block_rank[columns.step_block[asker]], blocks)
    exists = (rows >= 0) & (index_there >= 0)
    exists[exists] = index_there[exists] < columns.block_steps[rows[exists]]
    there = np.where(exists, columns.block_first[rows] + index_there, 0)
    tells = columns.has_dependent[there] & ~IS_NOP[columns.op[there]]
    odd = ~(exists & tells) | (blocks >= min(runtime.waitable_blocks for runtime in RUNTIMES))
    for step, row in zip(asker[odd].tolist(), rows[odd].tolist(), strict=True):
        awaited, index = int(columns.dep_block[step]), int(columns.dep_step[step])
        if row < 0:
            message = f"waits for thread block {awaited}, which this rank does not have; no reader looks"
            subject.step(step, "wait-range", message, "correct depid", fatal=True)
        elif not 0 <= index < columns.block_steps[row]:
            message = (
                f"waits for step {index} of thread block {awaited}, which has only {columns.block_steps[row]}"
            )
            subject.step(step, "wait-range", message, "correct deps")
        else:
            _step_tells_that_it_is_done(subject, step, int(columns.block_first[row]) + index)
        subject.step(
            step,
            "wait-range",
            f"waits for thread block {awaited}, and the runtimes keep 8 bits of that (RCCL 64 flags)",
            "give blocks that are waited for ids below 128 (RCCL: 64)",
            tuple(runtime.name for runtime in RUNTIMES if awaited >= runtime.waitable_blocks),
        )


def _step_tells_that_it_is_done(subject: Subject, step: int, awaited: int) -> None:
    columns = subject.columns
    is_nop = IS_NOP[columns.op[awaited]]
    if is_nop or not columns.has_dependent[awaited]:
        silent = "is a nop, which never tells that it is done" if is_nop else "has hasdep=0"
        subject.step(
            step,
            "indirect-wait",
            f"waits for {columns.name_of_step(awaited)}, which {silent}, so it goes on only after a later "
            "step there",
            'wait for the step that is meant, and set hasdep="1" on it',
            severity="warning",
        )


def _nops_wait_and_lead_somewhere(subject: Subject) -> None:
    columns = subject.columns
    is_nop = IS_NOP[columns.op]
    for step in np.flatnonzero(is_nop & (columns.dep_block < 0)):
        subject.step(
            int(step),
            "idle-nop",
            "this nop waits for nothing; the runtimes then count the later steps of this thread block one "
            "too low, and waits for those go wrong",
            "remove it and lower the deps that point behind it",
        )
    leads_on = ~is_nop
    leads_on[:-1] |= is_nop[:-1] & (columns.step_block[:-1] == columns.step_block[1:])
    for step in np.flatnonzero(~leads_on):
        subject.step(
            int(step),
            "trailing-nop",
            "this nop is the last step of its thread block; the runtimes drop it, and its wait never happens",
            "remove it, or put it before the step that has to wait",
        )
    for step in np.flatnonzero(is_nop & columns.has_dependent):
        subject.step(
            int(step),
            "nop-hasdep",
            "hasdep on a nop is ignored",
            "set it on the step after",
            severity="warning",
        )


def _chains_of_nops_end_in_a_wait(subject: Subject) -> None:
    executed = subject.executed
    first = executed.step.copy()
    first[list(executed.sources)] = [merged[0] for merged in executed.sources.values()]
    for step in first[(executed.last_asker >= 0) & (executed.last_asker != first)].tolist():
        subject.step(
            step,
            "nop-chain",
            "comes after nops that wait, but waits for nothing itself",
            "move the dependency of the last nop to this step and remove that nop",
            refusal="load",
        )


def _nops_do_not_tear_reductions_apart(subject: Subject) -> None:
    for step in subject.executed.torn_reductions:
        subject.step(
            step,
            "torn-reduction",
            "this nop stands between two re steps that the runtimes merge into one; the second re then runs "
            "without waiting",
            'give the second re a dependency of its own, or the first hasdep="1"',
        )


def _merged_reductions_are_equivalent_and_few(subject: Subject) -> None:
    columns = subject.columns
    for merged in subject.executed.sources.values():
        counts = sorted({int(columns.count[each]) for each in merged})
        if len(counts) > 1:
            subject.step(
                merged[0],
                "merged-counts",
                f"{len(merged)} re steps from here on are merged into one, and the cnt of the last is used "
                f"for all; theirs are {', '.join(map(str, counts))}",
                'make them equal, or give the earlier ones hasdep="1"',
            )
        if len(merged) > limits.MAX_FUSED_REDUCTIONS:
            subject.step(
                merged[0],
                "merged-too-many",
                f"{len(merged)} re steps from here on are merged into one, which has room for "
                f"{limits.MAX_FUSED_REDUCTIONS}",
                'give the 15th hasdep="1"',
                runtimes_where(lambda runtime: runtime.limits_merged_sources),
            )


STEP_RULES: tuple[Rule, ...] = (
    _fused_steps_are_supported,
    _counts_are_within_the_limit,
    _offsets_are_as_declared,
    _waits_are_for_something,
    _nops_wait_and_lead_somewhere,
    _chains_of_nops_end_in_a_wait,
    _nops_do_not_tear_reductions_apart,
    _merged_reductions_are_equivalent_and_few,
)
