"""Run a plan for real: on NumPy arrays, several calls in a row, checked against NumPy.

Who gets the next turn is decided in `execute.turns`, or by threads and processes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from threading import Lock
from typing import Literal, get_args

import numpy as np

from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.outcome import Verdict as Word
from taccl.backend.execute.turns import take_turns
from taccl.backend.execute_plan.agents import Waiting
from taccl.backend.execute_plan.call import PlanCall, make_plan_call
from taccl.backend.execute_plan.host import Answers
from taccl.backend.execute_plan.memory import World, check_room
from taccl.backend.execute_plan.processes import run_processes
from taccl.backend.execute_plan.ranked import End, agents_of, leftovers, planned, stuck_of
from taccl.backend.execute_plan.threads import run_threads
from taccl.backend.machine.report import Collector
from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.mscclpp.verifier import check_structure
from taccl.errors import TacclError, VerificationError
from taccl.model.collective import Collective
from taccl.support.arguments import word

RanksAs = Literal["threads", "processes", "turns"]
_SHOWN = 10


def execute_plan(
    plan: ExecutionPlan,
    *,
    in_place: bool | None = None,
    size_bytes: int | None = None,
    dtype: str = "float32",
    op: str = "sum",
    collective: Collective | None = None,
    root: int | None = None,
    ranks_as: RanksAs = "turns",
    calls: int = 3,
    seed: int = 0,
    check: bool = True,
    timeout_s: float = 60.0,
    deadline: Deadline | None = None,
) -> Execution:
    """Run a plan, call after call, each with new inputs.

    Parameters
    ----------
    in_place : None: as the plan says.
    size_bytes : nccl-tests' size; None: about 1 MB, within the range that the plan serves.
    dtype : one of `call.DTYPES`. op : only `sum`, which is all that the runtime does.
    collective : what it computes, where the plan does not say so.
    root : of broadcast; None: any that fits.
    ranks_as : `turns`: all agents by turns in this thread, in an order that `seed` repeats. `threads`: a
        thread for each rank, whose agents take turns. `processes`: a process for each.
    calls : how many, one after another on each rank; ranks may drift apart.
    seed : of the inputs, and of the order in which agents act.
    check : whether to compare with NumPy's answer.
    timeout_s : seconds for all of it. deadline : in its place, that of a call that began before.

    Raises
    ------
    TacclError : the call does not fit the plan.
    VerificationError : the plan cannot be executed at all, or there was no time left. A wrong result, and
        thread blocks that are stuck, are no errors here but in what is returned.
    """
    word(ranks_as, "ranks_as", get_args(RanksAs), TacclError)
    deadline = Deadline(timeout_s) if deadline is None else deadline
    deadline.turns_to("checking the plan")
    check_executable(plan, deadline.look)
    call = make_plan_call(
        plan,
        in_place=in_place,
        size_bytes=size_bytes,
        dtype=dtype,
        op=op,
        collective=collective,
        root=root,
        seed=seed,
        calls=calls,
    )
    check_room(call)
    began = time.monotonic()
    if ranks_as == "processes":
        end = run_processes(call, check, deadline)
    else:
        end = _run_here(call, check, ranks_as, deadline)
    return conclude(call, ranks_as, end, check, time.monotonic() - began)


def check_executable(plan: ExecutionPlan, look: Callable[[], None] = lambda: None) -> None:
    """Refuse a plan whose numbers mean nothing. `look` is called now and then, and may raise.

    Raises
    ------
    VerificationError : with what is wrong: a real runtime would touch memory that it must not, or crash.
    """
    collector = Collector()
    check_structure(plan, collector, look)
    if collector.fatal:
        errors = [str(finding) for finding in collector.findings() if finding.severity == "error"]
        more = [f"and {len(errors) - _SHOWN} more"] if len(errors) > _SHOWN else []
        raise VerificationError(
            "the plan cannot be executed", findings=[*errors[:_SHOWN], *more], hint="taccl verify tells more"
        )
    if plan.alignment % 16:
        raise VerificationError(
            f"buffer_alignment is {plan.alignment}, and loads take 16 bytes", hint="set it to 16"
        )


def _run_here(call: PlanCall, check: bool, ranks_as: RanksAs, deadline: Deadline) -> End:
    world = World(call)
    world.begin()
    answers, lock = Answers(call, deadline.look), Lock()
    ranks = []
    for rank in range(call.plan.num_ranks):
        deadline.look()
        ranks.append(agents_of(world, rank, answers, check, deadline.look, lock))
    deadline.counts("moving data", planned(call), lambda: sum(each.sent for each in ranks))
    if ranks_as == "threads":
        run_threads(world, ranks, deadline)
    else:
        agents = [agent for each in ranks for agent in each.agents]
        take_turns(agents, Waiting(), random.Random(call.requested.seed), look=deadline.look)
    return End(
        sent=sum(each.sent for each in ranks),
        verdicts=tuple(each.host.verdict for each in ranks),
        stuck=stuck_of(ranks),
        notes=leftovers(world) if all(each.ended for each in ranks) else (),
    )


def _word(end: End, best: int, known: bool) -> tuple[Word, tuple[str, ...]]:
    """The verdict, with the first findings: why it hangs, or what is wrong if `best` is the root."""
    findings = list(end.stuck) or [text for verdict in end.verdicts for text in verdict.findings[best]]
    word: Word = "hangs" if end.stuck else "wrong" if findings else "right" if known else "not checked"
    if len(findings) > _SHOWN:
        findings = [*findings[:_SHOWN], f"and {len(findings) - _SHOWN} more"]
    return word, tuple(findings)


def conclude(call: PlanCall, ranks_as: RanksAs, end: End, check: bool, seconds: float) -> Execution:
    """The outcome."""
    requested, plan = call.requested, call.plan
    known = check and (requested.checkable or requested.collective == "sendrecv")
    is_checked = known and not end.stuck
    wrong = np.array([verdict.wrong for verdict in end.verdicts]).sum(axis=0)
    best = int(np.argmin(wrong))
    word, findings = _word(end, best, known)
    blocks = [block for rank in plan.ranks for block in rank.blocks]
    return Execution(
        collective=requested.collective,
        ranks=plan.num_ranks,
        thread_blocks=len(blocks),
        steps=sum(1 + len(operation.inner) for block in blocks for operation in block.operations),
        mode=requested.mode,
        size_bytes=requested.size_bytes,
        dtype=requested.dtype,
        op=requested.op,
        slots=None,
        iterations=1,
        calls=call.calls,
        ranks_as=ranks_as,
        verdict=word,
        pieces=end.sent,
        checked=sum(verdict.checked for verdict in end.verdicts) if is_checked else 0,
        wrong=int(wrong[best]) if is_checked else 0,
        root=requested.roots[best] if requested.checkable and is_checked else None,
        findings=findings,
        seconds=seconds,
        notes=(*requested.notes, *end.notes),
    )
