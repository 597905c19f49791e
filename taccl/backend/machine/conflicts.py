"""Which accesses to memory have to be ordered: pairs of rows, one of which writes, linear in the accesses."""

from __future__ import annotations

import numpy as np

from taccl.model.collective import BoolArray, IntArray


def conflicting(cell: IntArray, when: IntArray, is_write: BoolArray) -> tuple[IntArray, IntArray]:
    """Rows that must be ordered, as the earlier and the later of each pair.

    Every access is paired with the write to its cell before it, and every write with all reads since then. If
    those are ordered, so are all that conflict, order being transitive.

    Parameters
    ----------
    cell, when, is_write : per access what it touches, its time in one order that respects happens-before
        (reads of one time come before its writes), and whether it writes.
    """
    if not len(cell):
        return cell, cell
    by_time = np.lexsort((is_write, when, cell))
    cell, is_write = cell[by_time], is_write[by_time]
    place = np.arange(len(cell))
    last_write = np.maximum.accumulate(np.where(is_write, place, -1))
    before = np.concatenate([[-1], last_write[:-1]]).astype(np.int64)
    after_write = (before >= 0) & (cell[before] == cell)
    next_write = np.minimum.accumulate(np.where(is_write, place, len(cell))[::-1])[::-1]
    next_write = np.minimum(next_write, len(cell) - 1)
    overwritten = ~is_write & is_write[next_write] & (cell[next_write] == cell)
    earlier = np.concatenate([before[after_write], place[overwritten]])
    later = np.concatenate([place[after_write], next_write[overwritten]])
    return by_time[earlier], by_time[later]
