"""Who has which value, where from, and in which round: a file without its memory and its blocks.

The acts of one call are followed cell by cell. A *holding* is a value that a rank has: an input, what another
rank sent it, or a sum of what it has. An act of one rank that reads a cell of another, or writes one, is a
transfer between the two; what travels between two steps of thread blocks is one as well. What a rank has
already, nobody has to send or add again, and what reaches no output is left out.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace

import numpy as np

from taccl.backend.machine.acts import Role
from taccl.backend.machine.layout import INPUT, OUTPUT
from taccl.backend.machine.one_call import OneCall
from taccl.errors import VerificationError


@dataclass(frozen=True, slots=True)
class Holding:
    """A value that a rank has.

    Parameters
    ----------
    offset : of an input, its place in the buffer; else -1.
    sent_from : of what was sent, the holding at the sender; else -1.
    terms : of a sum, the holdings that are added, in order.
    block : which thread block moved it, counted over all ranks; -1: none.
    act : the act that did so; acts have the order of the run in which they were followed.
    """

    rank: int
    offset: int = -1
    sent_from: int = -1
    terms: tuple[int, ...] = ()
    block: int = -1
    act: int = -1


@dataclass(frozen=True, eq=False)
class Dataflow:
    """Holdings, each behind all that it is made of.

    Parameters
    ----------
    holdings : what ranks have. outputs : (rank, offset, holding) for each chunk that is wanted.
    """

    holdings: tuple[Holding, ...]
    outputs: tuple[tuple[int, int, int], ...]


@dataclass
class _Following:
    """Where everything stands while acts are followed: values are numbered, equal ones the same."""

    holdings: list[Holding] = field(default_factory=list)
    value: list[int] = field(default_factory=list)
    known: dict[tuple[int, int], int] = field(default_factory=dict)
    sums: dict[tuple[int, ...], int] = field(default_factory=dict)
    inputs: int = 0

    def new_value(self) -> int:
        self.inputs += 1
        return self.inputs - 1

    def add(self, value: int, holding: Holding) -> int:
        """What the rank has of a value: this, unless it has it already."""
        key = (value, holding.rank)
        if key not in self.known:
            self.known[key] = len(self.holdings)
            self.holdings.append(holding)
            self.value.append(value)
        return self.known[key]

    def at(self, rank: int, holding: int, block: int, act: int) -> int:
        """The same value at a rank, sent there if it is not."""
        if self.holdings[holding].rank == rank:
            return holding
        return self.add(self.value[holding], Holding(rank, sent_from=holding, block=block, act=act))

    def total(self, rank: int, terms: list[int], block: int, act: int) -> int:
        """The sum of some holdings of a rank."""
        if len(terms) == 1:
            return terms[0]
        of = tuple(self.value[term] for term in terms)
        if of not in self.sums:
            self.sums[of] = self.new_value()
        return self.add(self.sums[of], Holding(rank, terms=tuple(terms), block=block, act=act))


def dataflow_of(call: OneCall) -> Dataflow:
    """Follow the acts of a call.

    Raises
    ------
    VerificationError : something is read that nobody wrote, as only files do that are wrong.
    """
    machine, wanted = call.machine, call.expectation
    layout, acts, moves = machine.layout, machine.acts, machine.moves
    following = _Following()
    cells: dict[int, int] = {}
    for rank in np.flatnonzero(wanted.has_input).tolist():
        first = int(layout.base[rank, INPUT])
        for offset in range(int(wanted.input_size[rank]) * len(layout.cuts)):
            cells[first + offset] = following.add(following.new_value(), Holding(rank, offset=offset))
    owners = _Owners.of(layout.user[:, 0])
    first_of_act, first_operand = moves.first_of_act.tolist(), moves.first_operand.tolist()
    count, cell, role = moves.count.tolist(), moves.cell.tolist(), moves.role.tolist()
    block_of, rank_of = acts.block.tolist(), acts.rank.tolist()
    for number, act in enumerate(call.sequence.tolist()):
        block = block_of[act]
        here = rank_of[block]
        for move in range(first_of_act[act], first_of_act[act + 1]):
            operands = range(first_operand[move], first_operand[move + 1])
            sources = [cell[k] for k in operands if not role[k] & Role.TARGET]
            targets = [cell[k] for k in operands if role[k] & Role.TARGET]
            if not targets:
                continue
            for k in range(count[move]):
                terms = [_read(cells, source + k) for source in sources]
                terms = [following.at(here, term, block, number) for term in terms]
                result = following.total(here, terms, block, number)
                for target in targets:
                    there = here if target >= layout.num_cells else owners.of_cell(target + k)
                    cells[target + k] = following.at(there, result, block, number)
    outputs = []
    pieces = len(layout.cuts)
    for rank, offset in zip(wanted.wanted_rank.tolist(), wanted.wanted_offset.tolist(), strict=True):
        for piece in range(offset * pieces, (offset + 1) * pieces):
            outputs.append((rank, piece, _read(cells, int(layout.base[rank, OUTPUT]) + piece)))
    return _of_use(following.holdings, outputs)


@dataclass(frozen=True)
class _Owners:
    """Which rank's memory a cell is in, looked up once for each."""

    starts: list[int]

    @staticmethod
    def of(starts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> _Owners:
        return _Owners(starts.tolist())

    def of_cell(self, cell: int) -> int:
        return bisect_right(self.starts, cell) - 1


def _read(cells: dict[int, int], cell: int) -> int:
    if cell not in cells:
        raise VerificationError("the file reads memory that nobody wrote", hint="taccl verify tells more")
    return cells[cell]


def _of_use(holdings: list[Holding], outputs: list[tuple[int, int, int]]) -> Dataflow:
    """Without what reaches no output."""
    used = [False] * len(holdings)
    for _, _, holding in outputs:
        used[holding] = True
    for number in range(len(holdings) - 1, -1, -1):
        if used[number]:
            for each in made_of(holdings[number]):
                used[each] = True
    kept = np.cumsum(used) - 1
    return Dataflow(
        tuple(
            replace(
                each,
                sent_from=int(kept[each.sent_from]) if each.sent_from >= 0 else -1,
                terms=tuple(int(kept[term]) for term in each.terms),
            )
            for each, is_used in zip(holdings, used, strict=True)
            if is_used
        ),
        tuple((rank, offset, int(kept[holding])) for rank, offset, holding in outputs),
    )


def made_of(holding: Holding) -> tuple[int, ...]:
    """What has to be there first."""
    return holding.terms if holding.sent_from < 0 else (holding.sent_from,)


def rounds_of(flow: Dataflow, *, pipelined: bool = False) -> list[int]:
    """Of each holding the round after which its rank has it: 0 for what is there before the first.

    *Fewest*: as early as what it carries is there. The longest chain of transfers, each of which carries what
    the one before brought, has one in each round, so no fewer rounds carry out the same transfers.
    *Pipelined*: also behind all that the same thread block of the file moved before, a round each. These are
    more rounds, in which links of unlike speeds are busy at the same time, as the schedule meant them to be.
    """
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
