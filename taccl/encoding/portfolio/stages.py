"""What `auto` does, as two tables: which engine runs on which condition, and for how long.

`WHOLE` is walked once for the problem. Its row `phases` walks `EACH_PHASE` for the reduce phase and for
the broadcast phase, or for the problem itself where nothing is summed. A share is a part of the time that is
left when the row's turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taccl.encoding.engines.engine import Engine, Verdict
from taccl.encoding.engines.registry import added_engines, engine_named, verdict_of
from taccl.encoding.instance import Instance, Part
from taccl.encoding.portfolio.conditions import (
    MOST_ON_PATHS,
    MOST_PLACES,
    NOT_HUGE,
    SMALL,
    always,
    has_not_too_many_places,
    has_one_piece,
    has_other_features,
    has_pieces_or_quotient,
    has_two_phases,
    is_huge,
    is_small,
    knows_phases,
    not_huge,
    too_many_paths,
)
from taccl.encoding.portfolio.shares import Case, Share, fixed, percent, usually
from taccl.support.plugins import Note

#: The row that stands for the second table, and the one that has its turn even where no time is left.
PHASES, ALWAYS = "phases", "textbook"

#: Textbook algorithms are a short list, and building each takes one pass: mostly they leave most of this to
#: others. It is for many chunks, hundreds of ranks and short limits, as no search may end above a textbook.
_FOR_TEXTBOOK = 0.3
#: Forests and paths are many ways to do one thing: on small problems all are tried in less, on huge ones each
#: takes seconds and nobody comes nearer to the bound.
_FOR_PIPELINES, _FOR_PIPELINES_ON_HUGE = 0.3, 0.7
#: Clusters are composed in few ways, each in a moment.
_FOR_HIERARCHICAL = 0.1
#: A search among all programs may end everything with a proof, so it comes first; mostly it does not, so what
#: it leaves is more than what it has.
_FOR_ALL_PROGRAMS = 0.35
#: Rows that could go on for ever leave a tenth, in which groups and orders of the best schedule are improved.
_BEFORE_THE_LAST_STEP = 0.9
#: Where all programs are searched once more after the phases, both have about as long.
_BEFORE_ALL_PROGRAMS = _BEFORE_THE_LAST_STEP / 2
#: Windows of the best schedule improve what the phases found, as long as there is time. Where every chunk
#: goes from one rank to one, annealing finds more in the same time (an AlltoAll of 16 ranks: 12.02 us in all
#: of it, 12.09 where windows had a part), and windows have half of the last step.
_BEFORE_WINDOWS, _FOR_WINDOWS_BEFORE_ALL_PROGRAMS, _FOR_WINDOWS_OF_PAIRS = 0.6, 0.4, 0.5
_OF_PAIRS = "where every chunk goes from one rank to one"
#: The smaller messages are, the more of the time message combining has: at most this, so that greedy, MILP
#: and CP have a turn even where alpha is all that counts.
_MOST_FOR_COMBINING = 0.6
#: Exchanging sums and sums by owners do as a whole what combining does in each phase after them: each has a
#: part of what that would have. Exchanges also pay where messages are not so small, and have at least this.
_OF_COMBINING, _LEAST_FOR_EXCHANGE = 0.5, 0.1
#: With several pieces to spread, trees and flows are what comes nearest to the bandwidth of a machine; a
#: single piece can only be rounded to one way, which they seldom find better than others: a short try.
_FOR_ROUTES, _FOR_ROUTES_OF_ONE_PIECE = 0.4, 0.1
#: Greedy passes find most of what they find soon; less where combining begins with what they found. What is
#: too large for MILP and CP has nobody else to leave time to.
_FOR_GREEDY, _FOR_GREEDY_BEFORE_COMBINING, _FOR_GREEDY_ALONE = 0.2, 0.1, 1.0
#: CP settles small problems in seconds or not at all; then MILP and CP on long ways have their turns.
_FOR_CP_FIRST, _FOR_MILP = 0.2, 0.3
#: A plan of few groups is tried in seconds, and the first ones are mostly the best. What is summed first
#: crosses twice in it, once in each phase, which is seldom best where alpha counts.
_FOR_STAGED, _FOR_STAGED_IN_TWO_PHASES, _WHERE_ALPHA_COUNTS = 0.5, 0.4, 0.15


@dataclass(frozen=True)
class Stage:
    """A row: an engine, the condition on which it runs beside serving the problem, and its part of the time.

    Parameters
    ----------
    engine : its name, or `phases`.
    condition : what `runs` computes, for people.
    runs : whether it runs, or why not.
    share : its part of the time that is left.
    asks_quotient : whether already the question if it runs takes the quotient, which can take seconds.
    """

    engine: str
    condition: str
    runs: Callable[[Instance], Verdict]
    share: Share
    asks_quotient: bool = False


def share_of_combining(instance: Instance) -> float:
    """The part of the time that goes to searching the sequence of few large sends."""
    return _MOST_FOR_COMBINING * instance.latency_fraction**2


def share_of_staged(instance: Instance) -> float:
    """The part of the time for crossing in few groups; of chunks from one rank to one, only small ones."""
    if has_two_phases(instance):
        return max(_WHERE_ALPHA_COUNTS, _FOR_STAGED_IN_TWO_PHASES * (1 - instance.latency_fraction))
    return _FOR_STAGED * (instance.latency_fraction**2 if _serves("paths")(instance) else 1.0)


def _serves(name: str) -> Callable[[Instance], bool]:
    return lambda instance: bool(engine_named(name).can(instance))


_COMBINING = Share(share_of_combining, f"{percent(_MOST_FOR_COMBINING)} times the square of alpha's part")
_EXCHANGE = Share(
    lambda instance: max(_LEAST_FOR_EXCHANGE, _OF_COMBINING * share_of_combining(instance)),
    f"{percent(_OF_COMBINING)} of combining's, at least {percent(_LEAST_FOR_EXCHANGE)}",
)
_OWNERS = Share(
    lambda instance: _OF_COMBINING * share_of_combining(instance),
    f"{percent(_OF_COMBINING)} of combining's",
)
_PHASES = usually(
    _BEFORE_THE_LAST_STEP,
    Case(_BEFORE_WINDOWS, "before windows", _serves("windows")),
    Case(_BEFORE_THE_LAST_STEP, _OF_PAIRS, _serves("paths")),
    Case(_BEFORE_ALL_PROGRAMS, "before all-programs", _serves("all-programs")),
)
_WINDOWS = usually(
    _BEFORE_THE_LAST_STEP,
    Case(_FOR_WINDOWS_OF_PAIRS, _OF_PAIRS, _serves("paths")),
    Case(_FOR_WINDOWS_BEFORE_ALL_PROGRAMS, "before all-programs", _serves("all-programs")),
)
_ROUTES = usually(_FOR_ROUTES, Case(_FOR_ROUTES_OF_ONE_PIECE, "with one chunk per rank", has_one_piece))
_GREEDY = usually(
    _FOR_GREEDY,
    Case(_FOR_GREEDY_BEFORE_COMBINING, "before combining", _serves("combining")),
    Case(_FOR_GREEDY_ALONE, "on larger problems than MILP and CP take", is_huge),
)
_PIPELINES = usually(
    _FOR_PIPELINES, Case(_FOR_PIPELINES_ON_HUGE, "on larger problems than MILP and CP take", is_huge)
)
_STAGED = Share(
    share_of_staged,
    f"{percent(_FOR_STAGED)}; {percent(_FOR_STAGED)} times the square of alpha's part {_OF_PAIRS}; "
    f"{percent(_FOR_STAGED_IN_TWO_PHASES)} times the rest of a chunk's time, at least "
    f"{percent(_WHERE_ALPHA_COUNTS)}, where sums are copied on",
)
_REST = fixed(1.0)

WHOLE: tuple[Stage, ...] = (
    Stage(
        ALWAYS,
        f"there are textbook algorithms for the demand; at most {MOST_PLACES:,} outputs",
        has_not_too_many_places,
        fixed(_FOR_TEXTBOOK),
    ),
    Stage("hierarchical", "a cluster of equal nodes, parts of all ranks", always, fixed(_FOR_HIERARCHICAL)),
    Stage("staged", "few small equal nodes, each with one NIC", always, _STAGED),
    Stage(
        "forest",
        f"every chunk comes from all ranks, goes to all, or both; at most {MOST_PLACES:,} outputs",
        has_not_too_many_places,
        _PIPELINES,
    ),
    Stage(
        "all-programs",
        "a small problem with sums that several ranks want",
        always,
        fixed(_FOR_ALL_PROGRAMS),
    ),
    Stage(
        "exchange",
        "small messages, all of them sums that several ranks want, at most 64 ranks or nodes alike",
        always,
        _EXCHANGE,
    ),
    Stage("owners", "small messages, sums that several ranks want, nodes of equal size", always, _OWNERS),
    Stage(PHASES, f"at most {MOST_PLACES:,} outputs", has_not_too_many_places, _PHASES),
    Stage("windows", "at most 20,000 inputs or outputs", always, _WINDOWS),
    Stage(
        "all-programs",
        "a small problem with sums that several ranks want",
        always,
        fixed(_BEFORE_THE_LAST_STEP),
    ),
    Stage(
        "shortest",
        "unequal chunks, late inputs, tails or helpers: what the engines above do not know",
        has_other_features,
        _REST,
    ),
)

EACH_PHASE: tuple[Stage, ...] = (
    Stage("cp", f"at most {SMALL:,} pairs of a chunk and a link", is_small, fixed(_FOR_CP_FIRST)),
    Stage(
        "trees",
        "every chunk goes from one rank to all; several chunks per rank, or ranks in one orbit",
        has_pieces_or_quotient,
        _ROUTES,
        asks_quotient=True,
    ),
    Stage("paths", "every chunk goes from one rank to one", always, _PIPELINES),
    Stage(
        "flows",
        "every chunk goes from one rank to one; several chunks per rank, or ranks in one orbit",
        has_pieces_or_quotient,
        _ROUTES,
        asks_quotient=True,
    ),
    Stage("greedy", "always", always, _GREEDY),
    Stage(
        "combining",
        "small messages: alpha is more than 5% of a chunk's time on some link",
        not_huge,
        _COMBINING,
    ),
    Stage("milp", NOT_HUGE, not_huge, fixed(_FOR_MILP)),
    Stage("cp", NOT_HUGE, not_huge, _REST),
    Stage(
        "greedy",
        f"more than {MOST_ON_PATHS:,} pairs of a chunk and a link on short paths: MILP and CP decline",
        too_many_paths,
        _REST,
    ),
)

#: The part of the time of an engine that another package adds, in `auto`: as much as a first look of our own
#: engines, since nothing is known of it.
_ADDED = 0.2
#: Engines that only improve what is known.
_IMPROVING = ("orders", "windows")
#: The part of the time for greedy passes, before the best of them is improved: passes find most soon, and the
#: improvement is what was asked for.
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
    alone = Stage(asked.name, "it is asked for", always, _REST)
    if asked.name == textbook.engine:
        return Plan((alone,), ())
    if asked.name in _IMPROVING:
        before = Stage(PHASES, "always", always, fixed(_BEFORE_ORDERS))
        return Plan((textbook, before, alone), (Stage("greedy", "always", always, _REST),))
    if asked.takes_sums:
        return Plan((textbook, alone), ())
    parts = {stage.engine for stage in WHOLE if stage.engine != PHASES}
    kept = {name for name in parts if engine_named(name).part_of == asked.name} | {PHASES}
    return Plan((textbook, *(stage for stage in WHOLE if stage.engine in kept)), (alone,))


def _added(note: Note | None) -> Iterator[Stage]:
    """A row for each engine that another package adds."""
    for engine in added_engines(note):
        yield Stage(engine.name, "another package adds it", always, fixed(_ADDED))


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
