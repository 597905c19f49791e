"""Smaller problems that say something of one with sums: a chunk alone, and chunks that go together."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

import numpy as np

from taccl.encoding.core.timing import Decision, in_order
from taccl.encoding.engines.cp.sums_parts import interchangeable_chunks
from taccl.encoding.engines.cp.sums_read import Program
from taccl.encoding.instance import Instance
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.schedule import compacted


def one_chunk(problem: Problem, chunk: int) -> Problem:
    """A chunk with the network to itself. What it needs there, it needs next to others."""
    return replace(problem, collective=_only(problem.collective, [chunk]), symmetry=())


def bundles(instance: Instance) -> tuple[tuple[Instance, list[list[int]]], ...]:
    """The problem with interchangeable chunks going together, the most first; which chunks each bundle has.

    `instance.once(bundles)`.
    """
    problem = instance.problem
    classes = interchangeable_chunks(problem)
    most = gcd(*(len(chunks) for chunks in classes))
    made = []
    for size in range(most, 1, -1):
        if most % size == 0 and size <= problem.max_group:
            together = [chunks[k : k + size] for chunks in classes for k in range(0, len(chunks), size)]
            made.append((Instance(_bundled(problem, together)), together))
    return tuple(made)


def _bundled(problem: Problem, together: list[list[int]]) -> Problem:
    size = len(together[0])
    collective = _only(problem.collective, [chunks[0] for chunks in together])
    return replace(
        problem,
        collective=collective,
        chunk_mb=problem.chunk_mb * size,  # a group of bundles has this many times the chunks
        max_group=problem.max_group // size,
        symmetry=(),
    )


def _only(collective: Collective, chunks: list[int]) -> Collective:
    kept = np.full(collective.num_chunks, -1, dtype=np.int64)
    kept[chunks] = np.arange(len(chunks))
    return replace(
        collective,
        inputs=_rows(collective.inputs, kept),
        outputs=_rows(collective.outputs, kept),
        reduces=collective.reduces[chunks],
        owner=collective.owner[chunks],
    )


def _rows(placement: Placement, number: IntArray) -> Placement:
    keep = number[placement.chunk] >= 0
    chunk = number[placement.chunk[keep]]
    return Placement(chunk, placement.rank[keep], chunk)


def unbundled(problem: Problem, program: Program, together: list[list[int]]) -> Schedule:
    """What a program of the bundles says for the chunks in them."""
    decisions, waits = program
    alone = [
        Decision(
            tuple(chunk for bundle in decision.chunks for chunk in together[bundle]),
            decision.link,
            decision.reduce,
            tuple(
                part
                for bundle, part in zip(decision.chunks, decision.sums or (), strict=True)
                for _ in together[bundle]
            ),
        )
        for decision in decisions
    ]
    return compacted(in_order(problem, alone, waits))
