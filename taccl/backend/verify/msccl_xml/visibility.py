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

from taccl.backend.machine.acts import Machine
from taccl.backend.machine.layout import INPUT
from taccl.backend.machine.order import Order
from taccl.backend.machine.races import Pairs
from taccl.backend.machine.report import Collector
from taccl.backend.machine.steps import Steps
from taccl.backend.program import Op, Protocol
from taccl.backend.verify.msccl_xml.columns import OP_CODE, READS_SOURCE
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.limits import RCCL
from taccl.backend.verify.msccl_xml.unfold import places_of


def check_visibility(executed: ExecutedSteps, machine: Machine, pairs: Pairs, collector: Collector) -> None:
    """One warning for all steps that read as `i` what another block wrote; in place only."""
    if not machine.layout.in_place:
        return
    columns, steps = executed.columns, executed.step
    pairs = _apart(pairs.where(pairs.accesses.writes[pairs.first] & ~pairs.accesses.writes[pairs.second]))
    reader = machine.acts.operation[pairs.accesses.touches.act[pairs.touches[1]]]
    source, _ = places_of(executed, machine.layout)
    as_input = READS_SOURCE[columns.op[steps]] & (columns.src[steps] == INPUT)
    as_input = as_input[reader] & (pairs.cell >= source[reader])
    stale = np.unique(reader[as_input & (pairs.cell < (source + columns.count[steps])[reader])])
    if len(stale):
        message = (
            f"this is the first of {len(stale)} steps that read as buffer i what another thread block "
            "has written in place; after a wait this runtime makes such data visible only to steps with "
            'srcbuf="o"'
        )
        hint, row = 'name the source as buffer "o"', int(steps[stale[0]])
        rule, runtimes = "rccl-visibility", (RCCL.name,)
        collector.add(columns.at_step(row, "concurrency", "warning", rule, message, hint, runtimes))


def _apart(pairs: Pairs) -> Pairs:
    """Pairs of accesses by different blocks."""
    block = pairs.accesses.touches.column
    first, second = pairs.touches
    return pairs.where(block[first] != block[second])


def check_early_flags(
    executed: ExecutedSteps,
    machine: Machine,
    steps: Steps,
    order: Order,
    pairs: Pairs,
    collector: Collector,
) -> None:
    """With LL, findings for steps that overwrite the source of a send once its flag says that it is done."""
    columns, acts = executed.columns, machine.acts
    if columns.program.protocol is not Protocol.LL:
        return
    act = pairs.accesses.touches.act
    sent = columns.op[executed.step[acts.operation[act[pairs.touches[0]]]]] == OP_CODE[Op.SEND]
    pairs = _apart(pairs.where(sent & pairs.accesses.writes[pairs.second]))
    early = steps.unordered(steps.order(early_sends=True), pairs)
    late = steps.unordered(order, pairs)  # those are races anyway
    early = early.where(~(np.isin(early.first, late.first) & np.isin(early.second, late.second)))
    second = act[early.touches[1]]
    for row in np.unique(second, return_index=True)[1].tolist():
        send, step = int(act[early.touches[0][row]]), int(second[row])
        message = (
            f": {machine.layout.mode}, this overwrites {machine.layout.name(int(early.cell[row]))} after a "
            f"wait for {machine.names.act(send)}, which reads it; with LL this runtime says that a send is "
            "done while threads of it may still read"
        )
        hint = "let it wait for a later step there that is no send, or use Simple or LL128"
        finding = machine.names.finding(step, "rccl-early-flag", message, hint, runtimes=(RCCL.name,))
        collector.add(finding)
