"""What is proved before any number of chunks is tried: of one chunk in each part, and of any number.

It knows bounds, and that a schedule can refute them; which numbers are tried it must not know.
"""

from __future__ import annotations

from collections.abc import Callable

from taccl.encoding.bounds import Proof, known_bounds, proofs, quick_bound
from taccl.encoding.bounds.stream import NOTHING
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import told
from taccl.model.tolerance import contradicts
from taccl.support.budget import Budget


class Proved:
    """The best bounds that still stand.

    Parameters
    ----------
    coarsest : the problem with one chunk in each part.
    note : is told the name of a bound that breaks down, or is refuted, and why.

    Attributes
    ----------
    any_chunks : holds whatever the number of chunks is.
    """

    def __init__(self, coarsest: Instance, budget: Budget, note: Callable[[str, str], None]) -> None:
        self._coarsest, self._note = coarsest, note
        proved = self._proofs(budget)
        self.any_chunks = next((each for each in proved if each.holds_for_any_chunks), NOTHING)
        self._of_coarsest = proved[0]

    def of(self, instance: Instance) -> Proof:
        """What is proved of one number; the coarsest instance knows its own, so no search tells it again."""
        return self._of_coarsest if instance is self._coarsest else self.any_chunks

    def forget_wrong(self, instance: Instance, time_us: float) -> None:
        """A bound above a valid schedule is a mistake of whoever proved it, and must not pass for a proof."""
        wrong = [self.any_chunks] if contradicts(self.any_chunks.value_us, time_us) else []
        if instance is self._coarsest and contradicts(self._of_coarsest.value_us, time_us):
            wrong.append(self._of_coarsest)
        for proof in wrong:
            value = f"{proof.value_us:.6f} us ({proof.witness})"
            self._note(f"bound {proof.kind}", f"{value} stands above a valid schedule of {time_us:.6f} us")
        self.any_chunks = NOTHING if self.any_chunks in wrong else self.any_chunks
        self._of_coarsest = NOTHING if self._of_coarsest in wrong else self._of_coarsest

    def _proofs(self, budget: Budget) -> list[Proof]:
        """What is proved of the coarsest, largest first."""
        proved = [quick_bound(self._coarsest)]
        for bound in known_bounds(lambda name, fault: self._note(f"bound {name}", told(fault))):
            try:
                proved += proofs(self._coarsest, budget, (bound,))
            except Exception as fault:
                self._note(f"bound {bound.name}", told(fault))
        return sorted(proved, key=lambda proof: -proof.value_us)
