"""In which round each transfer goes.

*Fewest*: as early as what it carries is there. The longest chain of transfers, each of which carries what the
one before brought, has one in each round, so no fewer rounds carry out the same transfers.
*Pipelined*: also behind all that the same thread block of the file moved before, a round each. These are more
rounds, in which links of unlike speeds are busy at the same time, as the schedule meant them to be.
"""

from __future__ import annotations

from taccl.backend.rounds.dataflow import Dataflow, made_of


def rounds_of(flow: Dataflow, *, pipelined: bool = False) -> list[int]:
    """Of each holding the round after which its rank has it: 0 for what is there before the first."""
    levels: list[int] = []
    #: Of each block the act that it is at, the last round of the acts before, and the last of all.
    at: dict[int, tuple[int, int, int]] = {}
    for holding in flow.holdings:
        level = max((levels[each] for each in made_of(holding)), default=0)
        if holding.sent_from >= 0:
            level += 1
            if pipelined:
                act, before, last = at.get(holding.block, (-1, 0, 0))
                before = before if act == holding.act else last
                level = max(level, before + 1)
                at[holding.block] = (holding.act, before, max(last, level))
        levels.append(level)
    return levels


def longest_chain(flow: Dataflow) -> tuple[int, ...]:
    """The ranks that some data passes one after the other: a proof that it takes this many rounds."""
    levels = rounds_of(flow)
    if not levels:
        return ()
    number = max(range(len(levels)), key=levels.__getitem__)
    chain = [flow.holdings[number].rank]
    while levels[number]:
        holding = flow.holdings[number]
        number = max(made_of(holding), key=levels.__getitem__)
        if holding.sent_from >= 0:
            chain.append(flow.holdings[number].rank)
    return tuple(reversed(chain))
