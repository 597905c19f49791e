"""All engines, in the order of their turns; those of other packages join them by an entry point.

This is the one place that names engines; how long each runs is for one rule to say (`portfolio.rounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines import (
    combining,
    cp,
    gather_cross_scatter,
    greedy,
    hierarchical,
    in_switch,
    lns,
    milp,
    needs,
    routes,
    streams,
    textbook,
)
from taccl.encoding.engines.by_cuts import by_cuts
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.engines.engine import Engine, Verdict, beginning_with, everything, many_cuts
from taccl.encoding.engines.needs import COPIES_AND_SUMS, FEW_OUTPUTS, NOT_HUGE
from taccl.encoding.engines.part_of_all import across_part_of, part_of, serves_part_of
from taccl.encoding.engines.turned import turned
from taccl.encoding.instance import Instance
from taccl.errors import SolverError, TacclError
from taccl.model.problem import FEATURES
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.support.plugins import Note, added, reported_as_of

#: The group of entry points under which other packages add theirs.
GROUP = "taccl.engines"

#: Of engines that decide sums and copies apart: what joins both knows of the work in between.
_OF_PHASES = COPIES_AND_SUMS | {"sum_work"}
#: What the scheduling model for CP-SAT knows.
_OF_THE_MODEL = COPIES_AND_SUMS | {"sizes", "ready_times", "tails"}
#: What it knows of whole problems: local search asks it about parts of a schedule, and no helpers.
_OF_WHOLE_PROBLEMS = _OF_THE_MODEL | {"helpers"}


def _first(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """A first schedule of any problem, for engines that improve one."""
    known = instance.features <= COPIES_AND_SUMS
    yield from (greedy.greedy if known else routes.routes_at_once)(instance, options, budget, incumbent)


_first_of_sums = by_phases(_first)

_streams = Engine(
    name="streams",
    about="chunk after chunk of one root to wherever it is lacking, the rarest first",
    features=COPIES_AND_SUMS,
    serves=streams.serves,
    run=streams.streams,
    at_once=streams.streams_at_once,
    takes_sums=True,
    role="first",
    needs=(FEW_OUTPUTS,),
    across_chunks=streams.across_chunks,
    cuts=many_cuts,
    is_compiled=streams.is_compiled,
)
_hierarchical = Engine(
    name="hierarchical",
    about="one node's part, inside and across, which all equal nodes of a cluster do at once",
    features=COPIES_AND_SUMS,
    serves=hierarchical.serves,
    run=hierarchical.hierarchical,
    takes_sums=True,
    role="first",
    of_node_0=hierarchical.of_node_0,
)
_part_of_all = Engine(
    name="part-of-all",
    about="what one rank has or wants, as it goes in a hierarchical AllGather or AllReduce",
    features=COPIES_AND_SUMS,
    serves=serves_part_of(hierarchical.serves),
    run=part_of(hierarchical.hierarchical),
    takes_sums=True,
    role="first",
    part_of="hierarchical",
)
_routes = Engine(
    name="routes",
    about="trees and paths at balanced loads, put in order by one scheduler: pipelines and matchings",
    features=FEATURES,
    serves=routes.serves,
    run=routes.routes,
    at_once=routes.routes_at_once,
    is_compiled=routes.is_compiled,
    takes_sums=True,
    needs=(FEW_OUTPUTS,),
    tells_chunks=needs.is_large_message,
    across_chunks=routes.across_chunks,
    cuts=needs.heavy_cuts,
)
_textbook = turned(
    Engine(
        name="textbook",
        about="the algorithms that everybody knows",
        features=COPIES_AND_SUMS,
        serves=textbook.serves,
        run=textbook.textbook,
        at_once=textbook.textbook_at_once,
        takes_sums=True,
        role="first",
        needs=(FEW_OUTPUTS,),
        runs_always=True,
        across_chunks=textbook.fastest,
        several=textbook.fastest_valid,
        named=textbook.of_libraries,
    )
)
_greedy = turned(
    Engine(
        name="greedy",
        about="list scheduling under many policies",
        features=_OF_PHASES,
        serves=everything,
        run=greedy.greedy,
        at_once=greedy.greedy_at_once,
        needs=(FEW_OUTPUTS,),
        tells_chunks=lambda _: True,
    )
)
_combining = turned(
    Engine(
        name="combining",
        about="few large sends, by simulated annealing",
        features=_OF_PHASES,
        serves=combining.serves,
        run=beginning_with(greedy.greedy, combining.combine),
        at_once=combining.combine_at_once,
        tells_chunks=combining.tells_chunks,
        across_chunks=by_cuts(by_phases(combining.combine, asks_quotient=False)),
        cuts=combining.cuts,
        is_compiled=combining.is_compiled,
        needs=(FEW_OUTPUTS, NOT_HUGE),
    )
)
ENGINES: tuple[Engine, ...] = (
    _streams,
    _textbook,
    Engine(
        name="in-switch",
        about="sums and copies by a switch that reaches all ranks, one chunk after another or in groups",
        features=COPIES_AND_SUMS | {"helpers"},
        serves=in_switch.serves,
        run=in_switch.in_switch,
        takes_sums=True,
        role="first",
        needs=(FEW_OUTPUTS,),
        tells_chunks=lambda _: True,
        across_chunks=in_switch.across_chunks,
        named=in_switch.named,
    ),
    _hierarchical,
    _part_of_all,
    Engine(
        name="part-of-books",
        about="the same of textbook algorithms",
        features=COPIES_AND_SUMS,
        serves=serves_part_of(textbook.serves),
        run=part_of(textbook.textbook),
        takes_sums=True,
        role="first",
        needs=(needs.ALPHAS_COUNT,),
        across_chunks=across_part_of(textbook.serves, textbook.fastest),
        cuts=many_cuts,
        part_of="textbook",
    ),
    Engine(
        name="gather-cross-scatter",
        about="clusters of small equal nodes: gather, cross and spread, each by constraint programming",
        features=COPIES_AND_SUMS,
        serves=gather_cross_scatter.serves,
        run=beginning_with(greedy.greedy, gather_cross_scatter.gather_cross_scatter),
        role="first",
    ),
    Engine(
        name="exchange",
        about="message combining for a small AllReduce as a whole",
        features=COPIES_AND_SUMS,
        serves=combining.serves_exchange,
        run=combining.exchange_with(textbook.textbook),
        takes_sums=True,
        across_chunks=by_cuts(combining.exchange_with(textbook.textbook)),
        cuts=lambda _: (1,),
        part_of="combining",
    ),
    Engine(
        name="owners",
        about="message combining with sums made at other ranks",
        features=COPIES_AND_SUMS,
        serves=combining.serves_owners,
        run=combining.combine_at_owners,
        takes_sums=True,
        part_of="combining",
    ),
    _routes,
    _combining,
    _greedy,
    Engine(
        name="milp",
        about="routes by mixed-integer programming, orders by list scheduling, after TACCL",
        features=_OF_PHASES,
        serves=milp.serves,
        run=beginning_with(greedy.greedy, milp.milp),
        needs=(FEW_OUTPUTS, NOT_HUGE),
    ),
    Engine(
        name="cp",
        about="routes, orders and groups at once, by constraint programming",
        features=_OF_WHOLE_PROBLEMS,
        serves=cp.serves,
        run=beginning_with(_first, cp.jointly),
        role="prove",
        needs=(FEW_OUTPUTS, NOT_HUGE),
    ),
    Engine(
        name="joint",
        about="constraint programming over sums and copies at once, with each sum made once",
        features=_OF_WHOLE_PROBLEMS,
        serves=cp.serves_jointly,
        run=beginning_with(_first_of_sums, cp.jointly),
        takes_sums=True,
        role="prove",
        part_of="cp",
    ),
    Engine(
        name="all-programs",
        about="constraint programming over all routes of making sums",
        features=COPIES_AND_SUMS,
        serves=cp.serves_all_programs,
        run=beginning_with(_first_of_sums, cp.all_programs),
        takes_sums=True,
        role="prove",
        part_of="cp",
    ),
    Engine(
        name="lns",
        about="local search: parts of the best schedule decided anew by constraint programming",
        features=_OF_THE_MODEL,
        serves=lns.serves,
        run=beginning_with(_first_of_sums, lns.lns),
        takes_sums=True,
    ),
)

#: Engines that serve in the place of others that went.
_SUCCESSORS = {
    "greedy": ("along-trees",),
    "routes": ("forest", "trees", "paths", "flows", "shortest"),
    "lns": ("windows", "orders", "groups"),
    "gather-cross-scatter": ("staged",),
}

#: Who is requested the first schedule, in this order, each where the second entry says so.
_OPENINGS: tuple[tuple[Engine, Callable[[Instance], bool]], ...] = (
    (_routes, lambda instance: not COPIES_AND_SUMS >= instance.features),
    (_streams, lambda instance: instance.is_of_one_root),
    (_greedy, greedy.is_quick),
    (_routes, needs.has_many_chunks),
    (_hierarchical, lambda _: True),
    (_part_of_all, lambda instance: instance.demand.delivers or instance.demand.gathers),
    (_textbook, lambda _: True),
    (_greedy, lambda instance: bool(greedy.has_trees(instance))),
    (_combining, lambda _: True),
    (_greedy, lambda _: True),
)


def first_engines(instance: Instance, note: Note | None = None) -> Iterator[Engine]:
    """Engines that may have a schedule at once, in the order in which they are requested; then all others.

    `note` hears of those that another package adds and that break down.

    Raises
    ------
    TacclError : there is one of those, and no `note`.
    """
    openings = [engine for engine, is_meant in _OPENINGS if is_meant(instance)]
    for engine in dict.fromkeys((*openings, *all_engines(note))):
        try:
            if verdict_of(engine, instance) and engine.has_its_needs(instance):
                yield engine
        except TacclError as fault:
            if note is None:
                raise
            note(engine.name, fault)


def several_schedules(instance: Instance, budget: Budget, most: int) -> list[Schedule]:
    """Valid schedules of engines that have several at once, at most this many of each, its fastest first.

    Last come those of the machine without its helpers, if it has any.
    """
    made = [each for engine in ENGINES if engine.several for each in engine.several(instance, budget, most)]
    if instance.members is not None and instance.members_instance is not None:
        made += map(instance.members.lifted, several_schedules(instance.members_instance, budget, most))
    return made


def compile_first_trees(instance: Instance) -> bool:
    """Make machine code of the loop for first schedules of large machines; whether it was there."""
    return greedy.compile_trees(instance)


def plan_on_line(instance: Instance, name: str) -> Schedule | None:
    """A textbook algorithm on the ranks in the order of their numbers; None: there is none for the demand.

    Raises
    ------
    KeyError : no algorithm for the demand and this many ranks has that name.
    """
    return textbook.by_name(instance, name, orders=(range(instance.problem.num_ranks),))


def added_engines(note: Note | None = None) -> tuple[Engine, ...]:
    """The engines of other packages; see `taccl.support.plugins.added`."""
    return added(GROUP, Engine, note)


def all_engines(note: Note | None = None) -> tuple[Engine, ...]:
    """The engines that come with taccl, then those of other packages."""
    return (*ENGINES, *added_engines(note))


def is_added(engine: Engine) -> bool:
    """Whether an engine is of another package."""
    return not any(engine is each for each in ENGINES)


def verdict_of(engine: Engine, instance: Instance) -> Verdict:
    """Whether an engine serves an instance, or why not.

    Raises
    ------
    TacclError : an engine of another package breaks down over that.
    """
    if not is_added(engine):
        return engine.can(instance)
    with reported_as_of(f"the engine {engine.name!r}"):
        verdict = engine.can(instance)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"it serves, or not, with {verdict!r}, which is no Verdict")
        return verdict


def serves_somehow(engine: Engine, instance: Instance) -> Verdict:
    """Whether an engine serves an instance, or what is left of it without helpers; or why neither.

    Raises
    ------
    TacclError : an engine of another package breaks down over that.
    """
    verdict = verdict_of(engine, instance)
    if verdict or instance.members_instance is None:
        return verdict
    return verdict_of(engine, instance.members_instance)


def names() -> tuple[str, ...]:
    """What `--engine` may be."""
    return ("auto", *(engine.name for engine in all_engines()))


def engine_named(name: str) -> Engine:
    """The engine of that name.

    Raises
    ------
    SolverError : there is none.
    TacclError : there is none, but an engine that another package adds cannot be loaded.
    """
    for engine in ENGINES:
        if name == engine.name:
            return engine
    faults: list[TacclError] = []
    for engine in added_engines(lambda _, fault: faults.append(fault)):
        if name == engine.name:
            return engine
    if faults:
        raise faults[0]
    for after, gone in _SUCCESSORS.items():
        if name in gone:
            raise SolverError(f"there is no engine {name!r} any more", hint=f"{after} serves in its place")
    raise SolverError(f"unknown engine {name!r}", hint="one of " + ", ".join(names()))
