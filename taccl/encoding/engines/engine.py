"""What an engine is: a value with a name, a role, what it serves and needs, and a stream of answers.

Engines are anytime. They yield an `Update` whenever they have a better schedule or a better bound,
and stop when they have nothing more to say or their budget is spent. They print nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.tuning import ENGINE_CUTS, ENGINE_FINER_CUTS
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget

#: Yields better and better schedules than the incumbent, if there is one, until done or out of budget.
Run = Callable[[Instance, SearchOptions, Budget, "Schedule | None"], Iterator[Update]]
#: The same for an engine that only improves what it is given.
Improve = Callable[[Instance, SearchOptions, Budget, Schedule], Iterator[Update]]
#: Yields better and better schedules of one problem that is cut into different numbers of chunks.
AcrossChunks = Callable[[Sequence[Instance], Budget], Iterator[Schedule]]
#: At most this many valid schedules, the fastest first: another than the best may suit a file better.
Several = Callable[[Instance, Budget, int], "list[Schedule]"]
#: Yields schedules that are not searched for, each with the name by which libraries know its algorithm, of
#: those algorithms whose name is wanted.
Named = Callable[[Instance, Budget, Callable[[str], bool]], Iterator[tuple[str, Schedule]]]
#: Yields better and better schedules of a problem of node 0's chunks alone, with its number of images.
OfNode0 = Callable[[Problem, int, Budget], Iterator[Update]]
#: What an engine is for: it builds schedules and searches nothing; it improves the best one as long as there
#: is time; or it searches all there are, so that it may end with a proof.
Role = Literal["first", "improve", "prove"]


@dataclass(frozen=True)
class Verdict:
    """Whether something serves a problem; if not, `reason` says why in a sentence."""

    reason: str = ""

    def __bool__(self) -> bool:
        return not self.reason


#: It serves.
YES = Verdict()


def no(reason: str) -> Verdict:
    """It does not serve, and why."""
    return Verdict(reason)


@dataclass(frozen=True)
class Need:
    """A condition on which `auto` runs an engine that serves the problem.

    Parameters
    ----------
    words : the condition, for people.
    holds : whether it holds, or why not.
    takes_s : about how many seconds it takes to find out, where that is long.
    """

    words: str
    holds: Callable[[Instance], Verdict]
    takes_s: Callable[[Instance], float] = lambda _: 0.0


def usual_cuts(instance: Instance) -> Sequence[int]:
    """1, 2, 4, 8 and 16; and as many as give each rank a chunk: 64, 256, ..., up to the first that do."""
    problem = instance.problem
    parts = problem.num_chunks // max(1, problem.collective.chunks_per_rank)
    finer = (each for each in ENGINE_FINER_CUTS if parts * each < 4 * problem.topology.num_members)
    return (*ENGINE_CUTS, *finer)


def many_cuts(_: Instance) -> Sequence[int]:
    """1, 2, 4, ..., 256: for what goes chunk after chunk."""
    return [1 << power for power in range(9)]


@dataclass(frozen=True)
class Engine:
    """One way of answering problems.

    Parameters
    ----------
    name : as in `--engine`.
    about : what it does, in a few words.
    features : what a problem may use; one that uses more is skipped (`Problem.features`).
    serves : whether it answers an instance, or why not. It is requested about a problem that only copies,
        unless `takes_sums`.
    run : the answers.
    takes_sums : whether it answers problems with sums as a whole; else it is requested each phase.
    role : what it is for.
    needs : on what `auto` runs it, next to that it serves the problem.
    at_once : its first answers, where they are there much sooner than those of `run`.
    part_of : the engine with which it is requested; empty: none.
    runs_always : whether it has its turn in every search, even without time.
    tells_chunks : whether its first answers tell which number of chunks is best; None: never.
    across_chunks : its answers for several numbers of chunks, best first; None: it has none.
    cuts : the numbers of chunks for which it is requested those, of the same size in any number.
    several : its fastest schedules, for files to be made of; None: only what `run` yields.
    named : the algorithms that libraries run; None: it has none.
    of_node_0 : its schedules of one node's chunks, which stand for a cluster's; None: it has none.
    is_compiled : whether its loops are machine code already; None: it has none.
    """

    name: str
    about: str
    features: frozenset[str]
    serves: Callable[[Instance], Verdict]
    run: Run
    takes_sums: bool = False
    role: Role = "improve"
    needs: tuple[Need, ...] = ()
    at_once: Run | None = None
    part_of: str = ""
    runs_always: bool = False
    tells_chunks: Callable[[Instance], bool] | None = None
    across_chunks: AcrossChunks | None = None
    cuts: Callable[[Instance], Sequence[int]] = usual_cuts
    several: Several | None = None
    named: Named | None = None
    of_node_0: OfNode0 | None = None
    is_compiled: Callable[[], bool] | None = None

    def can(self, instance: Instance) -> Verdict:
        """Whether it knows the features and serves the instance, or both phases of it if it only copies."""
        lacking = sorted(instance.features - self.features)
        if lacking:
            return no(f"it knows no {lacking[0].replace('_', ' ')}")
        if self.takes_sums:
            return self.serves(instance)
        parts = instance.phases
        verdicts = [self.serves(part) for part in (parts.reduce_phase, parts.broadcast_phase) if part]
        return next((verdict for verdict in verdicts if not verdict), YES)

    def has_its_needs(self, instance: Instance) -> Verdict:
        """Whether all that it needs holds, or the first reason why not."""
        verdicts = (need.holds(instance) for need in self.needs)
        return next((verdict for verdict in verdicts if not verdict), YES)

    def takes_to_know_s(self, instance: Instance) -> float:
        """About how many seconds it takes to find out whether all that it needs holds."""
        return sum(need.takes_s(instance) for need in self.needs)


def everything(_: Instance) -> Verdict:
    """Of an engine that serves whatever has its features."""
    return YES


def beginning_with(first: Run, improve: Improve) -> Run:
    """The engine that gives `improve` the first schedule of `first` where there is none yet.

    Where nothing has to move, there is nothing to improve.
    """

    def run(
        instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
    ) -> Iterator[Update]:
        if incumbent is None:
            update = next(first(instance, options, budget.share(0.0), None), None)
            if update is None or update.schedule is None:
                return
            yield update
            incumbent = update.schedule
        if len(incumbent):
            yield from improve(instance, options, budget, incumbent)

    return run
