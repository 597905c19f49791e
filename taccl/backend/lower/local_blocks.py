"""Which thread blocks make the sums that are made apart from receiving.

It knows actions and thread blocks, and how many there may be; why there are so many units is the business of
`local_work`. All of a unit stays in one thread block: what that has written, it reads itself.
"""

from __future__ import annotations

import numpy as np

from taccl.backend.lower.actions import Actions
from taccl.backend.lower.blocks import Block


def place_units(actions: Actions, blocks: list[Block], most_blocks: int) -> None:
    """Give each sum unit a thread block of its own, and where there are no more, one that receives.

    Those that receive take the units by turns, so that no thread block sums much more than the others.
    """
    units: dict[int, list[int]] = {}
    rows = np.flatnonzero(actions.unit >= 0)
    for number, unit in zip(rows.tolist(), actions.unit[rows].tolist(), strict=True):
        units.setdefault(unit, []).append(number)
    room = max(0, most_blocks - len(blocks))
    takers = [block for block in blocks if block.recv >= 0]
    local = [Block(-1, -1, []) for _ in range(min(room, len(units)))]
    takers = local + takers
    for turn, numbers in enumerate(units.values()):
        taker = takers[turn % len(takers)]
        taker.actions = sorted([*taker.actions, *numbers])
    blocks += local
