"""Smaller problems that say something of a problem with sums: one chunk alone, and chunks that go together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd

import numpy as np

from taccl.collectives import Collective, IntArray, Placement
from taccl.encoding.cp.sums_read import Program
from taccl.encoding.cp.sums_ways import alike
from taccl.encoding.timing import Decision, in_order
from taccl.problem import Problem
from taccl.schedule import Schedule
from taccl.schedule.derivation import compacted


def one_chunk(problem: Problem, chunk: int) -> Problem:
    """A chunk with the network to itself. What it needs there, it needs beside others."""
    return replace(problem, collective=_only(problem.collective, [chunk]), symmetry=())


def bundles(problem: Problem) -> Iterator[tuple[Problem, list[list[int]]]]:
    """The problem with chunks that are alike going together, the most first; which chunks each bundle has."""
    classes = alike(problem)
    most = gcd(*(len(chunks) for chunks in classes))
    for size in range(most, 1, -1):
        if most % size == 0 and size <= problem.max_group:
            together = [chunks[k : k + size] for chunks in classes for k in range(0, len(chunks), size)]
            yield _bundled(problem, together), together


def _bundled(problem: Problem, together: list[list[int]]) -> Problem:
    size = len(together[0])
    collective = _only(problem.collective, [chunks[0] for chunks in together])
    return replace(
        problem,
        collective=collective,
        chunk_mb=problem.chunk_mb * size,
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
        home=collective.home[chunks],
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
            tuple(chunk for bundle in each.chunks for chunk in together[bundle]),
            each.link,
            each.reduce,
            tuple(part for bundle, part in zip(each.chunks, each.sums or (), strict=True) for _ in together[bundle]),
        )
        for each in decisions
    ]
    return compacted(in_order(problem, alone, waits))
