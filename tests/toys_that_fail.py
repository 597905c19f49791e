"""Engines and bounds of other packages that break what they promise, each in its own way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from taccl.encoding.bounds import Bound, Proof, View
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.update import Update
from taccl.encoding.engines.engine import Engine, Verdict, everything
from taccl.encoding.engines.registry import COPIES_AND_SUMS, engine_named
from taccl.encoding.instance import Instance
from taccl.model.problem import FEATURES
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def in_half_the_time(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield a schedule that no link could carry out."""
    update = next(engine_named("greedy").run(instance, options, budget, None))
    assert update.schedule is not None
    start_us, end_us = update.schedule.start_us / 2, update.schedule.end_us / 2
    yield Update("liar", replace(update.schedule, start_us=start_us, end_us=end_us))


def cannot_say(instance: Instance) -> Verdict:
    """Break down where it is asked whether it serves."""
    raise ZeroDivisionError("requested")


def says_nothing(instance: Instance) -> Verdict:
    """Give no answer where it is asked whether it serves."""
    return None


def at_once(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Break down before there is anything to iterate over."""
    raise ZeroDivisionError("called")


def leaves(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """End the whole process, or try to."""
    raise SystemExit("leaving")
    yield


def no_update(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """Yield what is no update."""
    yield "fast"


def breaks_down(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    """Prove nothing, noisily."""
    raise ZeroDivisionError("proving")
    yield


def far_too_high(view: View, known_us: float, budget: Budget) -> Iterator[Proof]:
    """Prove what is wrong."""
    yield HIGH.proof(1e9, "lies")


LIAR = Engine("liar", "an engine that lies", COPIES_AND_SUMS, everything, in_half_the_time)
UNSURE = Engine("unsure", "an engine that breaks down", COPIES_AND_SUMS, cannot_say, in_half_the_time)
MUTE = replace(UNSURE, name="mute", serves=says_nothing)
UNSURE_OF_ALL = replace(UNSURE, name="unsure-of-all", features=FEATURES, takes_sums=True)
EAGER = Engine(
    "eager", "an engine that fails when called", COPIES_AND_SUMS, everything, at_once, takes_sums=True
)
LEAVER = Engine("leaver", "an engine that ends the process", COPIES_AND_SUMS, everything, leaves)
WORDY = Engine("wordy", "an engine that yields words", COPIES_AND_SUMS, everything, no_update)
BROKEN = Bound("broken", "a bound that breaks down", "", breaks_down, COPIES_AND_SUMS)
HIGH = Bound("high", "a bound that is wrong", "", far_too_high, COPIES_AND_SUMS)
