"""Agents by turns in one thread, in an order that a seed repeats."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from taccl.backend.execute.agents import Agent, Wait

#: How long a block that has the turn keeps it, in acts: mostly short, at times to its next wait.
_BURSTS = (1, 1, 1, 2, 5, 50, 10**9)
#: How often a block that waited is looked at while others can go on.
_LOOK = 0.25
#: In a run, such a share of the blocks is slow (None: one block); a slow one gives its turn away so often.
_SLOW = (0.0, 0.1, 0.5, None)
_PATIENCE = (1, 5, 50)
#: How often a slow block whose turn it is lets quick ones that wait go first.
_COURTESY = 0.95


def take_turns(
    blocks: Sequence[Agent],
    dice: random.Random,
    idle: Callable[[], bool] | None = None,
    look: Callable[[], None] | None = None,
) -> None:
    """Run blocks until all have ended or none can go on.

    `idle` is called each time none can; it returns whether to look again (for others may act), and
    without it the function returns. Blocks that have not ended have `waits_for` set. `look` is called before
    each act, and may raise.
    """
    table = _Table(blocks, dice, look)
    while table.awake or table.asleep:
        if table.awake:
            table.one_turn()
        elif not table.wake_all() and (idle is None or not idle()):
            return


class _Table:
    def __init__(
        self,
        blocks: Sequence[Agent],
        dice: random.Random,
        look: Callable[[], None] | None,
    ) -> None:
        self.dice, self.look = dice, look
        self.awake: list[tuple[Agent, Iterator[Wait | None]]] = [(block, block.run()) for block in blocks]
        self.asleep: list[tuple[Agent, Iterator[Wait | None]]] = []
        share, self.patience = dice.choice(_SLOW), dice.choice(_PATIENCE)
        slow = [block for block in blocks if share is not None and dice.random() < share]
        if share is None and blocks:
            slow = [dice.choice(blocks)]
        self.slow = {id(block) for block in slow}

    def one_turn(self) -> None:
        dice = self.dice
        if self.asleep and dice.random() < _LOOK:
            place = dice.randrange(len(self.asleep))
            if self._may_go_on(self.asleep[place][0]):
                self.awake.append(self.asleep.pop(place))
        for _ in range(self.patience):
            place = dice.randrange(len(self.awake))
            if id(self.awake[place][0]) not in self.slow:
                break
        else:
            if self._others_go_first():
                return
        block, acts = self.awake[place]
        for _ in range(1 if id(block) in self.slow else dice.choice(_BURSTS)):
            if self.look is not None:
                self.look()
            wait = next(acts, None)
            if block.ended:
                self.awake.pop(place)
                return
            if wait is not None and not wait.is_over():
                block.waits_for = wait
                self.asleep.append(self.awake.pop(place))
                return

    def _others_go_first(self) -> bool:
        """Mostly, a slow block acts only when no quick one can: so data may run far ahead of it."""
        return (
            self.dice.random() < _COURTESY
            and any(self._may_go_on(block) for block, _ in self.asleep if id(block) not in self.slow)
            and self.wake_all()
        )

    def wake_all(self) -> bool:
        """Wake the blocks whose waits are over; whether there is one."""
        still: list[tuple[Agent, Iterator[Wait | None]]] = []
        for each in self.asleep:
            (self.awake if self._may_go_on(each[0]) else still).append(each)
        self.asleep = still
        return bool(self.awake)

    def _may_go_on(self, block: Agent) -> bool:
        if block.waits_for is not None and not block.waits_for.is_over():
            return False
        block.waits_for = None
        return True
