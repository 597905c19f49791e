"""Symmetries that the network does not have: which lines of the sketch contradict them."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.encoding.engine import Budget
from taccl.encoding.smt.alike import unlike
from taccl.errors import SketchError
from taccl.explained.conflict import Conflict, Line
from taccl.sketch.rules import TakenApart
from taccl.sketch.symmetry import broken_by


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
        core = unlike(apart.everything, apart.rules, ranks, budget)
        members = () if core is None else core.members
        lines = (Line(said), *(Line(apart.rules[number].said) for number in members))
        yield Conflict(
            what=f"{said.text} is none of this network: {reason}",
            lines=lines,
            is_minimal=not members or (core is not None and core.is_minimal),
            minimal_means="they do not contradict each other (proved by z3)"
            if members
            else "there is nothing to break: the machine, and no other line, breaks it",
            exit_code=SketchError.exit_code,
        )
