"""How traffic that changes each step crosses between nodes, in milliseconds: a plan, and no search.

    plan = plan_traffic(sizes, gpus_per_node=8)

Row i of the plan says: these bytes of what rank `source[i]` has for rank `target[i]` cross on rail `rail[i]`,
from the GPU at that place of the source's node to the GPU at that place of the target's, after `start[i]`
bytes of that rail. Before that they go from the source to that GPU, and from the other one on to the target,
both inside a node. A NIC that takes its rows in this order never waits for another: what would go on while
another pair of nodes has its turn is two rows. It is what `synthesize --sizes` begins its search with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.dealing import Dealt, dealt
from taccl.errors import CollectiveError
from taccl.model.collective import IntArray
from taccl.model.demand import checked_sizes, cut_parts
from taccl.model.network import FloatArray
from taccl.support.arguments import whole_number

#: Of two ranks is cut what is this many times larger than the mean: 64 ranks then reach 99.6% of the bound.
_LARGE = 2


@dataclass(frozen=True, eq=False)
class TrafficPlan:
    """What crosses between nodes, and in which order.

    Parameters
    ----------
    source, target, rail : shape (rows,).
    size_bytes : shape (rows,); all rows of two ranks together are what one has for the other.
    start : shape (rows,); bytes that a NIC may pass before it, the idle time that it has included. From there
        to `start + size_bytes` neither NIC passes another row.
    nic_bytes : what the busiest NIC passes in one direction.
    least_bytes : what it has to pass in any plan: the busiest node's bytes, over all its NICs.
    """

    source: IntArray
    target: IntArray
    rail: IntArray
    size_bytes: IntArray
    start: FloatArray
    nic_bytes: float
    least_bytes: float

    @property
    def of_bound(self) -> float:
        """The part of the NICs' bound that the plan reaches, where a NIC is what is slow; at most 1."""
        return self.least_bytes / self.nic_bytes if self.nic_bytes else 1.0


def plan_traffic(sizes: IntArray, gpus_per_node: int) -> TrafficPlan:
    """Deal what ranks have for ranks of other nodes to the NICs of their nodes, in an order without waits.

    Parameters
    ----------
    sizes : shape (num_ranks, num_ranks), whole numbers; row i, column j: bytes from rank i to rank j. Rank r
        is at place r % gpus_per_node of its node.
    gpus_per_node : each with a NIC of its own, all equally fast.

    Raises
    ------
    CollectiveError : no square table of sizes; ranks are no multiple of `gpus_per_node`.

    Examples
    --------
    >>> plan = plan_traffic(np.array([[0, 0, 6, 0], [0, 0, 0, 2], [0, 0, 0, 0], [0, 0, 0, 0]]), 2)
    >>> plan.nic_bytes, plan.rail.tolist()
    (6.0, [0, 1])
    """
    table = checked_sizes(sizes)
    ranks = len(table)
    whole_number(
        gpus_per_node, "GPUs of a node", CollectiveError, least=1, most=ranks, hint="gpus_per_node=8"
    )
    if ranks % gpus_per_node:
        raise CollectiveError(f"{ranks} ranks are not whole nodes of {gpus_per_node}")
    source, target = np.nonzero(table)
    crosses = source // gpus_per_node != target // gpus_per_node
    source, target = source[crosses], target[crosses]
    if not len(source):
        return TrafficPlan(source, target, source, source, np.zeros(0), 0.0, 0.0)
    size = table[source, target]
    part, size = cut_parts(size, _LARGE * float(size.mean()))
    source, target = source[part], target[part]
    nodes = ranks // gpus_per_node
    of = dealt(source, target, size.astype(np.float64), nodes, gpus_per_node)
    ends = (source // gpus_per_node, target // gpus_per_node)
    least = max(float(np.bincount(end, size).max()) for end in ends) / gpus_per_node
    row, size, start = _in_turns((of.rail * nodes + ends[0]) * nodes + ends[1], size, of, nodes * nodes)
    return TrafficPlan(source[row], target[row], of.rail[row], size, start, of.whole, least)


def _in_turns(pair: IntArray, size: IntArray, of: Dealt, pairs: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Rows cut where the turns of their pairs of nodes end: of which row each is, its size and its start."""
    rows = np.lexsort((of.start, pair))
    pair, size = pair[rows], size[rows]
    turn_pair = (of.turns[:, 0] * pairs + of.turns[:, 1]).astype(np.int64)
    lack = np.setdiff1d(pair, turn_pair)  # next to nothing, and last
    turn_pair = np.concatenate([turn_pair, lack])
    starts, ends = np.concatenate([of.turns[:, 2:], np.full((len(lack), 2), of.whole)]).T
    turns = np.lexsort((starts, turn_pair))
    turn_pair, starts, turn_size = turn_pair[turns], starts[turns], np.rint(ends - starts)[turns]
    row_upto, turn_upto = _within(pair, size), _within(turn_pair, turn_size.astype(np.int64))
    begun = turn_upto - turn_size
    total = row_upto[np.searchsorted(pair, turn_pair, side="right") - 1]
    is_last = np.append(turn_pair[1:] != turn_pair[:-1], True)  # it takes what lacks by rounding
    turn_upto = np.where(is_last, total, np.minimum(turn_upto, total))

    where, upto = np.concatenate([pair, turn_pair]), np.concatenate([row_upto, turn_upto])
    order = np.lexsort((upto, where))
    is_row, where, upto = order < len(pair), where[order], upto[order]
    begin = np.where(np.append(True, where[1:] != where[:-1]), 0, np.append(0, upto[:-1]))
    pieces = np.flatnonzero(upto > begin)
    row: IntArray = (np.cumsum(is_row) - is_row)[pieces]
    turn: IntArray = (np.cumsum(~is_row) - ~is_row)[pieces]
    start = starts[turn] + begin[pieces] - begun[turn]
    by_start = np.argsort(start, kind="stable")
    return rows[row[by_start]], (upto - begin)[pieces[by_start]], start[by_start]


def _within(pair: IntArray, size: IntArray) -> IntArray:
    """Sizes added up within each pair; pairs ascend."""
    upto = np.cumsum(size)
    first = np.searchsorted(pair, pair)
    return np.asarray(upto - upto[first] + size[first])
