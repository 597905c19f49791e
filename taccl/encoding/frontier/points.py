"""From the fewest steps to the fewest rounds per chunk: SCCL's frontier of latency against bandwidth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from taccl.encoding.core.ordering import list_schedule
from taccl.encoding.core.phases import merged
from taccl.encoding.core.timing import Decision, in_order, without_dead_ends
from taccl.encoding.frontier.rounds import RoundBound, fewest_steps, round_bound
from taccl.encoding.frontier.solve import decide
from taccl.encoding.frontier.tuning import POINTS_SHARE
from taccl.encoding.instance import Instance
from taccl.errors import CollectiveError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


@dataclass(frozen=True, eq=False)
class Point:
    """An algorithm of the frontier.

    Parameters
    ----------
    steps, rounds, chunks : S, R and the chunks that one rank's part is cut into.
    is_minimal : whether it is proved that no algorithm with as many steps and chunks has fewer rounds.
    proof : why, in a few words; why not, where it is not.
    schedule : the algorithm with times under the cost model, checked.
    seconds : of search for this point, with all that was proved impossible since the one before it.
    """

    steps: int
    rounds: int
    chunks: int
    is_minimal: bool
    proof: str
    schedule: Schedule
    seconds: float

    @property
    def rounds_per_chunk(self) -> Fraction:
        """What bandwidth costs: the fewer, the faster are large messages."""
        return Fraction(self.rounds, self.chunks)


@dataclass(frozen=True)
class Undecided:
    """A question that was not answered in its time."""

    steps: int
    rounds: int
    chunks: int


def copies_of(instance: Instance) -> Instance:
    """The problem itself if it only copies, else the copies whose mirror image its sums are.

    Raises
    ------
    CollectiveError : it sums and then copies.
    """
    parts = instance.phases
    if parts.reduce_phase is None:
        return instance
    if parts.broadcast_phase is not None:
        name = instance.problem.collective.name
        raise CollectiveError(
            f"{name} both sums and copies, and steps and rounds count one of the two",
            hint="the frontiers of reducescatter and allgather: one runs after the other",
        )
    return parts.reduce_phase


def walk(
    instance_of: Callable[[int], Instance], most_steps: int, most_chunks: int, budget: Budget
) -> Iterator[Point | Undecided]:
    """Yield algorithms with fewer and fewer rounds per chunk, and with more steps only where that helps.

    `instance_of(chunks)` is the problem for this many chunks per rank, the same whenever it is requested.
    Ends at the bound on rounds per chunk, at `most_steps`, or when the budget is spent. A question that is
    not answered in its time is left and named, and the next point with these chunks is not called minimal.
    """
    whole = copies_of(instance_of(1))
    least, bound = fewest_steps(whole), whole.once(round_bound)
    best: Fraction | None = None
    began = time.monotonic()
    if not least:
        return
    for steps in range(least, most_steps + 1):
        for chunks in range(1, most_chunks + 1):
            if not budget.remaining_s() or (best is not None and best <= bound.rounds_per_chunk):
                return
            for news in _fewest_rounds(instance_of(chunks), chunks, steps, bound, best, budget, began):
                if isinstance(news, Point):
                    best, began = news.rounds_per_chunk, time.monotonic()
                yield news


def _fewest_rounds(
    instance: Instance,
    chunks: int,
    steps: int,
    bound: RoundBound,
    best: Fraction | None,
    budget: Budget,
    began: float,
) -> Iterator[Point | Undecided]:
    """The fewest rounds for these chunks and steps, if that is fewer per chunk than `best`."""
    copies = copies_of(instance)
    rounds = least = max(steps, bound.least_rounds(chunks))
    unknown = False
    while best is None or Fraction(rounds, chunks) < best:
        if not budget.remaining_s():
            return
        verdict = decide(copies, steps, rounds, budget.share(POINTS_SHARE))
        if verdict.decisions is not None:
            schedule = _timed(instance.problem, copies.problem, verdict.decisions)
            proof = _proof(rounds, least, steps, bound, unknown)
            seconds = time.monotonic() - began
            yield Point(steps, rounds, chunks, not unknown, proof, schedule, seconds)
            return
        if not verdict.impossible:
            unknown = True
            yield Undecided(steps, rounds, chunks)
        rounds += 1


def _proof(rounds: int, least: int, steps: int, bound: RoundBound, unknown: bool) -> str:
    if unknown:
        return f"{rounds - 1} rounds not decided in time"
    if rounds > least:
        return f"{rounds - 1} rounds are unsatisfiable"
    return "one round for each step" if rounds == steps else bound.witness


def _timed(problem: Problem, copies: Problem, decisions: tuple[Decision, ...]) -> Schedule:
    """The algorithm without its barriers: each send as early as it can be."""
    orders = (in_order(copies, decisions), list_schedule(copies, decisions))
    schedule = without_dead_ends(min(orders, key=lambda each: each.makespan_us))
    if copies is not problem:
        schedule = merged(problem, schedule, None)
    schedule.check()
    return schedule
