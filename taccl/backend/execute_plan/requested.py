"""Running a plan as a user asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.requested import RunRequested
from taccl.backend.execute_plan.run import RanksAs, execute_plan
from taccl.backend.plan import ExecutionPlan
from taccl.errors import TacclError

#: Enough for double scratch and for counters that do not return.
CALLS = 3
_RANKS_AS: dict[str, RanksAs] = {"threads": "threads", "processes": "processes", "turns": "turns"}


def run_plan(plan: ExecutionPlan, requested: RunRequested) -> Iterator[Execution]:
    """The outcome of calling a plan, in the way that is requested or that it says.

    Raises
    ------
    TacclError : as `execute_plan`; or slots or pieces are requested, which plans do not have.
    """
    if requested.slots is not None or requested.piece_bytes is not None:
        raise TacclError("a plan has no connections, and so no slots and pieces", hint="leave them out")
    yield execute_plan(
        plan,
        in_place=requested.in_place,
        size_bytes=requested.size_bytes,
        dtype=requested.dtype,
        op=requested.op,
        collective=requested.collective,
        root=requested.root,
        ranks_as=_RANKS_AS[requested.ranks_as],
        calls=CALLS if requested.calls is None else requested.calls,
        seed=requested.seed,
        check=requested.check,
        deadline=requested.deadline,
    )
