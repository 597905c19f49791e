"""One call of a plan that passed verification, for who makes something else of it."""

from __future__ import annotations

import numpy as np

from taccl.backend.machine.contents import carry_out
from taccl.backend.machine.layout import Layout
from taccl.backend.machine.meaning import closest
from taccl.backend.machine.one_call import OneCall
from taccl.backend.machine.report import Collector
from taccl.backend.machine.run import run_calls
from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.mscclpp.layout import chunk_sizes, layout_of
from taccl.backend.verify.mscclpp.unfold import unfold
from taccl.backend.verify.mscclpp.verifier import verify_plan
from taccl.backend.verify.mscclpp.wanted import what_is_wanted
from taccl.errors import VerificationError
from taccl.model.collective import Collective


def call_of_plan(plan: ExecutionPlan, collective: Collective | None, root: int | None) -> OneCall:
    """What a plan does in a call, of a size at which its blocks cut chunks evenly, if there is one.

    Raises
    ------
    VerificationError : it is not right, or nobody knows what it should compute.
    """
    verify_plan(plan, collective=collective, root=root).raise_for_findings()
    silent = Collector()
    wanted = what_is_wanted(plan, collective, root, silent)
    shift = wanted.shift if plan.in_place else None
    layouts = [layout_of(plan, chunk_bytes, shift) for chunk_bytes in chunk_sizes(plan)]
    machine = unfold(plan, min(layouts, key=_unevenness), silent)
    run = run_calls(machine, 1)
    expectation = closest(machine, carry_out(machine, run), wanted.alternatives)
    if expectation is None:
        raise VerificationError(
            f"the collective is {plan.collective!r}, which does not say what the outputs must hold",
            hint="give the collective (--collective FILE)",
        )
    return OneCall(machine, run.sequence[0], expectation)


def _unevenness(layout: Layout) -> int:
    """How many lengths the pieces of a chunk have."""
    return len(np.unique(np.diff(np.append(layout.cuts, layout.chunk_bytes))))
