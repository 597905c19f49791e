"""One call of a file that passed verification: what its blocks do, in one order, and what it computes.

No accesses race in such a file, so every order of its acts leaves the same, and one tells all.
"""

from __future__ import annotations

from dataclasses import dataclass

from taccl.backend.machine.acts import Machine
from taccl.backend.machine.expected import Expectation
from taccl.model.collective import IntArray


@dataclass(frozen=True, eq=False)
class OneCall:
    """What happens in a call.

    Parameters
    ----------
    machine : its acts and what they move. sequence : the acts in an order in which they may happen.
    expectation : the collective.
    """

    machine: Machine
    sequence: IntArray
    expectation: Expectation
