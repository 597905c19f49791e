"""Which numbers of chunks are tried: candidates, the engine for a first look, and pruning by bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from taccl.encoding.bounds import Proof, known_bounds, proofs, quick_bound
from taccl.encoding.bounds.stream import NOTHING
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import ENGINES
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.journal import reported
from taccl.model import units
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.tolerance import EQUAL, contradicts
from taccl.support.budget import Budget
from taccl.synthesis.autotune.trials import Trial
from taccl.synthesis.autotune.tuning import CHUNK_COUNTS_MOST_CHUNKS

#: Finer than this, alpha is nearly all that a chunk costs on any link between GPUs. Where ports are not
#: busy for alpha, it costs latency alone, and what a GPU loads at once is the least.
_LEAST_CHUNK_BYTES = {"serial": 1024, "pipelined": 16}


def candidates(coarsest: Problem, chunk_bytes: int = 1) -> list[int]:
    """1, 2, 3, 4, 5, 6, 8, 10, 12, 16, ... : numbers of chunks into which the size can be cut evenly.

    `coarsest` has one chunk where the others have that many; chunks of the others are multiples of this many
    bytes. Of unequal chunks each is cut so, and the largest counts.
    """
    least = _LEAST_CHUNK_BYTES[coarsest.topology.occupancy]
    sizes = _chunk_bytes(coarsest)
    numbers = sorted({1} | {k << n for n in range(10) for k in (2, 3, 5)})

    def cuts_evenly(number: int) -> bool:
        chunk, rest = divmod(sizes, number * chunk_bytes)
        is_large = chunk.max() * chunk_bytes >= least
        return number <= CHUNK_COUNTS_MOST_CHUNKS and bool(is_large) and not rest.any()

    return [number for number in numbers if number == 1 or cuts_evenly(number)]


def _chunk_bytes(coarsest: Problem) -> FloatArray:
    """The size of each chunk; of all, where they are equal."""
    if coarsest.sizes is None:
        return np.array([coarsest.size_bytes / coarsest.collective.chunks_per_size])
    exact = coarsest.size_mb * units.MB
    whole = np.round(exact)
    return np.where(np.isclose(exact, whole, rtol=EQUAL, atol=0.0), whole, exact)


def worth_trying(numbers: Sequence[int], whole_us: float, most_us: float) -> list[int]:
    """Without those of which a chunk alone travels for longer than that; 1 stays, and all if none is left.

    Parameters
    ----------
    numbers : ascending.
    whole_us : how long a part takes in one chunk over its shortest way; a chunk of n takes an n-th at least.
    """
    worth = [number for number in numbers if whole_us <= number * most_us or number == 1]
    return worth if set(worth) - {1} else list(numbers)


def quick_engine(instance: Instance, options: SearchOptions) -> str:
    """The engine for trials, by name: the first whose first answers tell which number is best; empty: none.

    Where seconds count, and not work, its loops have to be machine code already.
    """
    ready = (each for each in ENGINES if options.effort or each.is_compiled is None or each.is_compiled())
    telling = (each for each in ready if each.tells_chunks is not None and each.tells_chunks(instance))
    return next((engine.name for engine in telling if engine.can(instance)), "")


class Proved:
    """The best bounds that still stand.

    Parameters
    ----------
    coarsest : the problem with one chunk in each part.
    note : is reported the name of a bound that breaks down, or is refuted, and why.

    Attributes
    ----------
    any_chunks : holds whatever the number of chunks is.
    counts_bytes : whether a bound for any number counted bytes, and not alphas alone.
    """

    def __init__(self, coarsest: Instance, budget: Budget, note: Callable[[str, str], None]) -> None:
        self._coarsest, self._note = coarsest, note
        proved = self._proofs(budget)
        of_any = [each for each in proved if each.holds_for_any_chunks]
        self.any_chunks = next(iter(of_any), NOTHING)
        of_alphas = {bound.name for bound in known_bounds() if bound.is_of_alphas}
        self.counts_bytes = any(each.kind not in of_alphas for each in of_any)
        self._of_coarsest = proved[0]

    def of(self, instance: Instance) -> Proof:
        """What is proved of one number; the coarsest instance knows its own, so no search tells it again."""
        return self._of_coarsest if instance is self._coarsest else self.any_chunks

    def with_those_of(self, trials: Iterable[Trial], time_us: float) -> Proof:
        """The largest for any number of chunks, whichever number it was proved next to.

        None stands above the `time_us` that was found.
        """
        proved = (self.any_chunks, *(trial.found.any_chunks for trial in trials))
        true = (proof for proof in proved if not contradicts(proof.value_us, time_us))
        return max(true, key=lambda proof: proof.value_us, default=NOTHING)

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
        known = known_bounds(lambda name, fault: self._note(f"bound {name}", reported(fault)))
        for bound in sorted(known, key=lambda bound: bound.is_late(self._coarsest.problem)):
            try:
                proved += proofs(self._coarsest, budget, (bound,))
            except Exception as fault:
                self._note(f"bound {bound.name}", reported(fault))
        return sorted(proved, key=lambda proof: -proof.value_us)
