"""RCCL's memory ordering: what a wait does not say there.

A step that waits acquires only if its `srcbuf` is `o`. In place, a step that reads as `i`
what another block of its rank has just written there may therefore see the old data, although the
wait orders the two. Scratch is uncached and needs nothing, and a copy that in place is onto itself
changes nothing.

With LL, a plain send is the one step after which the threads of a block do not meet. The flag that it
publishes is set by one of them, while others may still read the source.
"""

from __future__ import annotations

import numpy as np

from taccl.backend.machine.report import Collector
from taccl.backend.program import Op, Protocol
from taccl.backend.verify.msccl_xml.columns import INPUT, OP_CODE, READS_SOURCE
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.happens_before import unordered
from taccl.backend.verify.msccl_xml.limits import RCCL
from taccl.backend.verify.msccl_xml.memory import Memory
from taccl.backend.verify.msccl_xml.races import changes, conflicts
from taccl.model.collective import IntArray


def check_visibility(executed: ExecutedSteps, order: IntArray, memory: Memory, collector: Collector) -> None:
    """One warning for all steps that read as `i` what another block wrote; in place only."""
    if memory.mode != "in place":
        return
    columns, steps = executed.columns, executed.step
    pairs = conflicts(executed, order, memory)
    first, second, cell = pairs.first, pairs.second, pairs.cell
    source, target = _places(executed, memory)
    count, op = columns.count[steps], columns.op[steps]
    writes = (
        changes(executed, memory)[first] & (cell >= target[first]) & (cell < target[first] + count[first])
    )
    reads_as_input = READS_SOURCE[op] & (columns.src[steps] == INPUT)
    reads = reads_as_input[second] & (cell >= source[second]) & (cell < source[second] + count[second])
    apart = executed.block[first] != executed.block[second]
    stale = np.unique(second[writes & reads & apart])
    if len(stale):
        collector.add(
            columns.at_step(
                int(steps[stale[0]]),
                "concurrency",
                "warning",
                "rccl-visibility",
                f"this is the first of {len(stale)} steps that read as buffer i what another thread block "
                "has written in place; after a wait this runtime makes such data visible only to steps with "
                'srcbuf="o"',
                hint='name the source as buffer "o"',
                runtimes=(RCCL.name,),
            )
        )


def _places(executed: ExecutedSteps, memory: Memory) -> tuple[IntArray, IntArray]:
    """The first cell of the source and of the target of every step."""
    columns, steps, rank = executed.columns, executed.step, executed.rank
    source = memory.base[rank, columns.src[steps]] + columns.src_offset[steps]
    target = memory.base[rank, columns.dst[steps]] + columns.dst_offset[steps]
    return source, target


def check_early_flags(
    executed: ExecutedSteps,
    connections: Connections,
    order: IntArray,
    memory: Memory,
    collector: Collector,
) -> None:
    """With LL, findings for steps that overwrite the source of a send once its flag says that it is done."""
    columns, steps = executed.columns, executed.step
    if columns.program.protocol is not Protocol.LL:
        return
    pairs = conflicts(executed, order, memory)
    sent = columns.op[steps[pairs.first]] == OP_CODE[Op.SEND]
    sent &= changes(executed, memory)[pairs.second]
    pairs = pairs.where(sent & (executed.block[pairs.first] != executed.block[pairs.second]))
    pairs = pairs.where(~unordered(executed, connections, order, pairs))  # others are races anyway
    early = pairs.where(unordered(executed, connections, order, pairs, flags_of_sends_are_early=True))
    for pair in np.unique(early.second, return_index=True)[1].tolist():
        send, step = int(early.first[pair]), int(early.second[pair])
        rank = int(executed.rank[step])
        collector.add(
            columns.at_step(
                int(steps[step]),
                "concurrency",
                "error",
                "rccl-early-flag",
                f"{memory.mode}, this overwrites {memory.name(rank, int(early.cell[pair]))} after a wait for "
                f"{executed.name(send)}, which reads it; with LL this runtime says that a send is done "
                "while threads of it may still read",
                hint="let it wait for a later step there that is no send, or use Simple or LL128",
                runtimes=(RCCL.name,),
            )
        )
