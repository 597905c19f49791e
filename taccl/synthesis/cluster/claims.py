"""What workers claim to have proved, until it is proved here.

A bound comes as a number and a sentence, without its proof. So it never becomes the bound of a result: it
says when to stop and what to prove here, and what is not proved then is reported to the user as a claim.
"""

from __future__ import annotations

from dataclasses import dataclass

from taccl.model.problem import Problem
from taccl.model.tolerance import is_above
from taccl.synthesis.search import Found


@dataclass(frozen=True)
class Claim:
    """That no schedule is faster, by whom and why."""

    bound_us: float
    source: str
    worker: str


class Claims:
    """The largest claim about each problem."""

    def __init__(self) -> None:
        self._of: dict[Problem, Claim] = {}

    def hear(self, problem: Problem, claim: Claim) -> None:
        """Keep a claim that is larger than those before."""
        if claim.bound_us > self.of(problem):
            self._of[problem] = claim

    def of(self, problem: Problem) -> float:
        """The largest bound that a worker claims for a problem, microseconds; 0: none."""
        return self._of[problem].bound_us if problem in self._of else 0.0

    def notes_on(self, found: Found) -> list[str]:
        """What the user should know of a claim above what is proved here."""
        claim = self._of.get(found.schedule.problem)
        if claim is None or not is_above(claim.bound_us, found.lower_bound_us):
            return []
        return [
            f"the worker {claim.worker} claims a bound of {claim.bound_us:.2f} us ({claim.source}), "
            "which is not proved here"
        ]
