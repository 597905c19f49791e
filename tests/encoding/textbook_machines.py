"""Machines whose textbook times can be worked out by hand, and all that the textbook makes of one."""

from __future__ import annotations

from small_problems import (
    machine,
)

from taccl.encoding.engines.textbook.engine import built
from taccl.encoding.instance import Instance
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def switch(ranks: int, alpha_us: float = 1.0, beta: float = 1.0) -> LogicalTopology:
    """Ranks behind a switch, one way in and one way out each."""
    pairs = [(a, b) for a in range(ranks) for b in range(ranks) if a != b]
    out = [[link for link, (a, _) in enumerate(pairs) if a == rank] for rank in range(ranks)]
    into = [[link for link, (_, b) in enumerate(pairs) if b == rank] for rank in range(ranks)]
    return machine(ranks, [(a, b, alpha_us, beta) for a, b in pairs], shared=[*out, *into])


def torus(rows: int, columns: int) -> LogicalTopology:
    """A grid whose lines are rings both directions; alpha 1, beta 1."""
    links = set()
    for row in range(rows):
        for column in range(columns):
            here = row * columns + column
            for there in (row * columns + (column + 1) % columns, (row + 1) % rows * columns + column):
                links |= {(here, there), (there, here)} if here != there else set()
    return machine(rows * columns, [(a, b, 1.0, 1.0) for a, b in sorted(links)])


def railed_nodes(nodes: int, size: int) -> LogicalTopology:
    """Any two ranks of a node are linked (alpha 1, beta 1), and those at one place of nodes (5 and 10)."""
    ranks = nodes * size
    links = [
        (a, b, 1.0, 1.0) if a // size == b // size else (a, b, 5.0, 10.0)
        for a in range(ranks)
        for b in range(ranks)
        if a != b and (a // size == b // size or a % size == b % size)
    ]
    return machine(ranks, links, node_of=[rank // size for rank in range(ranks)])


def all_built(problem: Problem, seconds: float = 60.0) -> dict[str, float]:
    """The time of every schedule by the name of its algorithm; each is valid."""
    times = {}
    for name, schedule in built(Instance(problem), Budget(seconds)):
        schedule.check()
        assert schedule.problem is problem
        times[name] = schedule.makespan_us
    return times
