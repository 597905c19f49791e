"""Sums that read from several peers at once: what adds to one place becomes neighbours in one thread block.

Actions are in thread blocks of one peer, a thread block of a plan hears from many: receives and sums move to
where the last of them is, and so do sends of the sum, and of what peers read from the beginning. What actions
of a rank do to each other's memory stays in its order, with a wait of its own wherever thread blocks kept
that order until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

from taccl.backend.lower_plan.graph import Action, Graph
from taccl.backend.lower_plan.places import Cell, Place
from taccl.backend.lower_plan.pulls import may_be_pulled, own_part, pull_alone, stays
from taccl.backend.lower_plan.sums import find_sums
from taccl.backend.lower_plan.switches import find_copies
from taccl.backend.lower_plan.tuning import MAX_CHANNELS, MAX_OPERANDS
from taccl.backend.program import Op
from taccl.errors import VerificationError

#: Sums into one place that the last of them does for all.
Row: TypeAlias = tuple[int, ...]


def pull(graph: Graph) -> Graph:
    """Ranks read what they add where others of their node have it, several operands by one operation."""
    return pull_alone(gather(graph))


def gather(graph: Graph) -> Graph:
    """Put together sums whose operands are all read where others of the node have them.

    With them what goes to all members of a switch. Actions stay as they are where nothing is gained, or where
    a thread block would have too many channels.
    """

    def are_pulled(row: Row) -> bool:
        messages = [graph.received.get(each - 1) for each in row]
        return all(message is not None and may_be_pulled(graph, message) for message in messages)

    rows = [row for row in _sums_at_once(graph) if are_pulled(row) and _stay(graph, row)]
    copies = find_copies(graph, rows)
    made = _settled(graph, rows, copies)
    if made is None and copies:
        made = _settled(graph, rows, [])
    return graph if made is None else made


def _stay(graph: Graph, row: Row) -> bool:
    """Whether what a row adds stays until then."""
    return all(stays(graph, graph.received[each - 1], row[-1]) for each in row)


def _settled(graph: Graph, rows: Sequence[Row], copies: Sequence[Row]) -> Graph | None:
    """The graph with those of the rows that stay right when put together; None: there is none."""
    with_sends = True
    while rows or copies:
        made = _rearranged(graph, rows, copies, with_sends)
        if made is None and not with_sends:
            break
        if made is None:
            with_sends = False
            continue
        right = [row for row in rows if _stay(made, _renumbered(made, row))]
        if right == [*rows]:
            found = [_renumbered(made, row) for row in rows]
            copying = [_renumbered(made, row) for row in copies]
            return replace(
                made,
                rows={row[0] - 1: row for row in found},
                switches=graph.switches,
                copies={row[0]: row for row in copying},
            )
        rows = right
    return None


def _renumbered(made: Graph, row: Row) -> Row:
    return tuple(made.new[each] for each in row)


def _rearranged(graph: Graph, rows: Sequence[Row], copies: Sequence[Row], with_sends: bool) -> Graph | None:
    try:
        return _Gathering(graph, rows, copies, with_sends).run()
    except VerificationError:  # actions would wait for each other
        return None


def _sums_at_once(graph: Graph) -> Iterator[Row]:
    """Sums that the last of each row may do for all."""
    others: dict[int, list[int]] = {}
    put_off = find_sums(graph, _hops(graph)).put_off
    for index in graph.order:
        if index in put_off:
            others.setdefault(put_off[index], []).append(index)
    return ((*mine, last) for last, mine in sorted(others.items()))


def _hops(graph: Graph) -> list[int]:
    """As `Graph.hops`; on a machine whose switches sum, of what is signalled at the beginning (see there)."""
    if not graph.switches:
        return graph.hops
    written = _written(graph)
    return graph.hops_where_early(
        {send for send in graph.sent if _is_there_from_the_beginning(graph, send, written)}
    )


def _written(graph: Graph) -> dict[Cell, list[int]]:
    """By chunk, the actions that write it."""
    written: dict[Cell, list[int]] = {}
    for action in graph.actions:
        if action.writes:
            for cell in action.target.cells(action.rank):
                written.setdefault(cell, []).append(action.index)
    return written


def _is_there_from_the_beginning(graph: Graph, send: int, written: Mapping[Cell, Sequence[int]]) -> bool:
    """Whether nobody writes what an action sends before it does."""
    action = graph.actions[send]
    return not any(
        graph.is_before(writer, send)
        for cell in action.source.cells(action.rank)
        for writer in written.get(cell, ())
    )


class _Gathering:
    """Thread blocks anew; all by actions' old numbers."""

    def __init__(self, graph: Graph, rows: Sequence[Row], copies: Sequence[Row], with_sends: bool) -> None:
        """`with_sends` : sums are sent on from where they are, in the same pass."""
        self.graph, self.rows, self.copies, self.with_sends = graph, rows, copies, with_sends
        self.row_of = {action: row for row in rows for each in row for action in (each - 1, each)}
        self.blocks = [list(block.actions) for block in graph.blocks]
        self.moved = {*self.row_of, *(action for copy in copies for action in copy)}
        #: by send of a sum, the thread block where it goes with it
        self.sent_on: dict[int, int] = {}

    def run(self) -> Graph | None:
        """The graph.

        None: a thread block has too many channels, or an action comes too early for what its channel tells.
        """
        for row in self.rows:
            self._move_to_last(row)
        for copy in self.copies:
            self._copy_at_last(copy)
        self._hear_where_sums_are()
        self._tell_from_where_sums_are()
        graph = self.graph
        blocks = [(block.rank, mine) for block, mine in zip(graph.blocks, self.blocks, strict=True)]
        waits = {
            action.index: self._depends(action) for action in graph.actions if action.index not in self.moved
        }
        made = graph.rearranged(blocks, waits)
        for first, second in self._in_order():
            begins = self.row_of[second][0] - 1 if second in self.row_of else second
            if not made.is_before(made.new[first], made.new[begins]):
                waits.setdefault(begins, []).append(first)
        made = graph.rearranged(blocks, waits)
        return made if _has_channels(made) else None

    def _move_to_last(self, row: Row) -> None:
        """Receives, sums, and sends of the sum to where the last one is."""
        actions, last = self.graph.actions, row[-1]
        sends = [*self._sends_of_sum(last)][: MAX_OPERANDS - 1] if self.with_sends else []
        together = [action for each in row for action in (each - 1, each)]
        for each in (*together[:-2], *sends):
            self.blocks[actions[each].block].remove(each)
        here = self.blocks[actions[last].block]
        at = here.index(last)
        here[at - 1 : at + 1] = [*together, *sends]
        self.moved |= {*sends}
        self.sent_on |= dict.fromkeys(sends, actions[last].block)

    def _copy_at_last(self, copy: Row) -> None:
        """Sends of one place, and what copies it at home, to where the last send is."""
        actions = self.graph.actions
        for each in copy[:-1]:
            self.blocks[actions[each].block].remove(each)
        here = self.blocks[actions[copy[-1]].block]
        at = here.index(copy[-1])
        here[at:at] = copy[:-1]
        self.sent_on |= {each: actions[copy[-1]].block for each in copy if actions[each].op is Op.SEND}

    def _sends_of_sum(self, last: int) -> Iterator[int]:
        graph, total = self.graph, self.graph.actions[last]
        for message in graph.messages:
            action, heard = graph.actions[message.send], graph.actions[message.receive]
            block = graph.blocks[heard.block].actions
            if (
                message.src == total.rank
                and (action.op, heard.op) == (Op.SEND, Op.RECV)
                and action.source == total.target
                and graph.is_before(last, action.index)
                and not (heard.index + 1 in block and graph.actions[heard.index + 1].op is Op.REDUCE)
                and message.send not in self.moved
                and not self._is_written_between(last, action, total.target)
            ):
                yield message.send

    def _is_written_between(self, first: int, last: Action, place: Place) -> bool:
        return any(
            action.may_write(place)
            and self.graph.is_before(first, action.index)
            and self.graph.is_before(action.index, last.index)
            for action in self.graph.by_rank[last.rank]
        )

    def _hear_where_sums_are(self) -> None:
        """Receives of sums that nobody looks at any more to the end of thread blocks with sums.

        So what one thread block asks another for, and what it tells it, go through one channel.
        """
        actions, copied = self.graph.actions, {each for copy in self.copies for each in copy}
        blocks = {True: self._blocks_of(self.copies), False: self._blocks_of(self.rows)}
        wanted: dict[int, list[tuple[int, int]]] = {}
        for message in self.graph.messages:
            heard, sums = actions[message.receive], blocks[message.send in copied]
            mine = sums.get(message.dst)
            if mine is None or message.send not in self.sent_on or self._is_looked_at(heard):
                continue
            there = self.sent_on[message.send]
            here = mine[sums[message.src].index(there) % len(mine)]
            wanted.setdefault(here, []).append((self.blocks[there].index(message.send), heard.index))
        for block, found in wanted.items():
            self._move(block, [index for _, index in sorted(found)], at_begin=False)

    def _is_looked_at(self, heard: Action) -> bool:
        """Whether another action of the rank touches what comes, from then on."""
        return any(
            self.graph.is_before(heard.index, action.index)
            and any(each.overlaps(heard.target) for each in self.graph.touched(action))
            for action in self.graph.by_rank[heard.rank]
        )

    def _blocks_of(self, rows: Sequence[Row]) -> dict[int, list[int]]:
        """By rank those where rows of sums are, or of copies to all members of a switch."""
        sums: dict[int, list[int]] = {}
        for block in sorted({self.graph.actions[row[-1]].block for row in rows}):
            sums.setdefault(self.graph.blocks[block].rank, []).append(block)
        return sums

    def _tell_from_where_sums_are(self) -> None:
        """Sends of what peers read from the beginning on to the beginning of thread blocks with sums."""
        graph, sums = self.graph, self._blocks_of(self.rows)
        written = _written(graph)
        wanted: dict[int, list[tuple[int, int]]] = {}
        for row in self.rows:
            reader = graph.actions[row[-1]]
            for each in row:
                message = graph.received[each - 1]
                send, mine = graph.actions[message.send], sums.get(message.src)
                if mine is None or not _is_there_from_the_beginning(graph, send.index, written):
                    continue
                here = mine[sums[reader.rank].index(reader.block) % len(mine)]
                at = self.blocks[reader.block].index(each)
                wanted.setdefault(here, []).append((at, send.index))
        for block, found in wanted.items():
            self._move(block, [index for _, index in sorted(found)], at_begin=True)

    def _move(self, block: int, actions: list[int], at_begin: bool) -> None:
        """Actions to the beginning, or the end, of a thread block."""
        for index in actions:
            self.blocks[self.graph.actions[index].block].remove(index)
        here = self.blocks[block]
        here[:] = [*actions, *here] if at_begin else [*here, *actions]
        self.moved |= {*actions}

    def _depends(self, action: Action) -> list[int]:
        """What an action waits for next to the one before it, but for those that move."""
        return [
            each
            for each in self.graph.before[action.index]
            if self.graph.actions[each].rank == action.rank and each not in self.moved
        ]

    def _in_order(self) -> Iterator[tuple[int, int]]:
        """Actions of a rank that touch a chunk one after the other, one of them to write it."""
        users: dict[Cell, dict[int, bool]] = {}
        for action in self.graph.actions:
            row = self.row_of.get(action.index)
            if row is not None and action.index not in row:
                continue  # what is pulled lands nowhere
            index, read = action.index, [action.source] if action.reads else []
            if row is not None:
                index, read = row[-1], [own_part(action, self.graph.actions[action.index - 1])]
            for place in read:
                for cell in place.cells(action.rank):
                    users.setdefault(cell, {}).setdefault(index, False)
            if action.writes:
                for cell in action.target.cells(action.rank):
                    users.setdefault(cell, {})[index] = True
        for mine in users.values():
            for one, other in combinations(mine, 2):
                if mine[one] or mine[other]:
                    if self.graph.is_before(one, other):
                        yield one, other
                    elif self.graph.is_before(other, one):
                        yield other, one


def _has_channels(graph: Graph) -> bool:
    """Whether thread blocks have channels enough, and what goes through each is heard as it was sent."""
    sends: dict[tuple[int, int], list[tuple[int, int]]] = {}
    count: Counter[tuple[int, bool]] = Counter()  # by thread block, of channels through memory, and of others
    for message in graph.messages:
        if message.connection not in sends:
            count.update((block, graph.is_near(message)) for block in message.connection)
        sends.setdefault(message.connection, []).append((message.send, message.receive))
    for found in sends.values():
        if [heard for _, heard in sorted(found)] != sorted(heard for _, heard in found):
            return False
    return max(count.values(), default=0) <= MAX_CHANNELS
