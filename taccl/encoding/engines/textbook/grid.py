"""Algorithms for machines of several levels, composed of algorithms for a line.

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

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from taccl.encoding.engines.textbook.line import Hops, LineAlgorithm, hops, joined
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.sends import Ragged, Sends, in_turn
from taccl.encoding.engines.textbook.stages import Stages
from taccl.encoding.engines.textbook.tuning import GRID_MOST_SHAPES
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology


def by_nodes(topology: LogicalTopology) -> IntArray | None:
    """Nodes on axis 0, their ranks on axis 1; None for one node, nodes of one rank, or unequal nodes."""
    nodes = topology.equal_nodes
    return None if nodes is None or nodes.shape[1] == 1 else nodes


def sides(num_ranks: int, shares: int = 1) -> Iterator[IntArray]:
    """Grids of two and three axes, the most even first: the tori that ranks may be numbered along.

    `shares` : the fewest that a whole buffer must be cut into for each to go as one send. Where it goes as no
    single one, the last grid has so many ranks on its first of two axes, or as few more as there can be.
    """
    shapes = [
        shape for count in (2, 3) for shape in factors(num_ranks, count) if all(side > 1 for side in shape)
    ]
    shapes.sort(key=lambda shape: (max(shape) / min(shape), len(shape)))
    of_shares = sorted(shape for shape in shapes if len(shape) == 2 and shape[0] >= shares > 1)
    for shape in dict.fromkeys((*shapes[:GRID_MOST_SHAPES], *of_shares[:1])):
        yield np.arange(num_ranks).reshape(shape)


def cubes(num_ranks: int) -> Iterator[IntArray]:
    """Tori with sides of two and four as cubes: a ring of four is a square, whose sides are its links.

    Ranks that differ in one axis of a cube are neighbours, so what doubles along its axes has a link at each
    step, and another one at each.
    """
    for torus in sides(num_ranks):
        if 4 in torus.shape and set(torus.shape) <= {2, 4}:
            round_the_square = (np.array([0, 1, 3, 2])[:side] % side for side in torus.shape)
            yield torus[np.ix_(*round_the_square)].reshape((2,) * (num_ranks.bit_length() - 1))


def cubes_turned(num_ranks: int) -> Iterator[list[IntArray]]:
    """For each cube the orders of its ranks in which numbers that differ in a bit differ in an axis.

    There are as many orders as axes, each with another axis for the lowest bit.
    """
    for cube in cubes(num_ranks):
        axes = range(cube.ndim)
        yield [cube.transpose([*axes[turn:], *axes[:turn]]).ravel() for turn in axes]


def factors(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """All ways of writing a number as a product of so many, in every order."""
    if count == 1:
        yield (number,)
        return
    for first in range(2, number // 2 + 1):
        if number % first == 0:
            for rest in factors(number // first, count - 1):
                yield (first, *rest)


def behind_doors(topology: LogicalTopology, nodes: IntArray) -> list[IntArray]:
    """Places in a node, one behind each door: the first of each, then the second, and so on.

    Only those that are linked from node to node; all at once where not as many are behind each door.
    """
    doors: dict[frozenset[int], list[int]] = {}
    link, port = topology.incidence
    across = topology.internode[link]
    users = np.unique(port[across] * topology.num_ranks + topology.src[link[across]])
    is_shared = np.bincount(users // topology.num_ranks, minlength=topology.num_ports) > 1
    for place, (rank, other) in enumerate(nodes[:2].T.tolist()):
        out = [set(topology.ports[each]) for each in topology.links_from[rank] if topology.internode[each]]
        if (rank, other) in topology.link_index:
            shared = {each for each in set.intersection(*out) if is_shared[each]} or {-1 - place}
            doors.setdefault(frozenset(shared), []).append(place)
    if len({len(behind) for behind in doors.values()}) > 1:
        return [np.array(sorted(place for behind in doors.values() for place in behind))]
    return [np.array(places) for places in zip(*doors.values(), strict=True)]


def gates_of(topology: LogicalTopology, nodes: IntArray) -> Iterator[IntArray]:
    """Places in a node whose GPUs may send to other nodes: all, and where NICs are shared, one for each."""
    members = behind_doors(topology, nodes)
    if members:
        yield np.sort(np.concatenate(members))
        yield from members[:1] if len(members) > 1 else ()


def gate_of_team(gates: IntArray, team: IntArray, many: int, after: IntArray, others: int) -> IntArray:
    """The gateway of each of `many` teams to each of `others` other nodes.

    A gateway is a member of its team where there are enough gates, so that data crosses once the team has it.

    Parameters
    ----------
    team : from 0 to many - 1. `after` : 0 for the next node, up to others - 1.
    """
    return np.asarray(gates[(team * others + after) * len(gates) // (many * others)])


def by_shared_ports(topology: LogicalTopology) -> Iterator[IntArray]:
    """Ranks behind doors, shape (num_doors, ranks of a door); a door is a port at a switch, a CPU or a NIC.

    One grid for each size of doors that covers all ranks once and is not that of the nodes.
    """
    link, port = topology.incidence
    ranks, nodes = topology.num_ranks, by_nodes(topology)
    uses = np.unique(port * ranks + topology.src[link])
    users = Ragged.by_key(uses // ranks, values=uses % ranks)
    shared = {tuple(each.tolist()) for each in users.rows() if 1 < len(each) < ranks}
    for size in sorted({len(each) for each in shared}):
        some = np.array(sorted(each for each in shared if len(each) == size))
        is_of_nodes = nodes is not None and np.array_equal(some, nodes)
        if np.array_equal(np.sort(some.ravel()), np.arange(ranks)) and not is_of_nodes:
            yield some


def are_nodes(topology: LogicalTopology, grid: IntArray) -> bool:
    """Whether the rows of a grid are the nodes, and not ranks behind doors."""
    nodes = by_nodes(topology)
    return nodes is not None and np.array_equal(grid[:, 0], nodes[:, 0]) and grid.shape == nodes.shape


def one_of(topology: LogicalTopology, grid: IntArray) -> str:
    """A row of a grid in the name of an algorithm."""
    return "a node" if are_nodes(topology, grid) else f"each of {len(grid)} doors"


def gated_nodes(topology: LogicalTopology, fewest: int = 2) -> Iterator[tuple[IntArray, IntArray]]:
    """Grids of nodes, or of ranks behind doors, with at least `fewest` rows, each with choices of gates."""
    nodes = by_nodes(topology)
    if nodes is not None and len(nodes) >= fewest:
        yield from ((nodes, gates) for gates in gates_of(topology, nodes))
    for some in by_shared_ports(topology):
        if len(some) >= fewest:
            yield from ((some, np.arange(many)) for many in (some.shape[1], 1))


#: An axis, and the algorithm along it.
Stage = tuple[int, LineAlgorithm]


@dataclass(frozen=True, eq=False)
class GridAlgorithm:
    """Which algorithm runs along which axis, in which order.

    Parameters
    ----------
    grid : every rank once, in any number of axes.
    stages : axes with their algorithms. What is summed is added up into shares by these, in this order.
    whole : for what is summed: axes with the algorithms by which all owners of a share sum it up.
    sums_ahead : whether sums go the same way along a line as copies, as they must on links one way, or the
        way back: an AllGather on the line turned round, read backwards.
    """

    grid: IntArray
    stages: tuple[Stage, ...]
    whole: tuple[Stage, ...] = ()
    sums_ahead: bool = False

    @property
    def name(self) -> str:
        """What runs along which axis of what shape."""
        ahead = ", sums the same way" if self.sums_ahead else ""
        if self.grid.ndim == 1:
            (_, algorithm), *_ = self.stages or self.whole
            return (algorithm.name if self.stages else f"{algorithm.name} of whole buffers") + ahead
        shape = "x".join(map(str, self.grid.shape))
        named = [f"{algorithm.name} along axis {axis}" for axis, algorithm in self.stages]
        named += [f"{algorithm.name} of whole shares along axis {axis}" for axis, algorithm in self.whole]
        return f"{', then '.join(named)} of {shape}{ahead}"

    @cached_property
    def key(self) -> tuple[tuple[int, ...], bytes]:
        """The grid by its values."""
        return self.grid.shape, self.grid.tobytes()

    def axes_from(self, number: int) -> frozenset[int]:
        """The axes of this stage and those after it."""
        return frozenset(axis for axis, _ in self.stages[number:])

    @cached_property
    def position(self) -> IntArray:
        """The position of each rank on each axis, shape (num_ranks, num_axes)."""
        return np.stack(np.unravel_index(self._place, self.grid.shape), axis=1)

    @cached_property
    def _place(self) -> IntArray:
        """Where each rank stands in the grid, row after row."""
        return np.argsort(self.grid.ravel())

    def moved(self, rank: IntArray, axis: int, position: IntArray) -> IntArray:
        """The ranks that stand where these do, but at other positions on one axis."""
        stride = int(np.prod(self.grid.shape[axis + 1 :]))
        place = self._place[rank] + (position - self.position[rank, axis]) * stride
        return np.asarray(self.grid.ravel()[place])

    def sharing(self, stages: Sequence[Stage]) -> IntArray:
        """A number for each rank that is the same for those with the same positions on these stages' axes."""
        axes = [axis for axis, _ in stages]
        shape = tuple(self.grid.shape[axis] for axis in axes)
        return np.ravel_multi_index(tuple(self.position[:, axes].T), shape) if axes else 0 * self._place

    def has_links(self, index: Container[tuple[int, int]], stages: Stages) -> bool:
        """Whether what begins at the first two ranks of each line, and its last, has all links."""
        keys = ((self.key, stage) for stage in self.stages)
        return all(stages.has_links(key, partial(self._has_links, index, key[1])) for key in keys)

    def _has_links(self, index: Container[tuple[int, int]], stage: Stage) -> bool:
        axis, algorithm = stage
        first = np.moveaxis(self.grid, axis, 0)[[0, 1, -1]].ravel()
        moves = algorithm.spread(self.grid.shape[axis], self.position[first, axis])
        moves = self.on_lines(axis, moves, first)
        return all(pair in index for pair in zip(moves.src.tolist(), moves.dst.tolist(), strict=True))

    def on_lines(self, axis: int, moves: Hops, rank: IntArray) -> Hops:
        """Hops between positions as hops between ranks; `rank` : one on the line of each block."""
        line = rank[moves.block]
        return moves._replace(src=self.moved(line, axis, moves.src), dst=self.moved(line, axis, moves.dst))


def sends_of(plan: GridAlgorithm, parts: Parts, begin: IntArray, end: IntArray) -> Sends:
    """What the plan does with some units of a demand, which are numbered as they stand there."""
    if parts.kind == "routed":
        return routed(plan, begin, end, parts.stages)
    return (spread if parts.kind == "spread" else summed)(plan, begin, parts.stages)


def spread(plan: GridAlgorithm, begin: IntArray, stages: Stages) -> Sends:
    """Copies by which every rank gets each unit from the rank where it begins."""
    return in_turn(_copies(plan, number, begin, stages) for number in range(len(plan.stages)))


def _copies(plan: GridAlgorithm, number: int, begin: IntArray, stages: Stages) -> Sends:
    """The copies of a stage."""
    key = plan.key, plan.stages[number], plan.axes_from(number), begin.tobytes()
    return stages.once(key, partial(_copies_written, plan, number, begin))


def _sums(plan: GridAlgorithm, number: int, begin: IntArray, stages: Stages) -> Sends:
    """The same read backwards."""
    key = plan.key, plan.stages[number], plan.axes_from(number), begin.tobytes(), "backwards"
    return stages.once(key, lambda: _copies(plan, number, begin, stages).backwards())


def _copies_written(plan: GridAlgorithm, number: int, begin: IntArray) -> Sends:
    axis, algorithm = plan.stages[number]
    # What a rank has by now: what began where the positions on all axes that are left are its own.
    sharing = plan.sharing(plan.stages[number:])
    held = Ragged.by_key(sharing[begin], int(sharing.max()) + 1)
    rank = np.flatnonzero(held.count[sharing])
    size, position = plan.grid.shape[axis], plan.position[rank, axis]
    ways = algorithm.spreads(size) if held.count.max() > 1 else (algorithm.spread,)
    some = [plan.on_lines(axis, spread(size, position), rank) for spread in ways]
    moves = joined(*(each._replace(block=each.block * len(ways) + way) for way, each in enumerate(some)))
    return Sends.of(moves, held.take(sharing[rank]).split(len(ways)), plan.grid.size)


def routed(plan: GridAlgorithm, begin: IntArray, end: IntArray, stages: Stages) -> Sends:
    """Copies by which each unit gets from one rank to another."""
    made, at, ends = [], begin, end.tobytes()
    for stage in plan.stages:
        key = plan.key, stage, at.tobytes(), ends
        made.append(stages.once(key, partial(_moves_written, plan, stage, at, end)))
        at = plan.moved(at, stage[0], plan.position[end, stage[0]])
    return in_turn(made)


def _moves_written(plan: GridAlgorithm, stage: Stage, at: IntArray, end: IntArray) -> Sends:
    axis, algorithm = stage
    assert algorithm.route is not None
    # By lines, and along them, so that of what goes half way round every other one goes each way everywhere.
    order = np.lexsort((plan.position[at, axis], plan.moved(at, axis, np.zeros_like(at))))
    begin, to = (plan.position[each[order], axis] for each in (at, end))
    moves = algorithm.route(plan.grid.shape[axis], begin, to)
    moves = moves._replace(block=order[moves.block])
    return Sends.of(plan.on_lines(axis, moves, at), Ragged.one_each(np.arange(len(at))), plan.grid.size)


def summed(plan: GridAlgorithm, owner: IntArray, stages: Stages) -> Sends:
    """Sums and copies by which every rank gets the sum of each unit; the ranks of a share are its owners."""
    back = replace(plan, stages=plan.stages[::-1])
    ahead = replace(back, grid=np.flip(plan.grid)) if plan.sums_ahead else back
    numbers = range(len(plan.stages))
    copies = [_copies(back, number, owner, stages) for number in numbers]
    sums = [_sums(ahead, number, owner, stages) for number in reversed(numbers)]
    totals = [_totals(plan, stage, owner, stages) for stage in plan.whole]
    return in_turn([*sums, *totals, *copies])


def _totals(plan: GridAlgorithm, stage: Stage, owner: IntArray, stages: Stages) -> Sends:
    """Sums of each share along an axis, at all of its owners."""
    key = plan.key, stage, plan.axes_from(0), owner.tobytes(), "whole"
    return stages.once(key, partial(_totals_written, plan, stage, owner))


def _totals_written(plan: GridAlgorithm, stage: Stage, owner: IntArray) -> Sends:
    axis, algorithm = stage
    assert algorithm.total is not None
    sharing = plan.sharing(plan.stages)
    held = Ragged.by_key(sharing[owner], int(sharing.max()) + 1)
    totals, carried = algorithm.total(plan.grid.shape[axis])
    step, src, dst = (column[:, None] for column in totals[:3])
    first = np.moveaxis(plan.grid, axis, 0)[0].ravel()  # of each line
    moves = plan.on_lines(axis, hops(step, src, dst, np.arange(len(first))), first)
    return Sends.of(moves, held.take(sharing[first]), plan.grid.size).adding(carried)


def totals_on(lines: IntArray, algorithm: LineAlgorithm, held: Ragged, num_ranks: int) -> Sends:
    """Sums along the last axis of these ranks, at all of them; along the one before they take shares in turn.

    `held` : the units of each share.
    """
    assert algorithm.total is not None
    moves, carried = algorithm.total(lines.shape[-1])
    share = np.arange(lines.shape[-2])[:, None] % len(held.count)
    columns = moves.step, lines[..., moves.src], lines[..., moves.dst], share
    return Sends.of(hops(*columns), held, num_ranks).adding(carried)
