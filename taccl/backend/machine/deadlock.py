"""Who waits for whom, when blocks never go on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.backend.machine.acts import Acts, Kind, Moves, Names, Role, Stuck
from taccl.backend.machine.layout import Layout
from taccl.backend.machine.report import Finding

#: Blocks of a circle that are named.
MOST_NAMED = 12


def find_cycle(acts: Acts, moves: Moves | None, stuck: Sequence[Stuck]) -> list[Stuck]:
    """Blocks that wait for one another in a circle, or a chain to one that nobody stuck could let go on.

    Parameters
    ----------
    moves : None: there are no packets.
    """
    by_block = {int(acts.block[each.act]): each for each in stuck}
    path: list[Stuck] = []
    index: dict[int, int] = {}
    here: Stuck | None = stuck[0]
    while here is not None and here.act not in index:
        index[here.act] = len(path)
        path.append(here)
        block = int(acts.block[here.act])
        others = (other for other in suppliers(acts, moves, here) if other in by_block and other != block)
        following = next(others, None)
        here = None if following is None else by_block[following]
    return path if here is None else path[index[here.act] :]


def suppliers(acts: Acts, moves: Moves | None, stuck: Stuck) -> list[int]:
    """The blocks that could let a block go on, whether they are stuck or not."""
    if stuck.awaits >= 0:
        rows = np.array([stuck.awaits])
    elif stuck.counter >= 0:
        rows = np.flatnonzero((acts.takes if stuck.for_room else acts.gives) == stuck.counter)
    elif moves is not None and stuck.cell >= 0:
        end = moves.count[moves.move]
        holds = np.zeros(len(end), dtype=np.bool_)
        for first in (moves.cell, moves.upper):
            holds |= (first <= stuck.cell) & (stuck.cell < first + end)
        puts = holds & (moves.role & Role.TARGET != 0) & (moves.role & Role.PACKETS != 0)
        rows = moves.act[moves.move[puts]]
    else:
        rows = np.zeros(0, dtype=np.int64)
    blocks: list[int] = np.unique(acts.block[rows]).tolist()
    return blocks


def deadlock_finding(
    acts: Acts,
    names: Names,
    stuck: Sequence[Stuck],
    when: str,
    hint: str,
    *,
    memory: tuple[Moves, Layout] | None = None,
    runtimes: tuple[str, ...] = (),
) -> Finding:
    """Who waits for whom, at the first block of a circle.

    Parameters
    ----------
    when : the words that follow `hangs`. memory : None: there are no packets.
    """
    cycle = find_cycle(acts, None if memory is None else memory[0], stuck)
    layout = None if memory is None else memory[1]
    said = [f"{names.act_and_line(each.act)} {wait_in_words(acts, names, layout, each)}" for each in cycle]
    if len(said) > MOST_NAMED:
        half = MOST_NAMED // 2
        said = [*said[:half], f"({len(said) - 2 * half} more)", *said[-half:]]
    number = "1 thread block is" if len(stuck) == 1 else f"{len(stuck)} thread blocks are"
    message = f"hangs {when}: {number} stuck; " + "; ".join(said)
    finding = Finding("concurrency", "error", "deadlock", message, runtimes=runtimes, hint=hint)
    return finding.at(names.location(cycle[0].act))


def wait_in_words(acts: Acts, names: Names, layout: Layout | None, stuck: Stuck) -> str:
    """What a block waits for: `waits on memory channel 3 (to rank 1)`."""
    if stuck.cell >= 0 and layout is not None:
        return f"waits for {layout.name(stuck.cell)}"
    if acts.kind[stuck.act] == Kind.BARRIER:
        return f"waits at {names.counter(stuck.counter)} for {acts.amount[stuck.act]} blocks"
    return names.wait(stuck)
