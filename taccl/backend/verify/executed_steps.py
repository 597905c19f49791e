"""Steps as the runtimes really execute them: nops folded away, `re` steps merged, waits resolved.

A runtime does not run the steps of a file one by one. It turns each thread block into *executed steps*:

- a nop is none; its dependency goes to the next one that starts anew;
- a `re` with the same target and source buffer as the `re` before it, and with no dependency of its
  own, is merged into that one. Nops in between do not stop this, and their dependencies then go to
  the one after. A run ends after a step with hasdep="1", and where the sources merged in the
  whole thread block reach 16;
- an executed step with hasdep="1" publishes a number when it is done. The number is counted, not read:
  one per executed step, one per nop folded into it, one per `re` merged beyond the first. It is the
  index of the step in the file as long as every nop has a dependency;
- a wait for (thread block, step) ends when that thread block has published that number *or more*.

So a wait is for the first executed step that publishes a number high enough, and hangs if there is none.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.backend.program import Op
from taccl.backend.verify.columns import OP_CODE, RECEIVES, SENDS, Columns
from taccl.backend.verify.limits import MAX_FUSED_REDUCTIONS
from taccl.collective import BoolArray, IntArray
from taccl.compiled import flat

_NOP, _REDUCE = OP_CODE[Op.NOP], OP_CODE[Op.REDUCE]


@dataclass(frozen=True, slots=True)
class Wait:
    """What one step asks to wait for: `step` of block id `block` on its rank. `asker` is a step row."""

    asker: int
    block: int
    step: int


@dataclass(frozen=True, eq=False)
class ExecutedSteps:
    """One row per executed step, in the order of the blocks and within a block in its order.

    Parameters
    ----------
    columns : the steps of the file, by row, that they were made from.
    step : shape (num_executed,); the row in the file of each (of merged ones the last).
    block : shape (num_executed,); its block row.
    first_of_block : shape (num_blocks + 1,); those of block b are first_of_block[b] up to [b + 1].
    sources : of a merged `re`, the step rows merged, in order; absent for all others.
    asked : for each, the waits that its steps in the file ask for; own and those of nops before it.
    waits : for each, the executed steps whose being done ends those waits.
    never : waits that nothing ends.
    dropped : waits of nops with nothing executed after them, which do not happen.
    torn_reductions : step rows of nops that stand between two merged `re`.
    """

    columns: Columns
    step: IntArray
    block: IntArray
    first_of_block: IntArray
    sources: dict[int, tuple[int, ...]]
    asked: list[list[Wait]]
    waits: list[tuple[int, ...]]
    never: tuple[tuple[int, Wait], ...]
    dropped: tuple[Wait, ...]
    torn_reductions: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.step)

    @cached_property
    def flat_waits(self) -> tuple[IntArray, IntArray]:
        """`waits` as columns: those of step k are [starts[k]] up to [starts[k + 1]] of the second."""
        return flat(self.waits)

    @property
    def rank(self) -> IntArray:
        return self.columns.block_rank[self.block]

    @property
    def sends(self) -> BoolArray:
        return SENDS[self.columns.op[self.step]]

    @property
    def receives(self) -> BoolArray:
        return RECEIVES[self.columns.op[self.step]]

    def first_step(self, index: int) -> int:
        """The row in the file that an executed step starts with."""
        merged = self.sources.get(index)
        return int(self.step[index]) if merged is None else merged[0]

    def name(self, index: int) -> str:
        return self.columns.name_of_step(int(self.step[index]))

    @staticmethod
    def of(columns: Columns) -> ExecutedSteps:
        folder = _Folder(columns)
        for block in range(columns.num_blocks):
            folder.fold(block)
        return folder.executed()


class _Folder:
    """Folds block after block; the lists grow by one entry per executed step."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.op = columns.op.tolist()
        self.dep_block = columns.dep_block.tolist()
        self.dep_step = columns.dep_step.tolist()
        self.has_dependent = columns.has_dependent.tolist()
        self.merge_key = list(
            zip(columns.dst.tolist(), columns.dst_offset.tolist(), columns.src.tolist(), strict=True)
        )
        self.step: list[int] = []
        self.first_of_block = [0]
        self.asked: list[list[Wait]] = []
        self.sources: dict[int, tuple[int, ...]] = {}
        self.dropped: list[Wait] = []
        self.torn: list[int] = []
        self.published: list[tuple[list[int], list[int]]] = []

    def fold(self, block: int) -> None:
        first = int(self.columns.block_first[block])
        pending: list[Wait] = []
        nops: list[int] = []
        open_run: tuple[int, int, int] | None = None
        run: list[int] = []
        reduced, number = 0, -1
        numbers: list[int] = []
        publishers: list[int] = []
        for step in range(first, first + int(self.columns.block_steps[block])):
            waits_for = self.dep_block[step]
            if waits_for >= 0:
                pending.append(Wait(step, waits_for, self.dep_step[step]))
            if self.op[step] == _NOP:
                nops.append(step)
                continue
            is_reduction = self.op[step] == _REDUCE
            if is_reduction and waits_for < 0 and open_run == self.merge_key[step]:
                run.append(step)
                number += 1
                self.step[-1] = step
                self.sources[len(self.step) - 1] = tuple(run)
                self.torn.extend(nops)
            else:
                number += 1 + max(0, len(pending) - 1)
                run = [step]
                self.step.append(step)
                self.asked.append(pending)
                pending = []
            nops = []
            open_run = None
            if is_reduction:
                reduced += 1
                if not self.has_dependent[step] and reduced != MAX_FUSED_REDUCTIONS:
                    open_run = self.merge_key[step]
            if self.has_dependent[step]:
                numbers.append(number)
                publishers.append(len(self.step) - 1)
        self.dropped.extend(pending)
        self.first_of_block.append(len(self.step))
        self.published.append((numbers, publishers))

    def executed(self) -> ExecutedSteps:
        columns = self.columns
        row_of = {
            key: row
            for row, key in enumerate(
                zip(columns.block_rank.tolist(), columns.block_id.tolist(), strict=True)
            )
        }
        rank_of_step = columns.block_rank[columns.step_block].tolist()
        waits: list[tuple[int, ...]] = []
        never: list[tuple[int, Wait]] = []
        for index, asked in enumerate(self.asked):
            resolved = []
            for wait in asked:
                block = row_of.get((rank_of_step[wait.asker], wait.block))
                numbers, publishers = ([], []) if block is None else self.published[block]
                place = bisect_left(numbers, wait.step)
                if place < len(numbers):
                    resolved.append(publishers[place])
                else:
                    never.append((index, wait))
            waits.append(tuple(resolved))
        step = np.array(self.step, dtype=np.int64)
        return ExecutedSteps(
            columns=columns,
            step=step,
            block=columns.step_block[step],
            first_of_block=np.array(self.first_of_block, dtype=np.int64),
            sources=self.sources,
            asked=self.asked,
            waits=waits,
            never=tuple(never),
            dropped=tuple(self.dropped),
            torn_reductions=tuple(self.torn),
        )
