r"""Flows as paths, and paths for whole chunks.

The flow of one source is taken apart into paths to its destinations (Ford and Fulkerson 1962): back from a
destination over the link that carries most, again and again; every path uses up a link or a demand, so
there are no more than links and destinations together. Then each pair's chunks are dealt out to its paths:
first the whole part of what flows there, then the rest, one chunk at a time, to the path whose ports
are least busy with it. At last chunks are moved from paths through the busiest port while that helps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.tuning import FLOW_PATHS_TRIED_PER_UNIT
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.budget import Budget, Meter

#: A flow of less than this part of a chunk is taken for the solver's tolerance.
_NOTHING = 1e-6


@dataclass(frozen=True)
class FlowPath:
    """Links from a source to a destination, in order, and how many chunks' worth flows there."""

    links: tuple[int, ...]
    chunks: float


Pair = tuple[int, int]


def paths_of(problem: Problem, source: int, flow: FloatArray, wanted: IntArray) -> dict[Pair, list[FlowPath]]:
    """The paths of one source, for each pair (source, destination) with chunks.

    `flow`, shape (num_links,), and `wanted`, shape (num_ranks,), count chunks. What the flow lacks of a
    demand, by tolerance, is made up for on that pair's first path; a pair without any path is left out.
    """
    src, into = problem.topology.src.tolist(), problem.topology.links_into
    left = flow.tolist()
    found: dict[Pair, list[FlowPath]] = {}
    for target in np.flatnonzero(wanted).tolist():
        missing = float(wanted[target])
        paths: list[FlowPath] = []
        while missing > _NOTHING:
            links = _traced_back(source, target, left, src, into)
            if links is None:
                break
            amount = min(missing, *(left[link] for link in links))
            for link in links:
                left[link] -= amount
            missing -= amount
            paths.append(FlowPath(tuple(links), amount))
        if paths:
            found[source, target] = paths
    return found


def _traced_back(
    source: int, target: int, left: list[float], src: list[int], into: tuple[tuple[int, ...], ...]
) -> list[int] | None:
    """A path with flow on all its links; circles that are met on the way are taken out of the flow."""
    while True:
        links: list[int] = []
        place = {target: 0}
        rank = target
        while rank != source:
            link = max(into[rank], key=left.__getitem__, default=-1)
            if link < 0 or left[link] <= _NOTHING:
                return None
            links.append(link)
            rank = src[link]
            if rank in place:
                circle = links[place[rank] :]
                least = min(left[each] for each in circle)
                for each in circle:
                    left[each] -= least
                break
            place[rank] = len(links)
        else:
            return links[::-1]


@dataclass(frozen=True, eq=False)
class _Choices:
    """All paths in one list, each with its ports and how long a chunk keeps each of them busy."""

    pair: list[int]
    ports: list[IntArray]
    busy: list[FloatArray]


def whole_chunks(
    problem: Problem,
    paths: dict[Pair, list[FlowPath]],
    wanted: dict[Pair, int],
    budget: Budget,
    moves: int = 10_000,
) -> dict[Pair, list[int]]:
    """How many chunks take each of the paths of each pair; they add up to `wanted`.

    They are all dealt out whatever the budget says; moved off the busiest port they are while it lasts.
    """
    choices = _choices(problem, paths)
    of_pair = _positions(choices)
    part = np.array([path.chunks for each in paths.values() for path in each])
    count = np.floor(part + _NOTHING).astype(np.int64)
    load = np.zeros(problem.topology.num_ports)
    for choice, number in enumerate(count):
        np.add.at(load, choices.ports[choice], number * choices.busy[choice])
    for choice, pair in _by_remainder(part - count, choices, of_pair, count, list(wanted.values())):
        best = min(of_pair[pair], key=lambda c: (_busiest(load, choices, c), count[c] - part[c], c != choice))
        count[best] += 1
        np.add.at(load, choices.ports[best], choices.busy[best])
    _moved_off_the_busiest(choices, of_pair, count, load, moves, budget.meter())
    return {pair: count[positions].tolist() for pair, positions in zip(paths, of_pair, strict=True)}


def _choices(problem: Problem, paths: dict[Pair, list[FlowPath]]) -> _Choices:
    topology = problem.topology
    every = np.arange(topology.num_pairs)
    busy_at = np.split(topology.port_busy_us(every, problem.chunk_mb), topology.first_pair[1:-1])
    pair, ports, costs = [], [], []
    for number, each in enumerate(paths.values()):
        for path in each:
            pair.append(number)
            ports.append(np.array([p for link in path.links for p in topology.ports[link]], dtype=np.int64))
            costs.append(np.concatenate([busy_at[link] for link in path.links]))
    return _Choices(pair, ports, costs)


def _positions(choices: _Choices) -> list[list[int]]:
    positions: list[list[int]] = [[] for _ in range(max(choices.pair, default=-1) + 1)]
    for choice, pair in enumerate(choices.pair):
        positions[pair].append(choice)
    return positions


def _by_remainder(
    rest: FloatArray, choices: _Choices, of_pair: list[list[int]], count: IntArray, wanted: list[int]
) -> list[tuple[int, int]]:
    """One (path, pair) for each chunk that is not dealt out yet, largest remainders first."""
    missing = [number - int(count[each].sum()) for number, each in zip(wanted, of_pair, strict=True)]
    order = np.argsort(-rest, kind="stable").tolist()
    dealt: list[tuple[int, int]] = []
    while any(missing):
        for choice in order:
            pair = choices.pair[choice]
            if missing[pair]:
                missing[pair] -= 1
                dealt.append((choice, pair))
    return dealt


def _busiest(load: FloatArray, choices: _Choices, choice: int) -> float:
    """How busy the busiest port of a path is once one more chunk takes it."""
    return float((load[choices.ports[choice]] + choices.busy[choice]).max())


def _moved_off_the_busiest(
    choices: _Choices,
    of_pair: list[list[int]],
    count: IntArray,
    load: FloatArray,
    moves: int,
    meter: Meter,
) -> None:
    """Move chunks, one by one, to paths on which no port becomes as busy as the busiest one is."""
    users: list[list[int]] = [[] for _ in load]
    for choice, ports in enumerate(choices.ports):
        for port in set(ports.tolist()):
            users[port].append(choice)
    for _ in range(moves):
        busiest = int(load.argmax())
        best: tuple[float, int, int] | None = None
        if not meter.goes_on(len(users[busiest]) / FLOW_PATHS_TRIED_PER_UNIT):
            return
        for choice in users[busiest] if load[busiest] > 0 else ():
            if not count[choice]:
                continue
            np.subtract.at(load, choices.ports[choice], choices.busy[choice])
            for other in of_pair[choices.pair[choice]]:
                after = _busiest(load, choices, other)
                if other != choice and (best is None or after < best[0]):
                    best = after, choice, other
            np.add.at(load, choices.ports[choice], choices.busy[choice])
        if best is None or best[0] >= load[busiest] * (1 - 1e-9):
            return
        _, choice, other = best
        count[choice] -= 1
        count[other] += 1
        np.subtract.at(load, choices.ports[choice], choices.busy[choice])
        np.add.at(load, choices.ports[other], choices.busy[other])
