"""Who waits for whom, when a plan does not end."""

from __future__ import annotations

from taccl.backend.machine.report import Collector
from taccl.backend.verify.mscclpp.acts import Act, Kind, Unfolded
from taccl.backend.verify.mscclpp.execution import Stuck, Trace

#: Blocks of a circle that are named.
_SHOWN = 6


def report_deadlock(
    unfolded: Unfolded, trace: Trace, seen: set[tuple[object, ...]], collector: Collector
) -> bool:
    """One finding for a plan that hangs, at a block that waits for what never comes; whether it hangs."""
    if not trace.stuck:
        return False
    stuck = {each.block: each for each in trace.stuck}
    first, *others = _chain(unfolded, stuck)
    said = "".join(
        f"; {unfolded.place(each.block, each.act)} {_wait(unfolded, each)}" for each in others[:_SHOWN]
    )
    message = (
        f"{_wait(unfolded, first)} and never goes on, in call {(trace.stuck_call or 0) + 1}: "
        f"{'1 thread block is' if len(stuck) == 1 else f'{len(stuck)} thread blocks are'} stuck{said}"
    )
    if ("deadlock",) not in seen:
        seen.add(("deadlock",))
        collector.add(
            unfolded.finding(
                first.block,
                first.act,
                "deadlock",
                message,
                "let whoever it waits for signal before it waits itself; give every wait its signal",
            )
        )
    return True


def _chain(unfolded: Unfolded, stuck: dict[int, Stuck]) -> list[Stuck]:
    """Blocks that wait for one another in a circle, or the one block at the end of a chain of waits."""
    path: list[Stuck] = []
    here = next(iter(stuck.values()))
    while here not in path:
        path.append(here)
        suppliers = [
            supplier
            for supplier in _suppliers(unfolded, here)
            if supplier in stuck and supplier != here.block
        ]
        if not suppliers:
            return [here]
        here = stuck[suppliers[0]]
    return path[path.index(here) :]


def _suppliers(unfolded: Unfolded, stuck: Stuck) -> list[int]:
    """The blocks that could let it go on."""
    found = []
    for number, acts in enumerate(unfolded.acts):
        if any(_supplies(unfolded, stuck, number, act) for act in acts):
            found.append(number)
    return found


def _supplies(unfolded: Unfolded, stuck: Stuck, number: int, act: Act) -> bool:
    kind = stuck.act.kind
    if kind is Kind.WAIT:
        end = stuck.act.ends[stuck.lane]
        ends = (*(act.ends if act.kind is Kind.SIGNAL else ()), *(p.end for p in act.pushes if p.signals))
        return any(unfolded.ends.partner[each] == end for each in ends)
    if kind is Kind.ACQUIRE:
        return act.kind is Kind.RELEASE and stuck.act.semaphores[stuck.lane] in act.semaphores
    if kind is Kind.BARRIER:
        same_rank = unfolded.blocks[number][0] == unfolded.blocks[stuck.block][0]
        return same_rank and act.kind is Kind.BARRIER and act.barrier[0] == stuck.act.barrier[0]
    moves = (*act.moves, *(push.move for push in act.pushes if push.move is not None))
    cell = stuck.cell
    return cell is not None and any(
        target.packets and first <= cell < first + move.count
        for move in moves
        for target in move.targets
        for first in (target.first, target.upper)
    )


def _wait(unfolded: Unfolded, stuck: Stuck) -> str:
    kind = stuck.act.kind
    if kind is Kind.WAIT:
        return f"waits on {unfolded.ends.name(stuck.act.ends[stuck.lane])}"
    if kind is Kind.ACQUIRE:
        rank = unfolded.blocks[stuck.block][0]
        return f"waits for semaphore {stuck.act.semaphores[stuck.lane] - unfolded.semaphore[rank]}"
    if kind is Kind.BARRIER:
        return f"waits at barrier {stuck.act.barrier[0]} for {stuck.act.barrier[1]} blocks"
    cell = unfolded.layout.name(stuck.cell) if stuck.cell is not None else "scratch"
    return f"waits for {cell}"
