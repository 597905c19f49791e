"""Which part of the time a row of the plan has: as a number for the search, and in words for people.

The words are made of the numbers. It knows parts and cases; which engine has which part, and why, it must not
know (`stages`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taccl.encoding.instance import Instance


@dataclass(frozen=True)
class Share:
    """A part of the time that is left.

    Parameters
    ----------
    part : for an instance, from 0 to 1.
    in_words : the same for all instances at once.
    """

    part: Callable[[Instance], float]
    in_words: str

    def __call__(self, instance: Instance) -> float:
        return self.part(instance)


@dataclass(frozen=True)
class Case:
    """Where another part counts than the usual one: `when` says it in words, after the part."""

    part: float
    when: str
    holds: Callable[[Instance], bool]


def fixed(part: float) -> Share:
    """The same part for every problem; of 1, what all rows before leave."""
    return Share(lambda _: part, "the rest" if part == 1 else percent(part))


def usually(part: float, *cases: Case) -> Share:
    """That part, but in some cases: the last of them that holds counts."""

    def of(instance: Instance) -> float:
        return next((case.part for case in reversed(cases) if case.holds(instance)), part)

    return Share(of, "; ".join([percent(part), *(f"{percent(case.part)} {case.when}" for case in cases)]))


def percent(part: float) -> str:
    """A part as people read it."""
    return "all of it" if part == 1 else f"{100 * part:g}%"
