"""What a plan does when it is executed, meaning and concurrency, where every reference leads somewhere.

The rules of structure have passed before: ids are positions, every number names something, every range is
inside its buffer, and operations have the operands that `signatures` tells.
"""

from __future__ import annotations

from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.report import Collector, Facts
from taccl.collective import Collective


def behaviour(
    plan: ExecutionPlan,
    collector: Collector,
    facts: Facts,
    *,
    collective: Collective | None,
    root: int | None,
) -> Facts:
    """The facts with all that only an execution shows; findings go to the collector.

    Parameters
    ----------
    facts : what is known before.
    collective : what it has to compute, where the plan does not say so.
    root : of broadcast; None: any that fits.
    """
    return facts
