"""Proofs as a stream, the cheapest first, each within the budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from taccl.encoding.bounds.bound import Bound, Proof
from taccl.encoding.bounds.latency import LATENCY, arrival_bound, latency_bound
from taccl.encoding.bounds.registry import known_bounds
from taccl.encoding.bounds.tuning import STREAM_AGAIN, STREAM_CUT, STREAM_EARLY, STREAM_LITTLE
from taccl.encoding.bounds.turned import turned
from taccl.encoding.bounds.views import views
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.model.tolerance import is_above
from taccl.support.budget import Budget

#: What is proved where nothing is.
NOTHING = Proof(0.0, "no bound is known", "none", "more time")


def proofs(
    instance: Instance, budget: Budget, bounds: Sequence[Bound] | None = None, *, any_chunks: bool = False
) -> Iterator[Proof]:
    """What bounds prove of every schedule of an instance, the cheapest first.

    Whoever listens may stop at any moment, and go on with other bounds later: what is proved is kept in
    `Instance.bound_us`, and what was derived for it in the instance. Bounds that do not know the problem's
    features are left out (`declined`). Where there is no schedule, the proof of that is the last: bounds are
    about schedules.

    Parameters
    ----------
    budget : when it is over no more bounds are begun, and the one at work yields what it has.
    bounds : which, in this order; by default all that come with taccl and with installed packages.
    any_chunks : only what holds for any number of equal chunks.
    """
    first = quick_bound(instance)
    if math.isinf(first.value_us):
        instance.proves(first.value_us)
        yield first
        return
    asked = instance.once(_asked)
    for bound in known_bounds() if bounds is None else bounds:
        if bound.reason_against(instance) or (any_chunks and not bound.has_any_chunks):
            continue
        left_s, before = budget.remaining_s(), asked.get(bound.name, _NEVER)
        is_done = left_s < before.again_s
        if is_done or bound.goes_on:  # what goes on does not prove again what it proved before
            yield from (proof for proof in before.said if proof.holds_for_any_chunks or not any_chunks)
        if is_done:
            continue
        if not left_s:
            return
        said = list(before.said) if bound.goes_on else []
        for proof in _asking(instance, bound, budget, any_chunks):
            said.append(proof)
            yield proof
            if math.isinf(proof.value_us):
                return
        if not any_chunks:
            ended_s = budget.remaining_s()
            asked[bound.name] = _Asked.of(before.times + 1, left_s, ended_s, said, bound.goes_on)


def _asking(instance: Instance, bound: Bound, budget: Budget, any_chunks: bool) -> Iterator[Proof]:
    """What one bound proves of each view, as long as there is time."""
    for view in views(instance):
        if not budget.remaining_s():
            return
        known_us = instance.any_chunks_us if bound.is_of_any_chunks else instance.bound_us
        for proof in bound.prove(view, known_us, budget):
            if any_chunks and not proof.holds_for_any_chunks:
                break  # what follows holds for this number only
            instance.proves(proof.value_us, proof.holds_for_any_chunks)
            yield _turned(proof) if view.is_turned else proof


def _turned(proof: Proof) -> Proof:
    return replace(proof, witness=turned(proof.witness), remedy=turned(proof.remedy))


@dataclass(frozen=True)
class _Asked:
    """What a bound said of an instance, how often it was asked, and from how many seconds on it is again.

    `cut_after_s` : the seconds that it had the last time, if it was cut short; else infinite.
    """

    times: int
    again_s: float
    cut_after_s: float
    said: list[Proof]

    @staticmethod
    def of(times: int, had_s: float, left_s: float, said: list[Proof], goes_on: bool) -> _Asked:
        """After it had so much, of which so much is left: what ends early may have said all."""
        if goes_on and left_s <= STREAM_CUT * had_s:
            return _Asked(times, 0.0, had_s, said)
        ended_early = had_s - left_s <= had_s / STREAM_EARLY
        again_s = had_s * (STREAM_EARLY if ended_early else STREAM_AGAIN)
        return _Asked(times, again_s, math.inf if left_s else had_s, said)


#: Of a bound that was not asked yet.
_NEVER = _Asked(0, 0.0, math.inf, [])


def times_asked(instance: Instance, bound: Bound, left_s: float) -> int:
    """How often a bound had time for an instance so far: not if it was cut after a small part of `left_s`."""
    asked = instance.once(_asked).get(bound.name)
    return 0 if asked is None or asked.cut_after_s < STREAM_LITTLE * left_s else asked.times


def _asked(instance: Instance) -> dict[str, _Asked]:
    """By the names of bounds; `instance.once(_asked)`."""
    return {}


def declined(instance: Instance, bounds: Sequence[Bound] | None = None) -> tuple[tuple[str, str], ...]:
    """The bounds that say nothing of a problem because of what it uses: the name of each, and why."""
    all_of_them = known_bounds() if bounds is None else bounds
    reasons = ((bound.name, bound.reason_against(instance)) for bound in all_of_them)
    return tuple((name, reason) for name, reason in reasons if reason)


def quick_bound(problem: Problem | Instance) -> Proof:
    """The latency bound alone, which is there at once; with ready times and tails where there are any."""
    instance = _instance(problem)
    if LATENCY.reason_against(instance):
        return NOTHING
    return arrival_bound(instance) if instance.features - {"reductions"} else latency_bound(instance)


def lower_bound(
    problem: Problem | Instance, limit: float | Budget = 10.0, bounds: Sequence[Bound] | None = None
) -> Proof:
    """The largest of `all_bounds`."""
    return all_bounds(problem, limit, bounds)[0]


def all_bounds(
    problem: Problem | Instance,
    limit: float | Budget = 10.0,
    bounds: Sequence[Bound] | None = None,
    *,
    any_chunks: bool = False,
) -> tuple[Proof, ...]:
    """The best proof of each kind, largest first (COST_MODEL, lower bounds a to c, and by decomposition).

    Of a kind that proves something for any number of chunks, too, the best of that is another one, and the
    only one where no more is proved for this number: that holds for it as well.
    There is always one, if only that nothing is known. After `limit`, seconds or a budget, no more are begun.
    """
    instance = _instance(problem)
    budget = limit if isinstance(limit, Budget) else Budget(limit)
    best: dict[tuple[str, bool], Proof] = {}
    for proof in proofs(instance, budget, bounds, any_chunks=any_chunks):
        key = proof.kind, proof.holds_for_any_chunks
        if key not in best or proof.value_us > best[key].value_us:
            best[key] = proof
    if not best:
        return (quick_bound(instance),)
    for (kind, of_any), proof in list(best.items()):
        if of_any and (own := best.get((kind, False))) is not None and is_above(proof.value_us, own.value_us):
            del best[kind, False]
    return tuple(sorted(best.values(), key=lambda proof: -proof.value_us))


def any_chunks_bound(problem: Problem | Instance, limit: float | Budget = 10.0) -> Proof:
    """The largest that holds for any number of equal chunks; `NOTHING` where none does."""
    proved = all_bounds(problem, limit, any_chunks=True)
    return next((each for each in proved if each.holds_for_any_chunks), NOTHING)


def _instance(problem: Problem | Instance) -> Instance:
    return problem if isinstance(problem, Instance) else Instance(problem)
