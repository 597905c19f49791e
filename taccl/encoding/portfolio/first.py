"""Who may have a schedule at once, before the plan begins.

It knows engines and how large problems are; which engines run afterwards it must not know (`stages`).
"""

from __future__ import annotations

from taccl.encoding.engines.engine import Engine
from taccl.encoding.engines.registry import all_engines, engine_named, verdict_of
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.conditions import has_not_too_many_places, knows_phases
from taccl.errors import TacclError
from taccl.support.plugins import Note

#: With more chunks that go from one rank to one, paths are there sooner than a step for each transfer takes.
_MANY_CHUNKS = 500_000


def first_engines(instance: Instance, note: Note | None = None) -> tuple[Engine, ...]:
    """Engines that may have a schedule at once, in the order in which they are asked.

    `note` hears of those that another package adds and that break down.

    Raises
    ------
    TacclError : there is one of those, and no `note`.
    """
    if not knows_phases(instance):
        whole = (engine for engine in all_engines(note) if engine.takes_sums)
        return tuple(engine for engine in whole if _answers(engine, instance, note))
    greedy, combining, along_trees = map(engine_named, ("greedy", "combining", "along-trees"))
    if greedy.is_quick(instance):
        return (greedy, along_trees) if along_trees.can(instance) else (greedy,)
    composed = engine_named("hierarchical")
    if not has_not_too_many_places(instance):
        return (composed,) if composed.can(instance) else ()
    if instance.problem.num_chunks > _MANY_CHUNKS and (paths := engine_named("paths")).can(instance):
        return (paths, along_trees) if along_trees.can(instance) else (paths, greedy)
    large = tuple(engine for engine in (composed, along_trees) if engine.can(instance))
    return large or (combining, greedy)


def _answers(engine: Engine, instance: Instance, note: Note | None) -> bool:
    try:
        return bool(verdict_of(engine, instance))
    except TacclError as fault:
        if note is None:
            raise
        note(engine.name, fault)
        return False
