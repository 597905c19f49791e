"""Running the plan in a file, for the target whose files are plans."""

from __future__ import annotations

from collections.abc import Iterator

from taccl.backend.execute.asked import RunAsked
from taccl.backend.execute.outcome import Execution
from taccl.backend.execute_plan.run import RanksAs, execute_plan
from taccl.backend.mscclpp.reader import parse_plan
from taccl.errors import TacclError

#: Enough for double scratch and for counters that do not return.
CALLS = 3
_RANKS_AS: dict[str, RanksAs] = {"threads": "threads", "processes": "processes", "turns": "turns"}


def run_plan_file(content: bytes, path: str | None, asked: RunAsked) -> Iterator[Execution]:
    """The outcome of calling the plan in a file, in the way that is asked for or that it says.

    Raises
    ------
    PlanError : it cannot be understood.
    TacclError : as `execute_plan`; or slots or pieces are asked for, which plans do not have.
    """
    if asked.slots is not None or asked.piece_bytes is not None:
        raise TacclError("a plan has no connections, and so no slots and pieces", hint="leave them out")
    yield execute_plan(
        parse_plan(content, path),
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
