"""Symmetries that the network does not have: which lines of the sketch contradict them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from taccl.analysis.explained.conflict import Conflict, Line
from taccl.encoding.conflicts.broken_symmetry import rules_breaking
from taccl.errors import SketchError
from taccl.model.automorphism import broken_by
from taccl.model.problem import Statement
from taccl.sketch.rules import TakenApart
from taccl.support.budget import Budget


def broken_without(apart: TakenApart, left_out: Collection[int]) -> tuple[Statement, ...]:
    """The symmetries that the network has, and would not have without some of the rules."""
    whole = apart.network(range(len(apart.rules)))
    rest = apart.network([number for number in range(len(apart.rules)) if number not in left_out])
    return tuple(
        said
        for said, ranks in apart.symmetries
        if broken_by(ranks, *whole) is None and broken_by(ranks, *rest) is not None
    )


def broken_symmetries(apart: TakenApart, budget: Budget) -> Iterator[Conflict]:
    """A conflict for each symmetry of the sketch that its network does not have.

    Raises
    ------
    SketchError : one that is no permutation of these ranks.
    """
    logical, limits = apart.network(range(len(apart.rules)))
    for said, ranks in apart.symmetries:
        reason = broken_by(ranks, logical, limits)
        if reason is None:
            continue
        others: tuple[Statement, ...] = ()
        core = rules_breaking(apart.everything, apart.rules, ranks, budget)
        if core is not None:
            others = tuple(apart.rules[number].said for number in core.members)
        elif broken_by(ranks, logical, replace(limits, link_preference=None)) is None:
            others = apart.policies
        yield Conflict(
            what=f"{said.text} is none of this network: {reason}",
            lines=tuple(map(Line, (said, *others))),
            is_minimal=len(others) < 2 if core is None else core.is_minimal,
            minimal_means="they do not contradict each other"
            if others
            else "there is nothing to break: the machine breaks it, and no other line",
            exit_code=SketchError.exit_code,
        )
