"""Which engines take part in a search, in the order of their turns, and why the others do not.

Engines that take sums work on the problem as it is. The others work on each phase of it: on the sums, read
backwards, and on the copies. Without sums the problem is one phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taccl.encoding.engines.engine import Engine, Role, Verdict
from taccl.encoding.engines.needs import is_small, knows_phases
from taccl.encoding.engines.registry import ENGINES, all_engines, is_added, verdict_of
from taccl.encoding.instance import Instance, Part
from taccl.support.plugins import Note

#: Builders first, as they are soon done. A search of all schedules comes next where it may soon end with a
#: proof, and last elsewhere.
_ORDER: dict[Role, int] = {"first": 0, "improve": 2, "prove": 3}
_PROOF_IS_NEAR = 1
#: Who installed a package with an engine wants to see it run.
_ADDED = 0


@dataclass(frozen=True)
class Lineup:
    """The engines of a search.

    Parameters
    ----------
    engines : all of them, in the order of the registry.
    checks_needs : whether the needs of a row count; an engine that is requested runs wherever it serves.
    """

    engines: tuple[Engine, ...]
    checks_needs: bool = True

    def in_turn(self, instance: Instance) -> tuple[Engine, ...]:
        """The engines in the order of their turns on an instance."""

        def turn(engine: Engine) -> int:
            if is_added(engine):
                return _ADDED
            return _PROOF_IS_NEAR if engine.role == "prove" and is_small(instance) else _ORDER[engine.role]

        return tuple(sorted(self.engines, key=turn))

    def verdict(self, engine: Engine, instance: Instance) -> Verdict:
        """Whether an engine runs on an instance, or why not.

        Raises
        ------
        TacclError : an engine of another package breaks down over that.
        """
        verdict = verdict_of(engine, instance)
        return verdict and engine.has_its_needs(instance) if self.checks_needs else verdict


def lineup_for(requested: Engine | None, note: Note | None = None, *, again: bool = False) -> Lineup:
    """The engines of `auto` (None), or those that run when an engine is requested by name.

    An engine that is requested has its parts next to it, and engines that have a turn in every search, unless
    the instance is searched `again`. `note` hears of engines that another package adds and that cannot be
    loaded.

    Raises
    ------
    TacclError : there is one of those, and no `note`.
    """
    if requested is None:
        return Lineup(all_engines(note))
    others = [each for each in ENGINES if each.part_of == requested.name or (each.runs_always and not again)]
    return Lineup((requested, *(other for other in others if other is not requested)), checks_needs=False)


def has_two_levels(instance: Instance) -> bool:
    """Whether there are two phases, on each of which the engines that do not take sums have rounds."""
    return knows_phases(instance) and None not in (
        instance.phases.reduce_phase,
        instance.phases.broadcast_phase,
    )


@dataclass(frozen=True)
class Explained:
    """What becomes of an engine in a search of one problem.

    Parameters
    ----------
    part : what it works on.
    engine, role, condition : of its row.
    reason : why it does not run; empty: it runs.
    """

    part: Part
    engine: str
    role: Role
    condition: str
    reason: str


def explained(instance: Instance, lineup: Lineup) -> Iterator[Explained]:
    """The engines of a lineup, with what becomes of each for this problem."""
    if instance.members_instance is not None:
        yield from explained(instance.members_instance, lineup)
        for engine in lineup.in_turn(instance):
            yield _explained(engine, instance, lineup)
        return
    if not has_two_levels(instance):
        for engine in lineup.in_turn(instance):
            yield _explained(engine, instance, lineup)
        return
    for engine in lineup.in_turn(instance):
        if engine.takes_sums:
            yield _explained(engine, instance, lineup)
    parts = instance.phases
    for part in (parts.reduce_phase, parts.broadcast_phase):
        assert part is not None
        for engine in lineup.in_turn(part):
            if not engine.takes_sums:
                yield _explained(engine, part, lineup)


def _explained(engine: Engine, instance: Instance, lineup: Lineup) -> Explained:
    condition = "; ".join(need.words for need in engine.needs)
    return Explained(
        instance.part, engine.name, engine.role, condition, lineup.verdict(engine, instance).reason
    )
