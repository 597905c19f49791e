"""Algorithms of very many sends as columns: a ring over a thousand ranks has millions.

It says the same as `grid` and `transfer` do send by send, for stages along the axes of a grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from taccl.encoding.engines.textbook.grid import GridAlgorithm
from taccl.encoding.engines.textbook.line import LineAlgorithm
from taccl.encoding.engines.textbook.parts import Cut, Kind
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.jit import compiled

#: Stands for no unit, where ranks have different numbers of them.
_NONE = -1


@dataclass(frozen=True, eq=False)
class WideSends:
    """Sends as columns, in their order.

    Parameters
    ----------
    step, src, dst : shape (num_sends,); the number of its step, and between which ranks.
    adds : shape (num_sends,); whether it carries partial sums, of a compact schedule.
    count : shape (num_sends,); how many units it carries.
    unit : the units of all sends, one send after another.
    """

    step: IntArray
    src: IntArray
    dst: IntArray
    adds: BoolArray
    count: IntArray
    unit: IntArray

    def in_order_of_steps(self) -> WideSends:
        """The same, by steps."""
        order = np.argsort(self.step, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        rows = np.argsort(np.repeat(place, self.count), kind="stable")
        return WideSends(
            self.step[order],
            self.src[order],
            self.dst[order],
            self.adds[order],
            self.count[order],
            self.unit[rows],
        )


def is_wide(problem: Problem, plans: Sequence[GridAlgorithm], kind: Kind) -> bool:
    """Whether plans can be written down so: copies and sums that are made once, by stages alone."""
    return (
        kind != "routed"
        and not any(plan.whole for plan in plans)
        and problem.limits.own_first is None
        and not problem.ready_at
    )


def written_wide(plans: Sequence[GridAlgorithm], kind: Kind, cut: Cut) -> WideSends | None:
    """What the plans do with the units of a cut, a plan for each variant; None where one is not for this
    many.

    Each batch begins a step behind the one before.
    """
    streams = []
    for batch, variant, units in cut.streams():
        stages = _stages(plans[variant], kind, np.array(cut.begin)[units], np.array(units))
        if stages is None:
            return None
        streams += [(batch + first, sends) for first, sends in stages]
    return _joined(streams).in_order_of_steps() if streams else None


def _stages(
    plan: GridAlgorithm, kind: Kind, owner: IntArray, units: IntArray
) -> list[tuple[int, WideSends]] | None:
    """The stages of a plan for one stream of units, each with the number of its first step."""
    many = np.bincount(owner, minlength=plan.grid.size)
    own = np.full((plan.grid.size, int(many.max())), _NONE)
    own[np.arange(own.shape[1]) < many[:, None]] = units[np.argsort(owner, kind="stable")]
    axes = [axis for axis, _ in plan.stages]
    first, stages = 0, []
    turns = [(number, True) for number in range(len(axes))] if kind == "summed" else []
    turns += [(number, False) for number in reversed(range(len(axes)))]
    order = plan.stages if kind == "summed" else plan.stages[::-1]
    for number, adds in turns:
        axis, algorithm = order[number]
        made = _moves(algorithm, plan.grid.shape[axis])
        if made is None:
            return None
        before = [each for each, _ in order[: number + 1]]
        blocks = own[_owners(plan, before)].reshape(plan.grid.size, -1)
        stages.append((first, _stage(made, np.array(plan.lines(axis)), blocks, adds)))
        first += made.num_steps
    return stages


def _owners(plan: GridAlgorithm, axes: list[int]) -> IntArray:
    """For each rank, the ranks with the same positions on some axes, shape (num_ranks, as many)."""
    shape = tuple(plan.grid.shape[axis] for axis in axes)
    key = np.ravel_multi_index(tuple(plan.place[:, axes].T), shape)
    equivalent = np.argsort(key, kind="stable").reshape(int(np.prod(shape)), -1)
    return np.asarray(equivalent[key])


@dataclass(frozen=True, eq=False)
class _Moves:
    """What a line algorithm spreads, as columns: sends, and the blocks of all sends one after another."""

    num_steps: int
    step: IntArray
    src: IntArray
    dst: IntArray
    count: IntArray
    block: IntArray


@lru_cache(maxsize=8)
def _moves(algorithm: LineAlgorithm, size: int) -> _Moves | None:
    steps = algorithm.spread(size)
    if steps is None:
        return None
    flat = [(number, *carry) for number, step in enumerate(steps) for carry in step]
    step, src, dst = np.array([each[:3] for each in flat], dtype=np.int64).reshape(-1, 3).T
    count = np.array([len(each[3]) for each in flat], dtype=np.int64)
    block = np.array([block for each in flat for block in each[3]], dtype=np.int64)
    return _Moves(len(steps), step, src, dst, count, block)


def _stage(moves: _Moves, lines: IntArray, blocks: IntArray, adds: bool) -> WideSends:
    """A stage on all lines at once; sums go the opposite way of copies, in the opposite order of steps."""
    src, dst = lines[:, moves.src].ravel(), lines[:, moves.dst].ravel()
    step = moves.num_steps - 1 - moves.step if adds else moves.step
    unit = blocks[lines[:, moves.block]]  # lines, blocks of all moves, units of a block
    of_row = np.repeat(np.arange(len(src)), np.tile(moves.count, len(lines)) * unit.shape[2])
    count = np.bincount(of_row[unit.ravel() != _NONE], minlength=len(src))
    some = count > 0
    return WideSends(
        np.tile(step, len(lines))[some],
        (dst if adds else src)[some],
        (src if adds else dst)[some],
        np.full(int(some.sum()), adds),
        count[some],
        unit[unit != _NONE],
    )


def _joined(streams: Iterable[tuple[int, WideSends]]) -> WideSends:
    parts = list(streams)
    step = np.concatenate([first + sends.step for first, sends in parts])
    return WideSends(
        step,
        np.concatenate([sends.src for _, sends in parts]),
        np.concatenate([sends.dst for _, sends in parts]),
        np.concatenate([sends.adds for _, sends in parts]),
        np.concatenate([sends.count for _, sends in parts]),
        np.concatenate([sends.unit for _, sends in parts]),
    )


def estimate_wide_us(problem: Problem, sends: WideSends, cut: Cut, batches: int) -> float | None:
    """As `transfer.estimate_us`, of columns."""
    topology, link = problem.topology, _links(problem, sends)
    if (link < 0).any():
        return None
    chunks = np.add.reduceat(_sizes(cut)[sends.unit], np.cumsum(sends.count) - sends.count)
    size_mb = chunks * problem.chunk_mb
    more = topology.alpha_us[link] * (-(-chunks // problem.max_group) - 1)
    send, pair = topology.pairs_of(link)
    port, busy = topology.incidence[1][pair], topology.port_busy_us(pair, size_mb[send]) + more[send]
    load = np.bincount(port, busy, topology.num_ports)
    latency = topology.duration_us(link, size_mb) - topology.slowest_busy_us(link, size_mb)
    waiting_us = 0.0
    begins = np.searchsorted(sends.step, np.arange(int(sends.step[-1]) + 2))
    pairs = np.searchsorted(send, begins)
    for step in range(len(begins) - 1):
        here, there = slice(*begins[step : step + 2]), slice(*pairs[step : step + 2])
        if here.start < here.stop:
            now = np.bincount(port[there], busy[there], topology.num_ports)
            waiting_us += float(now.max() + latency[here].max())
    busiest_us = float(load.max(initial=0.0))
    return busiest_us + (waiting_us - busiest_us) * 2 / (batches + 1)


def timed_wide(problem: Problem, sends: WideSends, cut: Cut) -> Schedule | None:
    """The sends in their order, each as early as possible; None if a link is missing or may not be used."""
    link = _links(problem, sends)
    if (link < 0).any():
        return None
    size = _sizes(cut)
    first_chunk = np.cumsum(size) - size
    every = np.concatenate([np.array(chunks) for chunks in cut.chunks])
    of_send = np.repeat(np.arange(len(link)), sends.count)
    of_send, unit = np.repeat(of_send, size[sends.unit]), np.repeat(sends.unit, size[sends.unit])
    chunk = every[first_chunk[unit] + _within(size[sends.unit])]
    may_use = problem.limits.may_use
    if may_use is not None and not may_use[problem.collective.owner[chunk], link[of_send]].all():
        return None
    # What is too large for one send is cut into as few, as equal as can be.
    count = np.bincount(of_send, minlength=len(link))
    parts = -(-count // problem.max_group)
    part = (_within(count) * parts[of_send] + parts[of_send] - 1) // count[of_send]
    group = (np.cumsum(parts) - parts)[of_send] + part
    link, adds = np.repeat(link, parts), np.repeat(sends.adds, parts)
    start_us, end_us = _timed(problem, link, group, chunk)
    return Schedule(problem, chunk, link[group], start_us[group], end_us[group], adds[group], group).sorted()


def _timed(
    problem: Problem, link: IntArray, group: IntArray, chunk: IntArray
) -> tuple[FloatArray, FloatArray]:
    """When each send starts and ends; `group` is the send of each row."""
    topology = problem.topology
    size_mb = np.bincount(group, minlength=len(link)) * problem.chunk_mb
    send, pair = topology.pairs_of(link)
    start_us = np.zeros(len(link))
    _run(
        np.searchsorted(group, np.arange(len(link) + 1)),
        chunk * topology.num_ranks,
        topology.src[link],
        topology.dst[link],
        topology.duration_us(link, size_mb),
        np.searchsorted(send, np.arange(len(link) + 1)),
        topology.incidence[1][pair],
        topology.port_busy_us(pair, size_mb[send]),
        np.zeros(topology.num_ports),
        np.zeros(problem.num_chunks * topology.num_ranks),
        start_us,
    )
    return start_us, start_us + topology.duration_us(link, size_mb)


@compiled
def _run(
    first_row: Any,
    cell: Any,
    src: Any,
    dst: Any,
    duration: Any,
    first_pair: Any,
    port: Any,
    busy: Any,
    free: Any,
    ready: Any,
    start: Any,
) -> None:
    """Fill `start`: each send after its chunks are there and its ports are free. `cell` is chunk * ranks."""
    for send in range(len(start)):
        at = 0.0
        for pair in range(first_pair[send], first_pair[send + 1]):
            at = max(at, free[port[pair]])
        for row in range(first_row[send], first_row[send + 1]):
            at = max(at, ready[cell[row] + src[send]])
        start[send] = at
        for pair in range(first_pair[send], first_pair[send + 1]):
            free[port[pair]] = at + busy[pair]
        end = at + duration[send]
        for row in range(first_row[send], first_row[send + 1]):
            ready[cell[row] + dst[send]] = max(ready[cell[row] + dst[send]], end)


def _links(problem: Problem, sends: WideSends) -> IntArray:
    """The link of each send; -1 where there is none."""
    topology = problem.topology
    table = np.full((topology.num_ranks, topology.num_ranks), -1, dtype=np.int64)
    table[topology.src, topology.dst] = np.arange(topology.num_links)
    return np.asarray(table[sends.src, sends.dst])


def _sizes(cut: Cut) -> IntArray:
    """How many chunks each unit has."""
    return np.array([len(chunks) for chunks in cut.chunks], dtype=np.int64)


def _within(count: IntArray) -> IntArray:
    """0, 1, ... count - 1 for each count, one after another."""
    return np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
