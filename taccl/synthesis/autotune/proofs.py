"""What several searches found out about the same costs, for all that it holds for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from taccl.encoding.bounds import NOTHING, Proof
from taccl.encoding.portfolio.journal import EngineFailure
from taccl.model.problem import Problem
from taccl.model.slower import is_no_faster
from taccl.model.tolerance import contradicts
from taccl.synthesis.autotune.file_choice import Searched
from taccl.synthesis.autotune.trials import ChunksTried
from taccl.synthesis.search import Found


@dataclass(frozen=True, eq=False)
class Gathered:
    """What holds on a network.

    Parameters
    ----------
    any_chunks : the largest bound for any number of chunks.
    of_number : the largest for each number.
    fastest_us : the time of the best schedule of each number.
    """

    any_chunks: Proof = NOTHING
    of_number: Mapping[int, Proof] = field(default_factory=dict)
    fastest_us: Mapping[int, float] = field(default_factory=dict)

    def of(self, found: Found) -> Found:
        """What was found, with all that holds for it; what its schedule refutes is told as a failure."""
        time_us = found.schedule.makespan_us
        own = self.of_number.get(found.schedule.problem.collective.chunks_per_rank, NOTHING)
        refuted = [proof for proof in (own, self.any_chunks) if contradicts(proof.value_us, time_us)]
        if own not in refuted:
            found = found.with_bound(own)
        if self.any_chunks not in refuted and self.any_chunks.value_us > found.any_chunks.value_us:
            found = found.with_any_chunks(self.any_chunks)
        return found.with_failures(_told(proof, time_us) for proof in refuted)

    def of_rows(self, rows: Iterable[ChunksTried]) -> tuple[ChunksTried, ...]:
        """The rows of numbers that were tried, with what holds for each."""
        return tuple(map(self._of_row, rows))

    def _of_row(self, row: ChunksTried) -> ChunksTried:
        faster_us = min(row.time_us, self.fastest_us.get(row.chunks, math.inf))
        own = self.of_number.get(row.chunks, NOTHING)
        return replace(row, time_us=faster_us).with_bound(own).with_bound(self.any_chunks)


def gathered_of(problem: Problem, searches: Sequence[Searched]) -> Gathered:
    """What searches found out that holds for a problem: by its costs, and of bounds also by lower ones.

    A bound for the schedules that keep a symmetry is none for others.
    """
    of_number: dict[int, Proof] = {}
    fastest_us: dict[int, float] = {}
    any_chunks = NOTHING
    for searched in searches:
        theirs = searched.formulated.problem
        if not (is_no_faster(problem.topology, theirs.topology) and _keep_the_same(problem, theirs)):
            continue
        for formulated, found in searched.all_found:
            number = formulated.problem.collective.chunks_per_rank
            own = Proof(found.lower_bound_us, found.bound_source, "search")
            of_number[number] = _larger(own, of_number.get(number, own))
            any_chunks = _larger(any_chunks, found.any_chunks)
            if is_no_faster(theirs.topology, problem.topology):
                before_us = fastest_us.get(number, math.inf)
                fastest_us[number] = min(before_us, found.schedule.makespan_us)
    return Gathered(any_chunks, of_number, fastest_us)


def _keep_the_same(problem: Problem, other: Problem) -> bool:
    """Whether the same symmetry is requested of their schedules, or none of either."""
    mine, theirs = problem.symmetry, other.symmetry
    return len(mine) == len(theirs) and all(map(np.array_equal, mine, theirs))


def _told(proof: Proof, time_us: float) -> EngineFailure:
    text = f"{proof.value_us:.6g} us, {proof.witness}, stands above a valid schedule of {time_us:.6g}"
    return EngineFailure(f"bound {proof.kind}", text)


def _larger(one: Proof, other: Proof) -> Proof:
    return max(one, other, key=lambda proof: proof.value_us)
