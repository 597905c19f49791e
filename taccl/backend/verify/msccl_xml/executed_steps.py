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

from dataclasses import dataclass

import numpy as np

from taccl.backend.program import Op
from taccl.backend.verify.msccl_xml.columns import OP_CODE, RECEIVES, SENDS, Columns
from taccl.backend.verify.msccl_xml.limits import MAX_FUSED_REDUCTIONS
from taccl.model.collective import BoolArray, IntArray

#: More than any step number.
_ABOVE_ALL = 2**32
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
    last_asker : of the steps in the file whose waits it has, its own and those of nops before it, the row of
        the last; -1 for none.
    flat_waits : the executed steps that each waits for, as columns: those that end the waits of step k are
        [starts[k]] up to [starts[k + 1]] of the second.
    never : waits that nothing ends.
    torn_reductions : step rows of nops that stand between two merged `re`.
    """

    columns: Columns
    step: IntArray
    block: IntArray
    first_of_block: IntArray
    sources: dict[int, tuple[int, ...]]
    last_asker: IntArray
    flat_waits: tuple[IntArray, IntArray]
    never: tuple[tuple[int, Wait], ...]
    torn_reductions: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.step)

    @property
    def rank(self) -> IntArray:
        return self.columns.block_rank[self.block]

    @property
    def sends(self) -> BoolArray:
        return SENDS[self.columns.op[self.step]]

    @property
    def receives(self) -> BoolArray:
        return RECEIVES[self.columns.op[self.step]]

    def name(self, index: int) -> str:
        return self.columns.name_of_step(int(self.step[index]))

    @property
    def sources_merged(self) -> IntArray:
        """How many `re` each is: 1 for all but those that were merged."""
        number = np.ones(len(self), dtype=np.int64)
        number[list(self.sources)] = [len(merged) for merged in self.sources.values()]
        return number

    @staticmethod
    def of(columns: Columns) -> ExecutedSteps:
        is_nop = columns.op == _NOP
        rows = np.flatnonzero(~is_nop)
        block = columns.step_block[rows]
        merged = _merged_into_the_one_before(columns, rows)
        index = np.cumsum(~merged) - 1
        begins = rows[~merged]
        last = np.append(~merged[1:], True)[: len(rows)]  # an executed step is called by its last row

        # A wait is for the first step from there on that starts anew; none does if only nops follow.
        asker = np.flatnonzero(columns.dep_block >= 0)
        owner = np.searchsorted(begins, asker)
        happens = owner < len(begins)
        happens[happens] = columns.step_block[begins[owner[happens]]] == columns.step_block[asker[happens]]
        asker, owner = asker[happens], owner[happens]  # others are of nops with nothing executed after them
        last_asker = np.full(len(begins), -1, dtype=np.int64)
        last_asker[owner] = asker

        counted = np.ones(len(rows), dtype=np.int64)
        counted[~merged] += (np.bincount(owner, minlength=len(begins)) - 1).clip(min=0)
        publishes = columns.has_dependent[rows]
        numbers = (_counted_in_blocks(counted, block, columns.num_blocks) - 1)[publishes]
        ends = _first_published(columns, asker, numbers, block[publishes])
        ended = ends < len(numbers)
        return ExecutedSteps(
            columns=columns,
            step=rows[last],
            block=block[last],
            first_of_block=np.searchsorted(block[last], np.arange(columns.num_blocks + 1)),
            sources=_sources(rows, merged, index),
            last_asker=last_asker,
            flat_waits=(
                np.searchsorted(owner[ended], np.arange(len(begins) + 1)),
                index[publishes][ends[ended]],
            ),
            never=tuple(
                (each, _wait(columns, row))
                for each, row in zip(owner[~ended].tolist(), asker[~ended].tolist(), strict=True)
            ),
            torn_reductions=_torn(rows, merged),
        )


def _merged_into_the_one_before(columns: Columns, rows: IntArray) -> BoolArray:
    """Of the steps that are no nops, those that are merged into the one before."""
    merged = np.zeros(len(rows), dtype=np.bool_)
    is_reduction = columns.op[rows] == _REDUCE
    here = 1 + np.flatnonzero(is_reduction[1:] & is_reduction[:-1])
    if not len(here):
        return merged
    block = columns.step_block[rows]
    reduced = _counted_in_blocks(is_reduction.astype(np.int64), block, columns.num_blocks)
    step, before = rows[here], rows[here - 1]
    merged[here] = (block[here] == block[here - 1]) & (columns.dep_block[step] < 0)
    merged[here] &= ~columns.has_dependent[before] & (reduced[here - 1] != MAX_FUSED_REDUCTIONS)
    for key in (columns.dst, columns.dst_offset, columns.src):
        merged[here] &= key[step] == key[before]
    return merged


def _counted_in_blocks(amounts: IntArray, block: IntArray, num_blocks: int) -> IntArray:
    """Per row, the sum of the amounts from the first row of its block up to it."""
    total = np.concatenate([[0], np.cumsum(amounts)])
    first = np.searchsorted(block, np.arange(num_blocks))
    return np.asarray(total[1:] - total[first[block]])


def _first_published(columns: Columns, asker: IntArray, numbers: IntArray, block: IntArray) -> IntArray:
    """For each wait, the first row of `numbers` that ends it; their length if none does.

    `numbers` rise within each block of `block`.
    """
    awaited = columns.block_of(columns.block_rank[columns.step_block[asker]], columns.dep_block[asker])
    least = columns.dep_step[asker].clip(0, _ABOVE_ALL - 1)
    ends = np.searchsorted(block * _ABOVE_ALL + numbers, awaited * _ABOVE_ALL + least)
    found = (awaited >= 0) & (ends < len(numbers))
    found[found] = block[ends[found]] == awaited[found]
    return np.where(found, ends, len(numbers))


def _sources(rows: IntArray, merged: BoolArray, index: IntArray) -> dict[int, tuple[int, ...]]:
    """Of each executed step that several were merged into, their rows."""
    sources: dict[int, tuple[int, ...]] = {}
    several = np.flatnonzero(merged)
    each, first = np.unique(index[several], return_index=True)
    ends = np.append(first, len(several))[1:]
    for which, begin, end in zip(each.tolist(), first.tolist(), ends.tolist(), strict=True):
        sources[which] = tuple(rows[several[begin] - 1 : several[end - 1] + 1].tolist())
    return sources


def _torn(rows: IntArray, merged: BoolArray) -> tuple[int, ...]:
    """The nops right before steps that are merged."""
    here = np.flatnonzero(merged)
    here = here[rows[here] - rows[here - 1] > 1]
    return tuple(
        nop
        for before, step in zip(rows[here - 1].tolist(), rows[here].tolist(), strict=True)
        for nop in range(before + 1, step)
    )


def _wait(columns: Columns, asker: int) -> Wait:
    return Wait(asker, int(columns.dep_block[asker]), int(columns.dep_step[asker]))
