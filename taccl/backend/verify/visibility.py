"""RCCL's memory ordering: a wait makes another block's writes visible only for some buffer names.

In RCCL the step that waits acquires only if its `srcbuf` is `o`. In place, a step that reads as `i`
what another block of its rank has just written there may therefore see the old data, although the
wait orders the two. Scratch is uncached and needs nothing, and a copy that in place is onto itself
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.backend.program import Op
from taccl.backend.verify.columns import INPUT, OP_CODE, READS_SOURCE, WRITES_TARGET
from taccl.backend.verify.limits import RCCL
from taccl.backend.verify.memory import Memory
from taccl.backend.verify.races import conflicts
from taccl.backend.verify.report import Collector
from taccl.backend.verify.transfers import Transfers


def check_visibility(
    transfers: Transfers, order: Sequence[int], memory: Memory, collector: Collector
) -> None:
    """One warning for all steps that read as `i` what another block wrote; in place only."""
    if memory.mode != "in place":
        return
    columns, steps = transfers.columns, transfers.step
    pairs = conflicts(transfers, np.array(order, dtype=np.int64), memory)
    first, second, cell = pairs.first, pairs.second, pairs.cell
    source = memory.base[transfers.rank, columns.src[steps]] + columns.src_offset[steps]
    target = memory.base[transfers.rank, columns.dst[steps]] + columns.dst_offset[steps]
    count, op = columns.count[steps], columns.op[steps]
    changes = WRITES_TARGET[op] & ~((op == OP_CODE[Op.COPY]) & (source == target))
    writes = changes[first] & (cell >= target[first]) & (cell < target[first] + count[first])
    reads_as_input = READS_SOURCE[op] & (columns.src[steps] == INPUT)
    reads = reads_as_input[second] & (cell >= source[second]) & (cell < source[second] + count[second])
    apart = transfers.block[first] != transfers.block[second]
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
