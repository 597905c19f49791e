"""What a bound is, and what it proves of one problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taccl.encoding.bounds.views import View
from taccl.encoding.instance import Instance
from taccl.model.problem import Problem
from taccl.support.budget import Budget


@dataclass(frozen=True)
class Proof:
    """No schedule of the problem ends before `value_us`.

    Parameters
    ----------
    value_us : microseconds; 0 where the argument says nothing.
    witness : why, in a few words: the chunk, the ranks, the ports.
    kind : the argument, by the name of its `Bound`.
    remedy : what would move it: a change of the machine, the sketch or the request.
    holds_for_any_chunks : whether it stays true when the same size is cut into other equal chunks.
    """

    value_us: float
    witness: str
    kind: str
    remedy: str = ""
    holds_for_any_chunks: bool = False


#: What the bounds of this room allow for: sums by `views`, and the rest by being relaxed there.
RELAXED = frozenset({"reductions", "helpers", "sizes", "ready_times", "tails", "sum_work"})

#: From a view, a bound that is known already (microseconds, a yardstick) and a budget: what is proved of the
#: view, better and better. It looks at the budget inside and stops when that is over.
Prove = Callable[[View, float, Budget], Iterator[Proof]]


def _never(problem: Problem) -> bool:
    return False


@dataclass(frozen=True)
class Bound:
    """An argument why no schedule is faster.

    Parameters
    ----------
    name : what users see as the `kind` of its proofs.
    about : the argument in a sentence.
    remedy : what would move it.
    prove : see `Prove`. What it yields is true whenever it stops.
    features : the features of problems that the argument allows for. A problem with another one is skipped,
        so a new feature makes a bound absent and never wrong.
    is_quick : whether it is there at once, on any machine.
    has_any_chunks : whether it begins with proofs that hold for any number of equal chunks.
    is_of_any_chunks : whether all of them do, so that the yardstick is what is known of that.
    is_of_alphas : whether those proofs count alphas, alone or next to bytes; others count bytes over
        bandwidth.
    goes_on : it goes on where it was cut short, so it is asked again with any time.
    is_late : problems of which others say more with the same work: there it comes behind them.
    """

    name: str
    about: str
    remedy: str
    prove: Prove
    features: frozenset[str] = frozenset()
    is_quick: bool = False
    has_any_chunks: bool = False
    is_of_any_chunks: bool = False
    is_of_alphas: bool = False
    is_late: Callable[[Problem], bool] = _never
    goes_on: bool = False

    def proof(self, value_us: float, witness: str, *, any_chunks: bool = False) -> Proof:
        """What this argument proves; `any_chunks` says that it holds for any number of equal chunks."""
        return Proof(float(value_us), witness, self.name, self.remedy, any_chunks)

    def reason_against(self, instance: Instance) -> str:
        """Why it says nothing of a problem, in a sentence; empty if it may say something."""
        lacking = sorted(instance.features - self.features)
        return f"it knows no {lacking[0].replace('_', ' ')}" if lacking else ""


#: What an engine proved by looking at every schedule. It is no argument of this room and stands in no list.
BY_SEARCH = Bound(
    name="search",
    about="an engine has looked at every schedule, in a model that leaves nothing out: none is that fast",
    remedy="another machine, sketch, size or number of chunks; a search names no single link to blame",
    prove=lambda view, known_us, budget: iter(()),
)
