"""The memory of helpers as slots: a chunk comes into a slot that another one has left.

A helper with memory for m chunks has m slots. Chunks pass it in the order of their turns, and what brings a
chunk waits until all has ended that takes on the chunk m turns before it. So what waits for what leads from
later chunks to earlier ones only, and no two chunks wait for each other's slots. (SwitchML's pool of slots is
used in this way.)
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.core.scheduler.graph import Sends
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule.numbering import by_value


def in_slots(
    problem: Problem, sends: Sends, chunk: IntArray, link: IntArray, turn: FloatArray, backwards: bool = False
) -> Sends:
    """The sends of these rows, one each, which also wait for slots; the same where no helper has a limit.

    Parameters
    ----------
    chunk, link, turn : shape (num_sends,); of each send.
    backwards : links lead from their ends to their beginnings.
    """
    topology = problem.topology
    if topology.memory_mb is None:
        return sends
    src, dst = topology.src[link], topology.dst[link]
    needs, gives, num_cells = [], [], sends.num_cells
    for helper in np.flatnonzero(np.isfinite(topology.memory_mb)).tolist():
        comes, goes = np.flatnonzero(dst == helper), np.flatnonzero(src == helper)
        slots = _slots(problem, helper, chunk[comes])
        if backwards:
            comes, goes = goes, comes
        passing, first = np.unique(chunk[goes], return_index=True)
        order = passing[np.lexsort((passing, turn[goes][first]))]
        number = np.full(problem.num_chunks, -1)
        number[order] = np.arange(len(order))
        gives.append((goes, num_cells + number[chunk[goes]]))
        waits = comes[number[chunk[comes]] >= slots]
        needs.append((waits, num_cells + number[chunk[waits]] - slots))
        num_cells += len(order)
    first_need, need = _more(sends.first_need, sends.need, needs)
    first_give, give = _more(sends.first_give, sends.give, gives)
    return sends._replace(
        first_need=first_need, need=need, first_give=first_give, give=give, num_cells=num_cells
    )


def _slots(problem: Problem, helper: int, arriving: IntArray) -> int:
    """How many of the chunks that arrive a helper has room for; parts that it does not add up need more."""
    topology = problem.topology
    assert topology.memory_mb is not None
    if not len(arriving):
        return 1
    adds = topology.may_sum is None or bool(topology.may_sum[helper])
    parts = 1 if adds else int(np.bincount(arriving).max())
    return max(1, int(topology.memory_mb[helper] / (parts * float(problem.size_mb[arriving].max()))))


def _more(
    first: IntArray, cells: IntArray, added: list[tuple[IntArray, IntArray]]
) -> tuple[IntArray, IntArray]:
    """Rows of cells, with more cells for some of them."""
    rows = np.repeat(np.arange(len(first) - 1), np.diff(first))
    row = np.concatenate([rows, *(rows for rows, _ in added)])
    cell = np.concatenate([cells, *(cells for _, cells in added)])
    order = by_value(row)
    many = np.bincount(row, minlength=len(first) - 1)
    return np.concatenate([[0], np.cumsum(many)]), cell[order]
