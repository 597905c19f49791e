"""What `auto` does, as two tables: which engine runs on which condition, and for how long.

`WHOLE` is walked once for the problem. Its row `phases` walks `EACH_PHASE` for the reduce phase and for
the broadcast phase, or for the problem itself where nothing is summed. A share is a part of the time that is
left when the row's turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taccl.encoding.engines.engine import YES, Engine, Verdict, no
from taccl.encoding.engines.registry import (
    COPIES_AND_SUMS,
    added_engines,
    all_engines,
    engine_named,
    verdict_of,
)
from taccl.encoding.instance import Instance, Part
from taccl.errors import TacclError
from taccl.plugins import Note

#: The row that stands for the second table, and the one that has its turn even where no time is left.
PHASES, ALWAYS = "phases", "textbook"

#: The smaller messages are, the more of the time message combining has: at most this.
_MOST_FOR_COMBINING = 0.6
_LEAST_FOR_EXCHANGE = 0.1
#: A problem with so many pairs of a chunk and a link is small: CP may be expected to end the search in
#: seconds.
_SMALL = 2_000
#: More pairs of a chunk and a link on paths up to so many times the shortest make a problem too large for
#: MILP and CP.
_MOST_ON_PATHS = 60_000
_LONG_PATHS = 1.5
#: More triples of a chunk, a rank and a link make a problem huge.
_HUGE = 200_000_000
_NOT_HUGE = f"at most {_HUGE:,} triples of a chunk, a rank and a link"


@dataclass(frozen=True)
class Stage:
    """A row: an engine, the condition on which it runs beside serving the problem, and its part of the time.

    Parameters
    ----------
    engine : its name, or `phases`.
    condition, share_in_words : what `runs` and `share` compute, for people.
    runs : whether it runs, or why not.
    share : the part of the time that is left, from 0 to 1.
    asks_quotient : whether already the question if it runs takes the quotient, which can take seconds.
    """

    engine: str
    condition: str
    share_in_words: str
    runs: Callable[[Instance], Verdict]
    share: Callable[[Instance], float]
    asks_quotient: bool = False


def always(_: Instance) -> Verdict:
    """On every problem that the engine serves."""
    return YES


def fixed(share: float) -> Callable[[Instance], float]:
    """The same share for every problem."""
    return lambda _: share


def share_of_combining(instance: Instance) -> float:
    """The part of the time that goes to searching the sequence of few large sends."""
    return _MOST_FOR_COMBINING * instance.latency_fraction**2


def _share_of_exchange(instance: Instance) -> float:
    return max(_LEAST_FOR_EXCHANGE, share_of_combining(instance) / 2)


def _share_of_phases(instance: Instance) -> float:
    return 0.45 if engine_named("all-programs").can(instance) else 0.9


def is_huge(instance: Instance) -> bool:
    """Whether MILP, CP and the prover had better not even look at it."""
    problem = instance.problem
    return problem.num_chunks * problem.num_ranks * problem.topology.num_links > _HUGE


def _not_huge(instance: Instance) -> Verdict:
    return no(f"more than {_HUGE:,} triples of a chunk, a rank and a link") if is_huge(instance) else YES


def _is_small(instance: Instance) -> Verdict:
    problem = instance.problem
    if problem.num_chunks * problem.topology.num_links > _SMALL:
        return no(f"more than {_SMALL:,} pairs of a chunk and a link")
    return _not_huge(instance)


def _has_pieces_or_quotient(instance: Instance) -> Verdict:
    if instance.problem.collective.chunks_per_rank > 1 or instance.quotient is not None:
        return YES
    return no("one chunk per rank, and ranks are not in one orbit")


def _share_of_routed(instance: Instance) -> float:
    return 0.4 if instance.problem.collective.chunks_per_rank > 1 else 0.1


def _share_of_greedy(instance: Instance) -> float:
    if is_huge(instance):
        return 1.0
    return 0.1 if engine_named("combining").can(instance) else 0.2


def _too_many_paths(instance: Instance) -> Verdict:
    if is_huge(instance):
        return no("it had all the time before")
    if instance.path_sets(_LONG_PATHS).sum() > _MOST_ON_PATHS:
        return YES
    return no(f"CP uses the time: no more than {_MOST_ON_PATHS:,} pairs of a chunk and a link on short paths")


def knows_phases(instance: Instance) -> bool:
    """Whether the problem uses nothing but copies and sums, so that its phases say all there is to say."""
    return instance.features <= COPIES_AND_SUMS


def _has_other_features(instance: Instance) -> Verdict:
    return no("other engines know this problem") if knows_phases(instance) else YES


WHOLE: tuple[Stage, ...] = (
    Stage(ALWAYS, "there are textbook algorithms for the demand", "15%", always, fixed(0.15)),
    Stage("all-programs", "a small problem with sums that several ranks want", "35%", always, fixed(0.35)),
    Stage(
        "exchange",
        "small messages, all of them sums that several ranks want, at most 64 ranks",
        "10% to 30%: half of combining's",
        always,
        _share_of_exchange,
    ),
    Stage(
        "owners",
        "small messages, sums that several ranks want, nodes of equal size",
        "half of combining's",
        always,
        lambda instance: share_of_combining(instance) / 2,
    ),
    Stage(PHASES, "always", "90%; 45% before all-programs", always, _share_of_phases),
    Stage("all-programs", "a small problem with sums that several ranks want", "90%", always, fixed(0.9)),
    Stage(
        "shortest",
        "unequal chunks, late inputs, tails or helpers: what the engines above do not know",
        "the rest",
        _has_other_features,
        fixed(1.0),
    ),
)

EACH_PHASE: tuple[Stage, ...] = (
    Stage("cp", f"at most {_SMALL:,} pairs of a chunk and a link", "20%", _is_small, fixed(0.2)),
    Stage(
        "trees",
        "every chunk goes from one rank to all; several chunks per rank, or ranks in one orbit",
        "40%; 10% with one chunk per rank",
        _has_pieces_or_quotient,
        _share_of_routed,
        asks_quotient=True,
    ),
    Stage(
        "flows",
        "every chunk goes from one rank to one; several chunks per rank, or ranks in one orbit",
        "40%; 10% with one chunk per rank",
        _has_pieces_or_quotient,
        _share_of_routed,
        asks_quotient=True,
    ),
    Stage(
        "greedy",
        "always",
        "20%; 10% before combining; all of it on larger problems than MILP and CP take",
        always,
        _share_of_greedy,
    ),
    Stage(
        "combining",
        "small messages: alpha is more than 5% of a chunk's time on some link",
        "60% times the square of alpha's part",
        _not_huge,
        share_of_combining,
    ),
    Stage("milp", _NOT_HUGE, "30%", _not_huge, fixed(0.3)),
    Stage("cp", _NOT_HUGE, "the rest", _not_huge, fixed(1.0)),
    Stage(
        "greedy",
        f"more than {_MOST_ON_PATHS:,} pairs of a chunk and a link on short paths: MILP and CP decline",
        "the rest",
        _too_many_paths,
        fixed(1.0),
    ),
)

#: The part of the time of an engine that another package adds, in `auto`.
_ADDED = 0.2
#: The part of the time for greedy passes, before the orders of the best of them are searched.
_BEFORE_ORDERS = 0.3


@dataclass(frozen=True)
class Plan:
    """The rows for a request: for the whole problem, and for each phase of it."""

    whole: tuple[Stage, ...]
    each_phase: tuple[Stage, ...]


def plan_for(asked: Engine | None, note: Note | None = None) -> Plan:
    """The plan of `auto` (None), or of an engine that is asked for by name.

    Textbook algorithms always have their turn, so that no search ends with something slower than what is
    known to all. `note` hears of engines that another package adds and that cannot be loaded.

    Raises
    ------
    TacclError : there is one of those, and no `note`.
    """
    textbook = WHOLE[0]
    if asked is None:
        return Plan((textbook, *_added(note), *WHOLE[1:]), EACH_PHASE)
    alone = Stage(asked.name, "it is asked for", "the rest", always, fixed(1.0))
    if asked.name == textbook.engine:
        return Plan((alone,), ())
    if asked.name == "orders":
        before = Stage(PHASES, "always", f"{_BEFORE_ORDERS:.0%}", always, fixed(_BEFORE_ORDERS))
        return Plan((textbook, before, alone), (Stage("greedy", "always", "all of it", always, fixed(1.0)),))
    if asked.takes_sums:
        return Plan((textbook, alone), ())
    parts = {stage.engine for stage in WHOLE if stage.engine != PHASES}
    kept = {name for name in parts if engine_named(name).part_of == asked.name} | {PHASES}
    return Plan((textbook, *(stage for stage in WHOLE if stage.engine in kept)), (alone,))


def _added(note: Note | None) -> Iterator[Stage]:
    """A row for each engine that another package adds."""
    for engine in added_engines(note):
        yield Stage(engine.name, "another package adds it", f"{_ADDED:.0%}", always, fixed(_ADDED))


def verdict_on(stage: Stage, instance: Instance) -> Verdict:
    """Whether a row runs on an instance, or why not.

    Raises
    ------
    TacclError : an engine of another package breaks down over that.
    """
    if stage.engine == PHASES:
        return stage.runs(instance)
    return verdict_of(engine_named(stage.engine), instance) and stage.runs(instance)


@dataclass(frozen=True)
class Explained:
    """A row of a plan for one problem.

    Parameters
    ----------
    part : what it is about.
    engine, condition : of the row.
    share : the part of the time that is left when its turn comes; None: it does not run, for `reason`.
    """

    part: Part
    engine: str
    condition: str
    share: float | None
    reason: str


def explained(instance: Instance, plan: Plan) -> Iterator[Explained]:
    """The rows of a plan, with what becomes of each for this problem."""
    for stage in plan.whole:
        if stage.engine != PHASES:
            yield _explained(stage, instance)
            continue
        for part in _parts(instance):
            for row in plan.each_phase:
                yield _explained(row, part)


def _parts(instance: Instance) -> Iterator[Instance]:
    if not knows_phases(instance):
        yield instance
        return
    parts = instance.phases
    yield from (part for part in (parts.reduce_phase, parts.broadcast_phase) if part is not None)


def _explained(stage: Stage, instance: Instance) -> Explained:
    verdict = verdict_on(stage, instance)
    share = stage.share(instance) if verdict else None
    return Explained(instance.part, stage.engine, stage.condition, share, verdict.reason)


def first_engines(instance: Instance, note: Note | None = None) -> tuple[Engine, ...]:
    """Engines that may have a schedule at once, in the order in which they are asked.

    `note` hears of those that another package adds and that break down.

    Raises
    ------
    TacclError : there is one of those, and no `note`.
    """
    if not knows_phases(instance):
        whole = (engine for engine in all_engines(note) if engine.takes_sums)
        return tuple(engine for engine in whole if _serves(engine, instance, note))
    greedy, combining, along_trees = map(engine_named, ("greedy", "combining", "along-trees"))
    if greedy.is_quick(instance):
        return (greedy, along_trees) if along_trees.can(instance) else (greedy,)
    return (along_trees,) if along_trees.can(instance) else (combining, greedy)


def _serves(engine: Engine, instance: Instance, note: Note | None) -> bool:
    try:
        return bool(verdict_of(engine, instance))
    except TacclError as fault:
        if note is None:
            raise
        note(engine.name, fault)
        return False
