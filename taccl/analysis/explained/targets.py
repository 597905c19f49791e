"""Which lines of a request keep a target time out of reach, by deletion on the lower bound.

The bound is computed with fewer and fewer of the sketch's lines. Lines without which it still excludes the
target are not to blame; a set of which every line is needed is. The number of chunks is such a line too:
without it, the bound is one that holds for any number of equal chunks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from taccl.analysis.explained.conflict import Conflict, Line
from taccl.analysis.explained.symmetry import broken_without
from taccl.encoding.bounds import Proof, proofs
from taccl.encoding.bounds.stream import NOTHING
from taccl.encoding.instance import Instance
from taccl.model import tolerance
from taccl.model.problem import Problem, Statement
from taccl.sketch.rules import TakenApart
from taccl.support.budget import Budget
from taccl.synthesis.inputs import Inputs

#: Seconds for each linear program of a bound.
_PROGRAM_S = 10.0


@dataclass(frozen=True)
class TargetMissed:
    """Why no schedule ends by a target time.

    Parameters
    ----------
    conflict : the lines to blame; none if the machine alone makes it so, or if the time was too short.
    helps : the lines of which one is enough to leave out, each with the symmetries that need it.
    machine : the bound without any line of the sketch, for any number of chunks.
    """

    conflict: Conflict
    helps: tuple[tuple[Statement, ...], ...]
    machine: Proof


def is_above(bound: Proof, target_us: float) -> bool:
    """Whether a bound proves that no schedule ends by the target."""
    return tolerance.is_above(bound.value_us, target_us)


def not_by_any_schedule(bound: Proof, target_us: float) -> Conflict:
    """The conflict of a bound above the target, without lines to blame."""
    return Conflict(f"no schedule ends within {target_us:g} us: the bound is {_said(bound)}")


def target_missed(
    requested: Inputs,
    apart: TakenApart,
    chunks_said: Statement,
    bound: Proof,
    target_us: float,
    budget: Budget,
) -> TargetMissed:
    """The lines without which no bound would exclude the target, for a request whose `bound` excludes it.

    `chunks_said` is what asks for this many chunks per rank.
    """
    bounds = _Bounds(requested, apart, chunks_said, bound, budget)
    missed = not_by_any_schedule(bound, target_us)
    machine = bounds.of(frozenset())
    if is_above(machine, target_us):
        reason = (
            f"the machine itself, with every link allowed and however finely the size is cut, takes at least "
            f"{_said(machine)}; what moves it: {machine.remedy}"
        )
        return TargetMissed(replace(missed, machine=reason), (), machine)
    if not bounds.all_in_time:  # nothing was left out on trial, so no line can be blamed
        return TargetMissed(missed, (), machine)
    everything = bounds.everything
    kept = _needed(bounds, everything, target_us)
    without = {line: bounds.of(everything - {line}) for line in sorted(kept)}
    conflict = replace(
        missed,
        lines=tuple(
            Line(bounds.said[line], f"-> {_said(left)} without this alone" if left.value_us else "")
            for line, left in without.items()
        ),
        is_minimal=bounds.all_in_time,
        minimal_means=f"no bound excludes {target_us:g} us",
    )
    in_time = bounds.all_in_time
    helps = [line for line, left in without.items() if in_time and not is_above(left, target_us)]
    rules = len(apart.rules)
    said = ((bounds.said[line], *broken_without(apart, {line} - {rules, rules + 1})) for line in helps)
    return TargetMissed(conflict, tuple(said), machine)


def _needed(bounds: _Bounds, lines: frozenset[int], target_us: float) -> frozenset[int]:
    """A set of lines that excludes the target, and does not without any one of them."""
    kept = lines
    for family in bounds.families:
        if len(family) > 1 and bounds.exclude(target_us, kept - family):
            kept -= family
    checked: frozenset[int] | None = None
    while checked != kept:  # a bound is not always larger with more lines, so what is left is queried again
        checked = kept
        for line in sorted(kept):
            if bounds.exclude(target_us, kept - {line}):
                kept -= {line}
    return kept


def _said(bound: Proof) -> str:
    return f"{bound.value_us:.2f} us ({bound.witness})"


class _Bounds:
    """The largest bound with some of the lines, or whether any excludes a target; each answer is kept.

    With all lines it is `asked_bound`. When the time is up, a bound counts as one that excludes nothing, and
    `all_in_time` is false.
    """

    def __init__(
        self,
        requested: Inputs,
        apart: TakenApart,
        chunks_said: Statement,
        requested_bound: Proof,
        budget: Budget,
    ) -> None:
        self._requested, self._apart, self._budget = requested, apart, budget
        self._rules = len(apart.rules)
        nics = [] if apart.nics is None else [apart.nics]
        self.said = [*(rule.said for rule in apart.rules), *nics, chunks_said]
        self.families = apart.families
        self.all_in_time = True
        self.everything = frozenset(range(len(self.said)))
        self._found: dict[frozenset[int], Proof] = {self.everything: requested_bound}
        self._above: set[frozenset[int]] = set()

    def of(self, kept: frozenset[int]) -> Proof:
        """The bound with the lines `kept`, by their positions in `said`."""
        if kept not in self._found:
            self._found[kept] = self._compute(kept, math.inf)
        return self._found[kept]

    def exclude(self, target_us: float, kept: frozenset[int]) -> bool:
        """Whether the bound with the lines `kept` is above the target; no more is proved than that."""
        if kept in self._found:
            return is_above(self._found[kept], target_us)
        if kept in self._above:
            return True
        best = self._compute(kept, target_us)
        if is_above(best, target_us):
            self._above.add(kept)
            return True
        self._found[kept] = best
        return False

    def _compute(self, kept: Collection[int], enough_us: float) -> Proof:
        """The largest bound, or the first that is above `enough_us`."""
        if not self._budget.remaining_s():
            self.all_in_time = False
            return Proof(0.0, "not computed in time", "none")
        with_nics = self._apart.nics is not None and self._rules in kept
        logical, limits = self._apart.network(kept, with_nics=with_nics)
        requested = self._requested
        problem = Problem(
            logical, requested.collective, requested.chunk_mb, limits=limits, max_group=requested.max_group
        )
        clock = Budget(min(_PROGRAM_S, self._budget.remaining_s()))
        best = NOTHING
        for proof in self._proved(problem, len(self.said) - 1 in kept, clock):
            best = max(best, proof, key=lambda each: each.value_us)
            if is_above(best, enough_us):
                return best
        if not clock.remaining_s():  # a linear program may have been given up
            self.all_in_time = False
        return best

    def _proved(self, problem: Problem, is_so_cut: bool, clock: Budget) -> Iterator[Proof]:
        """What is proved of a problem, the cheapest first; if not `is_so_cut`, of any number of chunks."""
        if is_so_cut:
            yield from proofs(Instance(problem), clock)
            return
        every = proofs(Instance(problem), clock, any_chunks=True)
        yield from (proof for proof in every if proof.holds_for_any_chunks)
