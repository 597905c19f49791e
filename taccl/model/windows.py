"""When computing makes the chunks of a collective ready, and what it still does with what it got.

A chunk can leave when its kernel has made it, and the step ends when the last rank has used the last chunk.
What stands in between, and is not hidden behind computing, is exposed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from taccl.errors import CollectiveError
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.demand import Demand
from taccl.model.network import FloatArray
from taccl.model.problem import COMPUTING, Problem
from taccl.model.units import MAX_TIME_US
from taccl.support.arguments import number

_RATES = ("ready_us_per_mb", "at_root_us_per_mb", "then_us_per_mb")


@dataclass(frozen=True)
class Windows:
    """Computing before and after a collective.

    Parameters
    ----------
    ready_us_per_mb : each rank makes its inputs one after another, in the order in which they lie.
    ready_us : in its place, for an (offset, rank) the moment from which the chunk there is ready; others: 0.
        Offsets count the chunks of a collective of one chunk in each part; finer chunks are ready with it.
    at_root_us_per_mb : what is done with a sum where it is made, before it is copied on.
    then_us_per_mb : what each rank does with each chunk that it got.

    Raises
    ------
    CollectiveError : a time that is negative or none; both keys that say when chunks are ready.
    """

    ready_us_per_mb: float = 0.0
    ready_us: tuple[tuple[int, int, float], ...] = ()
    at_root_us_per_mb: float = 0.0
    then_us_per_mb: float = 0.0

    def __post_init__(self) -> None:
        for name in _RATES:
            number(getattr(self, name), name, CollectiveError, least=0.0, most=MAX_TIME_US, unit="us/MB")
        for _, _, moment_us in self.ready_us:
            number(moment_us, "a moment", CollectiveError, least=0.0, most=MAX_TIME_US, unit="us")
        if self.ready_us and self.ready_us_per_mb:
            raise CollectiveError("chunks are ready by a rate or by a table, not by both")

    def applied(self, demand: Demand, chunk_mb: float) -> Demand:
        """The demand with the moments of its chunks, of `chunk_mb` MB each, next to those that it has.

        Raises
        ------
        CollectiveError : work on sums where there are none; an (offset, rank) where no chunk starts.
        """
        collective = demand.collective
        if self.at_root_us_per_mb and not collective.reduces.any():
            raise CollectiveError(
                f"at_root is work on a sum where it is made, and {collective.name} makes none",
                hint="allreduce, reducescatter or reduce; `then` is done with any chunk that came",
            )
        sizes = np.ones(collective.num_chunks) if demand.sizes is None else demand.sizes
        size_mb = sizes * chunk_mb
        ready_us = self._ready_us(collective, size_mb)
        work_us = self.at_root_us_per_mb * size_mb * collective.reduces
        is_copied = collective.num_wanted > 1
        tail_us = self.then_us_per_mb * size_mb + np.where(
            is_copied, 0.0, work_us
        )  # of one rank it is a tail
        return replace(
            demand,
            ready_us=_sum(demand.ready_us, ready_us),
            tail_us=_sum(demand.tail_us, np.asarray(tail_us[collective.outputs.chunk])),
            sum_work_us=_sum(demand.sum_work_us, np.where(is_copied, work_us, 0.0)),
        )

    def _ready_us(self, collective: Collective, size_mb: FloatArray) -> FloatArray:
        inputs = collective.inputs
        if not self.ready_us:
            return self.ready_us_per_mb * _made_mb(inputs, size_mb)
        part = inputs.offset // collective.chunks_per_rank
        moments = {(offset, rank): moment_us for offset, rank, moment_us in self.ready_us}
        starts = set(zip(part.tolist(), inputs.rank.tolist(), strict=True))
        for offset, rank in moments:
            if (offset, rank) not in starts:
                raise CollectiveError(f"no chunk of {collective.name} is at offset {offset} of rank {rank}")
        rows = zip(part.tolist(), inputs.rank.tolist(), strict=True)
        return np.array([moments.get(row, 0.0) for row in rows], dtype=np.float64)


def compute_alone_us(problem: Problem) -> float:
    """How long computing takes where messages take no time: the last chunk made, and what follows it."""
    collective, ready_at = problem.collective, problem.ready_at
    latest = np.zeros(collective.num_chunks)
    earliest = np.full(collective.num_chunks, np.inf)
    for chunk, rank in zip(collective.inputs.chunk.tolist(), collective.inputs.rank.tolist(), strict=True):
        ready_us = ready_at.get((chunk, rank), 0.0)
        latest[chunk] = max(latest[chunk], ready_us)
        earliest[chunk] = min(earliest[chunk], ready_us)
    made = np.where(collective.reduces, latest, earliest)[collective.outputs.chunk]
    if problem.sum_work_us is not None:
        made = made + problem.sum_work_us[collective.outputs.chunk]
    tail = 0.0 if problem.tail_us is None else problem.tail_us
    return float((made + tail).max(initial=0.0))


def exposure(problem: Problem, time_us: float) -> dict[str, float | None]:
    """What a schedule that takes so long adds to computing alone; None where nothing is said of computing."""
    if problem.features.isdisjoint(COMPUTING):
        return {"compute_alone_us": None, "exposed_us": None}
    alone_us = compute_alone_us(problem)
    return {"compute_alone_us": alone_us, "exposed_us": max(0.0, time_us - alone_us)}


def exposed_row(problem: Problem, time_us: float) -> list[tuple[str, str]]:
    """The same as a row for people; none where nothing is said of computing."""
    found = exposure(problem, time_us)
    if found["exposed_us"] is None:
        return []
    return [
        ("exposed", f"{found['exposed_us']:.2f} us, next to {found['compute_alone_us']:.2f} us of computing")
    ]


def _made_mb(inputs: Placement, size_mb: FloatArray) -> FloatArray:
    """For each row, the MB that its rank has made with it: those before it in its buffer, and itself."""
    order: IntArray = np.lexsort((inputs.offset, inputs.rank))
    mb = size_mb[inputs.chunk[order]]
    total = np.cumsum(mb)
    rank = inputs.rank[order]
    first = np.searchsorted(rank, rank)
    made = np.empty(len(order))
    made[order] = total - total[first] + mb[first]
    return made


def _sum(given: FloatArray | None, more: FloatArray) -> FloatArray | None:
    whole = more if given is None else given + more
    return whole if whole.any() else None
