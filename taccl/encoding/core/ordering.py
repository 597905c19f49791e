"""Sends whose order is open: they may be scheduled again and again, by other priorities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.core.scheduler import (
    SendGraph,
    Sends,
    Timed,
    busy_us,
    durations_us,
    graph_of,
    matched,
    pipelined,
    starts_in_sequence,
    tails_us,
)
from taccl.encoding.core.timing import Decision, at_starts, predecessors, sends_waiting
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


@dataclass(frozen=True, eq=False)
class Ordering:
    """Sends with what each waits for."""

    problem: Problem
    decisions: Sequence[Decision]
    sends: Sends

    @staticmethod
    def of(
        problem: Problem, decisions: Sequence[Decision], before: Sequence[Sequence[int]] | None = None
    ) -> Ordering:
        """`before` is what each send waits for, where that is known already."""
        before = predecessors(problem, decisions) if before is None else before
        return Ordering(problem, decisions, sends_waiting(problem, decisions, before))

    @cached_property
    def graph(self) -> SendGraph:
        """Who waits for whom, and what follows each send at the end."""
        return graph_of(self.sends, _following_us(self.problem, self.decisions))

    @cached_property
    def tails_us(self) -> FloatArray:
        """Shape (num_sends,); the least time from the start of each to the end of all that follows it."""
        return tails_us(self.graph, self._durations_us)

    @cached_property
    def busiest_us(self) -> float:
        """How long the busiest port is busy."""
        topology = self.problem.topology
        return float(busy_us(self.sends, costs_of(topology), topology).max(initial=0.0))

    @cached_property
    def _durations_us(self) -> FloatArray:
        return durations_us(self.sends, costs_of(self.problem.topology))

    def in_sequence(self) -> Timed:
        """Each as early as possible after those that stand before it, on its ports."""
        start_us = starts_in_sequence(self.sends, costs_of(self.problem.topology))
        every = np.arange(len(start_us))
        return Timed(start_us, start_us + self._durations_us, self.sends.link, every, every)

    def timed(self, priority: FloatArray | Sequence[float] | None = None) -> Timed:
        """Of those that could start first, the send of highest priority goes: by default, of longest tail."""
        key = -np.asarray(self.tails_us if priority is None else priority, dtype=np.float64)
        return pipelined(self.graph, costs_of(self.problem.topology), key)

    def matched(self, tails_us: FloatArray | None = None) -> Timed:
        """As many as can go together, those of the busiest ports and the longest tails first."""
        return matched(
            self.graph, costs_of(self.problem.topology), self.tails_us if tails_us is None else tails_us
        )

    def schedule(self, timed: Timed) -> Schedule:
        """The schedule with these times."""
        return at_starts(
            self.problem, self.decisions, np.argsort(timed.turn).tolist(), timed.start_us.tolist()
        )


def _following_us(problem: Problem, decisions: Sequence[Decision]) -> FloatArray:
    """What follows each send where it is received, at the end."""
    dst, tail_at = problem.topology.dst, problem.tail_at
    if not tail_at:
        return np.zeros(len(decisions))
    return np.array(
        [max(tail_at.get((chunk, int(dst[each.link])), 0.0) for chunk in each.chunks) for each in decisions]
    )


def list_schedule(
    problem: Problem,
    decisions: Sequence[Decision],
    priority: Sequence[float] | None = None,
    before: Sequence[Sequence[int]] | None = None,
) -> Schedule:
    """Place sends one by one: of those that could start first, the one of highest priority.

    `priority` defaults to the tails, so that what most waits for goes first. `before` is what each waits for,
    where that is known already.
    """
    ordering = Ordering.of(problem, decisions, before)
    return ordering.schedule(ordering.timed(priority))
