"""Algorithms for machines of several levels, put together from algorithms for a line.

A *grid* is an array of all ranks. Its axes are the levels of the machine: nodes and the ranks of a node; the
dimensions of a torus; or there is one axis only. Along each axis a *line algorithm* runs on all lines at
once:

- what is spread (AllGather) is spread along one axis, and then all that arrived along the next;
- what is routed (AlltoAll) moves along one axis to where its end is on that axis, and then along the next;
- what is summed (AllReduce) is first added up along some axes so that each rank of a line owns a share
  (ReduceScatter), then each share is summed up along the other axes at all of its owners, and then the shares
  are spread along the first axes, in the opposite order.

With two axes, nodes and ranks, these are the hierarchical algorithms: inside nodes, across nodes with the
owners of the shares, inside again. With a torus and rings they are the bucket algorithms.

Sources: Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), section 4; Barnett, Littlefield, Payne and van de
Geijn, "Global combine on mesh architectures with wormhole routing", IPPS 1993 (bucket algorithms on a mesh);
Cho et al., "BlueConnect: decomposing all-reduce for deep learning on heterogeneous network hierarchy", MLSys
2019.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np

from taccl.encoding.engines.textbook.line import LineAlgorithm
from taccl.encoding.engines.textbook.parts import Cut, Kind
from taccl.encoding.engines.textbook.transfer import Steps, Transfer
from taccl.model.collective import IntArray


@dataclass(frozen=True, eq=False)
class GridAlgorithm:
    """Which algorithm runs along which axis, in which order.

    Parameters
    ----------
    grid : every rank once, in any number of axes.
    stages : axes with their algorithms. What is summed is added up into shares by these, in this order.
    whole : for what is summed: axes with the algorithms by which all owners of a share sum it up.
    """

    grid: IntArray
    stages: tuple[tuple[int, LineAlgorithm], ...]
    whole: tuple[tuple[int, LineAlgorithm], ...] = ()

    def lines(self, axis: int) -> list[list[int]]:
        """The ranks along each line of an axis."""
        lines: list[list[int]] = np.moveaxis(self.grid, axis, -1).reshape(-1, self.grid.shape[axis]).tolist()
        return lines

    def has_links(self, index: Container[tuple[int, int]]) -> bool:
        """Whether the first rank of each line has the links of the stages, if all have something for all.

        Of what goes round, every rank.
        """
        for axis, algorithm in self.stages:
            size = self.grid.shape[axis]
            reached = list(algorithm.reaches(size)) if size > 1 else []
            first = range(size if algorithm.repeats(size) > 1 else 1)
            for line in self.lines(axis):
                ends = ((line[at], line[(at + ahead) % size]) for at in first for ahead in reached)
                if not all(pair in index for pair in ends):
                    return False
        return True

    @property
    def place(self) -> IntArray:
        """The position of each rank on each axis, shape (num_ranks, num_axes)."""
        place = np.empty((self.grid.size, self.grid.ndim), dtype=np.int64)
        place[self.grid.ravel()] = np.argwhere(np.ones_like(self.grid, dtype=np.bool_))
        return place


def steps_of(plan: GridAlgorithm, kind: Kind, cut: Cut, units: Sequence[int]) -> Steps | None:
    """What the plan does with some units of a demand; None where an algorithm is not for this many ranks."""
    if kind == "routed":
        return routed(plan, {unit: (cut.begin[unit], cut.end[unit]) for unit in units})
    parts: dict[int, tuple[int, ...]] = defaultdict(tuple)
    for unit in units:
        parts[cut.begin[unit]] += (unit,)
    return spread(plan, parts) if kind == "spread" else summed(plan, parts)


def spread(plan: GridAlgorithm, held: Mapping[int, tuple[int, ...]]) -> Steps | None:
    """Copies by which every rank gets what each holds; `held` : rank -> units."""
    steps: Steps = []
    have = {int(rank): held.get(int(rank), ()) for rank in plan.grid.ravel()}
    for axis, algorithm in plan.stages:
        moves = algorithm.spread(plan.grid.shape[axis])
        if moves is None:
            return None
        stage: Steps = [[] for _ in moves]
        for line in plan.lines(axis):
            blocks = [have[rank] for rank in line]
            for step, carries in zip(stage, moves, strict=True):
                for src, dst, carried in carries:
                    if units := _together(blocks, carried):
                        step.append(Transfer(line[src], line[dst], units))
            every = tuple(chain.from_iterable(blocks))
            have.update(dict.fromkeys(line, every))
        steps += stage
    return steps


def _together(blocks: Sequence[tuple[int, ...]], carried: Sequence[int]) -> tuple[int, ...]:
    """The units of the blocks that are carried, one block after the other."""
    return tuple(chain.from_iterable([blocks[block] for block in carried]))


def routed(plan: GridAlgorithm, ends: Mapping[int, tuple[int, int]]) -> Steps | None:
    """Copies by which each unit gets to where it is wanted; `ends` : unit -> (first rank, last rank)."""
    steps: Steps = []
    place, at = plan.place, {unit: begin for unit, (begin, _) in ends.items()}
    for axis, algorithm in plan.stages:
        size = plan.grid.shape[axis]
        sends: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for unit, (_, end) in ends.items():
            here, there = int(place[at[unit], axis]), int(place[end, axis])
            hops = algorithm.hops(size, here, there)
            if hops is None:
                return None
            spot = list(place[at[unit]])
            for step, _, position in hops:
                spot[axis] = position
                after = int(plan.grid[tuple(spot)])
                sends[step, at[unit], after].append(unit)
                at[unit] = after
        stage: Steps = [[] for _ in range(1 + max((step for step, *_ in sends), default=-1))]
        for (step, src, dst), units in sorted(sends.items()):
            stage[step].append(Transfer(src, dst, tuple(units)))
        steps += [[each for step in stage for each in step]] if algorithm.is_at_once else stage
    return steps


def summed(plan: GridAlgorithm, parts: Mapping[int, tuple[int, ...]]) -> Steps | None:
    """Sums and copies by which every rank gets the sum of each unit; `parts` : owner -> units."""
    explicit = bool(plan.whole)
    holds = {int(rank): 1 << int(rank) for rank in plan.grid.ravel()}
    owned = _Owned(plan, parts)
    into = _into_shares(plan, owned, holds, explicit)
    whole = None if into is None else _whole(plan, owned, holds)
    if into is None or whole is None:
        return None
    back = GridAlgorithm(plan.grid, plan.stages[::-1])
    shares = {int(rank): owned.by(len(plan.stages), int(rank)) for rank in plan.grid.ravel()}
    out = spread(back, shares)
    if out is None:
        return None
    if explicit:
        out = [[each._replace(carries=(0,) * len(each.units)) for each in step] for step in out]
    return into + whole + out


class _Owned:
    """Which units a rank still has to do with after this many stages: those whose owner has its positions."""

    def __init__(self, plan: GridAlgorithm, parts: Mapping[int, tuple[int, ...]]) -> None:
        self._place = plan.place[:, [axis for axis, _ in plan.stages]]
        self._by_prefix: dict[tuple[int, ...], tuple[int, ...]] = defaultdict(tuple)
        for owner in sorted(parts):
            for count in range(len(plan.stages) + 1):
                self._by_prefix[tuple(self._place[owner, :count].tolist())] += parts[owner]

    def by(self, stages: int, rank: int) -> tuple[int, ...]:
        return self._by_prefix.get(tuple(self._place[rank, :stages].tolist()), ())


def _into_shares(plan: GridAlgorithm, owned: _Owned, holds: dict[int, int], explicit: bool) -> Steps | None:
    """The ReduceScatter along each axis: its AllGather backwards. Keeps `holds`, the set at each rank."""
    steps: Steps = []
    for number, (axis, algorithm) in enumerate(plan.stages):
        moves = algorithm.spread(plan.grid.shape[axis])
        if moves is None:
            return None
        stage: Steps = [[] for _ in moves]
        for line in plan.lines(axis):
            blocks = [owned.by(number + 1, rank) for rank in line]
            # The set of each block at each position of the line.
            have = [[holds[rank]] * len(line) for rank in line]
            for step, carries in zip(stage, reversed(moves), strict=True):
                for dst, src, carried in carries:
                    units = _together(blocks, carried)
                    sums = [repeat(have[src][block], len(blocks[block])) for block in carried]
                    for block in carried:
                        have[dst][block] |= have[src][block]
                    if units:
                        named = tuple(chain.from_iterable(sums)) if explicit else None
                        step.append(Transfer(line[src], line[dst], units, True, named))
            every = 0
            for rank in line:
                every |= holds[rank]
            holds.update(dict.fromkeys(line, every))
        steps += stage
    return steps


def _whole(plan: GridAlgorithm, owned: _Owned, holds: dict[int, int]) -> Steps | None:
    """Each share summed up at all of its owners, along one axis after another."""
    steps: Steps = []
    for axis, algorithm in plan.whole:
        moves = algorithm.total(plan.grid.shape[axis])
        if moves is None:
            return None
        stage: Steps = [[] for _ in moves]
        for line in plan.lines(axis):
            units = owned.by(len(plan.stages), line[0])
            # The set at each position before each step.
            history = [[holds[rank] for rank in line]]
            for step, adds in zip(stage, moves, strict=True):
                now = list(history[-1])
                for src, dst, age in adds:
                    carried = history[age][src]
                    now[dst] |= carried
                    if units:
                        named = (carried,) * len(units)
                        step.append(Transfer(line[src], line[dst], units, True, named))
                history.append(now)
            holds.update(zip(line, history[-1], strict=True))
        steps += stage
    return steps
