"""Bounds next to the search: the cheap ones at once, the dearer ones between the turns of engines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from taccl.encoding.bounds import (
    Bound,
    Proof,
    declined,
    known_bounds,
    proofs,
    quick_bound,
    soonest,
    times_asked,
)
from taccl.encoding.core.update import Update
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import Journal
from taccl.support.budget import Budget

#: Part of a bound.
_ROUNDING = 1e-9


class BoundsAlongside:
    """The bounds of an instance that had no turn yet.

    What they prove is kept in the instance, so engines know it, too; only what is better than all before is
    reported. A bound that breaks down is noted, and the others go on.
    """

    def __init__(self, instance: Instance, journal: Journal) -> None:
        self._instance, self._journal = instance, journal
        known = known_bounds(lambda name, fault: journal.fails(f"bound {name}", fault))
        self._waiting = deque(sorted(known, key=lambda bound: bound.is_late(instance.problem)))
        for name, reason in declined(instance, known):
            journal.declines(f"bound {name}", reason)

    def at_once(self) -> Iterator[Update]:
        """What is proved in well under a second on any machine, whatever is left of the time.

        A rounding less than it is, so that a bound that says the same has its words heard: it says where.
        """
        yield from self._journal.guarded("bound", self._soonest())

    def quick(self, budget: Budget) -> Iterator[Update]:
        """What the quick bounds say."""
        quick = [bound for bound in self._waiting if bound.is_quick]
        for bound in quick:
            self._waiting.remove(bound)
            yield from self._guarded(bound, self._best(bound, budget))

    def within(self, budget: Budget) -> Iterator[Update]:
        """What the next bounds say, as many as there is time for: first those that had none to speak of.

        One that can go on where it stopped, and was at work when time was over, waits for another turn.
        """
        while self._waiting and (left_s := budget.remaining_s()):
            asked = [times_asked(self._instance, each, left_s) for each in self._waiting]
            bound = self._waiting[asked.index(min(asked))]
            self._waiting.remove(bound)
            yield from self._guarded(bound, self._proved(bound, budget))
            if bound.goes_on and not budget.remaining_s():
                self._waiting.append(bound)

    def _soonest(self) -> Iterator[Update]:
        yield self._heard(quick_bound(self._instance))
        for proof in soonest(self._instance):
            yield self._heard(replace(proof, value_us=proof.value_us * (1 - _ROUNDING)))

    def _guarded(self, bound: Bound, updates: Iterator[Update]) -> Iterator[Update]:
        return self._journal.guarded(f"bound {bound.name}", updates)

    def _best(self, bound: Bound, budget: Budget) -> Iterator[Update]:
        """The largest alone, so that no search ends at what is weaker and there as soon."""
        yield from deque(self._proved(bound, budget), maxlen=1)

    def _proved(self, bound: Bound, budget: Budget) -> Iterator[Update]:
        best_us = self._instance.bound_us
        for proof in proofs(self._instance, budget, (bound,)):
            update = self._heard(proof)
            if proof.value_us > best_us:
                best_us = proof.value_us
                yield update

    def _heard(self, proof: Proof) -> Update:
        self._instance.proves(proof.value_us, proof.holds_for_any_chunks)
        if self._instance.part == "whole" and not self._instance.is_quotient:
            self._journal.hears(proof)
        return Update("bound", None, proof.value_us, proof.witness)
