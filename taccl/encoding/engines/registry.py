"""All engines, in one tuple; those of other packages join them by an entry point."""

from __future__ import annotations

from taccl.encoding.engines import (
    combining,
    cp,
    flows,
    forest,
    greedy,
    hierarchical,
    milp,
    orders,
    paths,
    shortest,
    staged,
    textbook,
    trees,
    windows,
)
from taccl.encoding.engines.by_phases import by_phases
from taccl.encoding.engines.engine import Engine, Verdict, beginning_with, everything
from taccl.encoding.instance import Instance
from taccl.errors import SolverError, TacclError
from taccl.model.problem import FEATURES
from taccl.support.plugins import Note, added, told_as_of

#: Problems that use no more than this are what most engines know.
COPIES_AND_SUMS = frozenset({"reductions"})
#: The group of entry points under which other packages add theirs.
GROUP = "taccl.engines"

_greedy = Engine(
    name="greedy",
    about="list scheduling under many policies",
    features=COPIES_AND_SUMS,
    serves=everything,
    run=greedy.greedy,
    is_quick=greedy.is_quick,
)
_first_by_greedy = by_phases(greedy.greedy)
_along_trees = Engine(
    name="along-trees",
    about="one schedule at once, at any size: each chunk along a tree of its own",
    features=COPIES_AND_SUMS,
    serves=greedy.serves_along_trees,
    run=greedy.along_trees,
    takes_sums=True,
    part_of="greedy",
)

ENGINES: tuple[Engine, ...] = (
    Engine(
        name="textbook",
        about="the algorithms that everybody knows",
        features=COPIES_AND_SUMS,
        serves=textbook.serves,
        run=textbook.textbook,
        takes_sums=True,
    ),
    _greedy,
    _along_trees,
    Engine(
        name="combining",
        about="few large sends, by simulated annealing",
        features=COPIES_AND_SUMS,
        serves=combining.serves,
        run=beginning_with(greedy.greedy, combining.combine),
        at_once=combining.combine_at_once,
    ),
    Engine(
        name="exchange",
        about="message combining for a small AllReduce as a whole",
        features=COPIES_AND_SUMS,
        serves=combining.serves_exchange,
        run=combining.exchange_with(textbook.textbook),
        takes_sums=True,
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
    Engine(
        name="milp",
        about="routes, then orders, then groups and times, by mixed-integer programming",
        features=COPIES_AND_SUMS,
        serves=milp.serves,
        run=beginning_with(greedy.greedy, milp.milp),
    ),
    Engine(
        name="groups",
        about="which neighbours of given sends share a send, by mixed-integer programming",
        features=COPIES_AND_SUMS,
        serves=everything,
        run=beginning_with(_first_by_greedy, milp.regrouped),
        takes_sums=True,
        part_of="milp",
    ),
    Engine(
        name="cp",
        about="routes, orders and groups at once, by constraint programming",
        features=COPIES_AND_SUMS,
        serves=cp.serves,
        run=beginning_with(greedy.greedy, cp.jointly),
    ),
    Engine(
        name="joint",
        about="constraint programming over sums and copies at once, with each sum made once",
        features=COPIES_AND_SUMS,
        serves=cp.serves_jointly,
        run=beginning_with(_first_by_greedy, cp.jointly),
        takes_sums=True,
        part_of="cp",
    ),
    Engine(
        name="all-programs",
        about="constraint programming over all ways of making sums",
        features=COPIES_AND_SUMS,
        serves=cp.serves_all_programs,
        run=beginning_with(_first_by_greedy, cp.all_programs),
        takes_sums=True,
        part_of="cp",
    ),
    Engine(
        name="trees",
        about="spanning trees at the throughput optimum",
        features=COPIES_AND_SUMS,
        serves=trees.serves,
        run=beginning_with(greedy.greedy, trees.trees),
    ),
    Engine(
        name="forest",
        about="a spanning tree for each chunk, sums and copies in one pipeline, at any size",
        features=COPIES_AND_SUMS,
        serves=forest.serves,
        run=forest.forest,
        is_compiled=forest.is_compiled,
        takes_sums=True,
    ),
    Engine(
        name="hierarchical",
        about="one node's part, inside and across, which all equal nodes of a cluster do at once",
        features=COPIES_AND_SUMS,
        serves=hierarchical.serves,
        run=hierarchical.hierarchical,
        takes_sums=True,
    ),
    Engine(
        name="staged",
        about="clusters of small equal nodes: gather, cross and spread, each by constraint programming",
        features=COPIES_AND_SUMS,
        serves=staged.serves,
        run=beginning_with(greedy.greedy, staged.staged),
    ),
    Engine(
        name="flows",
        about="paths at the flow optimum",
        features=COPIES_AND_SUMS,
        serves=flows.serves,
        run=beginning_with(greedy.greedy, flows.flows),
    ),
    Engine(
        name="paths",
        about="a path for each chunk that goes to one rank, all in one pipeline, at any size",
        features=COPIES_AND_SUMS,
        serves=paths.serves,
        run=paths.paths,
        at_once=paths.paths_at_once,
        is_compiled=paths.is_compiled,
    ),
    Engine(
        name="orders",
        about="the best order of given sends, proved by z3",
        features=COPIES_AND_SUMS,
        serves=everything,
        run=beginning_with(_first_by_greedy, orders.smt),
        takes_sums=True,
    ),
    Engine(
        name="windows",
        about="local search: parts of the best schedule decided anew by constraint programming",
        features=COPIES_AND_SUMS,
        serves=windows.serves,
        run=beginning_with(_first_by_greedy, windows.windows),
        takes_sums=True,
    ),
    Engine(
        name="shortest",
        about="each chunk along its shortest paths, for problems with features that no other engine knows",
        features=FEATURES,
        serves=shortest.serves,
        run=shortest.shortest,
        takes_sums=True,
    ),
)


def added_engines(note: Note | None = None) -> tuple[Engine, ...]:
    """The engines of other packages; see `taccl.support.plugins.added`."""
    return added(GROUP, Engine, note)


def all_engines(note: Note | None = None) -> tuple[Engine, ...]:
    """The engines that come with taccl, then those of other packages."""
    return (*ENGINES, *added_engines(note))


def verdict_of(engine: Engine, instance: Instance) -> Verdict:
    """Whether an engine serves an instance, or why not.

    Raises
    ------
    TacclError : an engine of another package breaks down over that.
    """
    if any(engine is each for each in ENGINES):
        return engine.can(instance)
    with told_as_of(f"the engine {engine.name!r}"):
        verdict = engine.can(instance)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"it serves, or not, with {verdict!r}, which is no Verdict")
        return verdict


def names() -> tuple[str, ...]:
    """What `--engine` may be, but for older names."""
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
    raise SolverError(f"unknown engine {name!r}", hint="one of " + ", ".join(names()))
