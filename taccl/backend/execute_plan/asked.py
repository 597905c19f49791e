"""Running a plan as a user asks for it; how a file spells it it must not know."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.backend.execute.asked import RunAsked
from taccl.backend.execute.outcome import Execution
from taccl.backend.execute_plan.run import RanksAs, execute_plan
from taccl.backend.plan import ExecutionPlan
from taccl.errors import TacclError

#: Enough for double scratch and for counters that do not return.
CALLS = 3
_RANKS_AS: dict[str, RanksAs] = {"threads": "threads", "processes": "processes", "turns": "turns"}


def run_plan(plan: ExecutionPlan, asked: RunAsked) -> Iterator[Execution]:
    """The outcome of calling a plan, in the way that is asked for or that it says.

    Raises
    ------
    TacclError : as `execute_plan`; or slots or pieces are asked for, which plans do not have.
    """
    if asked.slots is not None or asked.piece_bytes is not None:
        raise TacclError("a plan has no connections, and so no slots and pieces", hint="leave them out")
    yield execute_plan(
        plan,
        in_place=asked.in_place,
        size_bytes=asked.size_bytes,
        dtype=asked.dtype,
        op=asked.op,
        collective=asked.collective,
        root=asked.root,
        ranks_as=_RANKS_AS[asked.ranks_as],
        calls=CALLS if asked.calls is None else asked.calls,
        seed=asked.seed,
        check=asked.check,
        deadline=asked.deadline,
    )
