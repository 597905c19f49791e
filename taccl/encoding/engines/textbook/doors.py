"""Doors: where several GPUs of a node share a NIC, one of them sums up and crosses for all.

Each send through a NIC pays an alpha, whichever GPU it is from. So the GPUs behind each door have one that
speaks for them. Either it owns their shares: a ReduceScatter inside to the doors, sums across, and an
AllGather inside. Or, of little data, all GPUs sum up what their node has, doors sum that up across, and tell
the others: an exchange inside is not done twice.

Sources: Karonis et al., "Exploiting hierarchy in parallel computer networks to optimize collective operation
performance", IPDPS 2000; Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), section 4, for the exchanges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.engines.textbook.algorithm import Algorithm, InVariants, Together, Way
from taccl.encoding.engines.textbook.grid import GridAlgorithm, behind_doors, by_nodes, summed, totals_on
from taccl.encoding.engines.textbook.line import Lines, hops
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, in_turn
from taccl.encoding.engines.textbook.stages import Stages
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class _Doors:
    """An AllReduce that crosses through one GPU for each NIC.

    Parameters
    ----------
    grid : nodes on axis 0, their ranks on axis 1; along axis 1 a ReduceScatter, or sums of whole buffers.
    door : for each place in a node the one that crosses for it.
    """

    grid: GridAlgorithm
    door: IntArray
    stages: Stages

    def shares(self, begin: IntArray, end: IntArray) -> Sends:
        """Sums inside to the doors, of their shares across, and back."""
        node, place = self.grid.position[begin].T
        return summed(self.grid, self.grid.grid[node, self.door[place]], self.stages)

    def share(self, begin: IntArray) -> IntArray:
        """The door at which each unit is summed up."""
        return np.asarray(self.door[self.grid.position[begin, 1]])

    def whole(self, begin: IntArray, end: IntArray) -> Sends:
        """Sums inside at all, across at the doors, and copies to the others."""
        nodes = self.grid.grid
        doors = np.unique(self.door)
        rest = np.setdiff1d(np.arange(nodes.shape[1]), doors)
        every = Ragged(np.arange(len(begin)), np.array([len(begin)]))
        (_, inside), (_, across) = self.grid.whole
        totals = [
            totals_on(nodes[:, None], inside, every, nodes.size),
            totals_on(nodes[:, doors].T[:, None], across, every, nodes.size),
        ]
        copies = hops(0, nodes[:, self.door[rest]], nodes[:, rest], 0)
        return in_turn([*totals, Sends.of(copies, every, nodes.size)])


def by_doors(problem: Problem, parts: Parts, spreads: Lines, totals: Lines) -> Iterator[Algorithm]:
    """For sums over nodes of one size whose NICs are shared; algorithms for lines of this many ranks."""
    nodes = by_nodes(problem.topology)
    if nodes is None or parts.kind != "summed" or len(nodes) < 2:
        return
    members = behind_doors(problem.topology, nodes)
    if len(members) < 2:
        return
    many, gpus = nodes.shape
    door = np.arange(gpus)
    for behind in members:
        door[behind] = members[0]
    for across in totals(many):
        crossing = many * across.adds(many)
        cross = crossing * len(members[0])
        for inside in spreads(gpus):
            doors = _Doors(GridAlgorithm(nodes, ((1, inside),), ((0, across),)), door, parts.stages)
            moves = 2 * nodes.size * inside.sends(gpus) + crossing * len(members[0])
            rows = parts.num_parts * (2 * nodes.size + crossing)
            yield _algorithm(
                f"shares, {inside.name}", across.name, doors.shares, (rows, moves), nodes, cross, doors.share
            )
        for inside in totals(gpus):
            doors = _Doors(GridAlgorithm(nodes, (), ((1, inside), (0, across))), door, parts.stages)
            moves = nodes.size * (inside.adds(gpus) + 1) + crossing * len(members[0])
            rows = parts.num_parts * moves
            yield _algorithm(
                f"whole buffers, {inside.name}", across.name, doors.whole, (rows, moves), nodes, cross
            )


def _algorithm(
    inside: str,
    across: str,
    way: Way,
    work: tuple[int, int],
    nodes: IntArray,
    crossing: int,
    share: Together = np.zeros_like,
) -> Algorithm:
    """`work` : about how many transfers of one part, and how many sends; `share` : None travel apart."""
    rows, moves = work
    return InVariants(
        f"doors for {inside} inside, {across} across",
        rows=rows,
        moves=moves,
        crossing=crossing,
        routes=(way,),
        first=np.arange(nodes.size),
        labels=nodes.shape[1],
        unit_labels=(share,),
        is_explicit=True,
        of_libraries=False,
    )
