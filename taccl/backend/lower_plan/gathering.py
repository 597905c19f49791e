"""Sums that read from several peers at once: what adds to one place becomes neighbours in one thread block. A
thread block of a program hears from one peer, a thread block of a plan from many: receives and sums move to
where the last of them is, and so do sends of the sum, and of what peers read from the beginning. What steps
of a rank do to each other's memory stays in its order, with a wait of its own wherever thread blocks kept
that order until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from taccl.backend.lower_plan.fits import MAX_CHANNELS, MAX_OPERANDS
from taccl.backend.lower_plan.places import (
    Aliases,
    Cell,
    Place,
    reads,
    source,
    steps_touching,
    target,
    writes,
)
from taccl.backend.lower_plan.pulls import PullSearch, own_part
from taccl.backend.lower_plan.steps import Node, Steps, rearranged
from taccl.backend.lower_plan.sums import find_sums
from taccl.backend.program import Op
from taccl.errors import VerificationError


@dataclass(frozen=True, eq=False)
class Gathered:
    """Steps, and the rows of them that become one sum each.

    Parameters
    ----------
    rows : by first receive, the sums; a receive stands before each of them, and nothing between.
    """

    steps: Steps
    rows: dict[int, tuple[int, ...]]


def gather(steps: Steps, names: Aliases, node_of: Sequence[int]) -> Gathered:
    """Put together sums whose operands are all read where others of the node have them.

    Steps stay as they are where nothing is gained, or where a thread block would have too many channels.
    """
    search = PullSearch(steps, names, node_of)
    rows = [row for row in _sums_at_once(steps, names) if _are_pulled(steps, search, row)]
    with_sends = True
    while rows:
        found = _rearranged(steps, names, rows, with_sends)
        if found is None and not with_sends:
            break
        if found is None:
            with_sends = False
            continue
        made, at = found
        search = PullSearch(made, names, node_of)
        right = [row for row in rows if _stay(made, search, [at[each] for each in row])]
        if right == rows:
            return Gathered(made, {at[row[0]] - 1: tuple(at[each] for each in row) for row in rows})
        rows = right
    return Gathered(steps, {})


def _rearranged(
    steps: Steps, names: Aliases, rows: Sequence[tuple[int, ...]], with_sends: bool
) -> tuple[Steps, dict[int, int]] | None:
    try:
        return _Gathering(steps, names, rows, with_sends).run()
    except VerificationError:  # steps would wait for each other
        return None


def _sums_at_once(steps: Steps, names: Aliases) -> Iterator[tuple[int, ...]]:
    """Sums that the last of each row may do for all."""
    others: dict[int, list[int]] = {}
    put_off = find_sums(steps, names, steps_touching(steps, names)).put_off
    for index in steps.order:
        if index in put_off:
            others.setdefault(put_off[index], []).append(index)
    return ((*mine, last) for last, mine in sorted(others.items()))


def _are_pulled(steps: Steps, search: PullSearch, row: Sequence[int]) -> bool:
    """Whether what each of a row adds just came, and is read by nobody else."""
    messages = [steps.received.get(each - 1) for each in row]
    return all(message is not None and search.is_read_once(message) for message in messages) and _stay(
        steps, search, row
    )


def _stay(steps: Steps, search: PullSearch, row: Sequence[int]) -> bool:
    """Whether what a row adds stays at its senders until the last sum is done."""
    return all(search.stays(steps.received[each - 1], row[-1]) for each in row)


class _Gathering:
    """Thread blocks anew; all by steps' old numbers."""

    def __init__(
        self, steps: Steps, names: Aliases, rows: Sequence[tuple[int, ...]], with_sends: bool
    ) -> None:
        """`with_sends` : sums are sent on from where they are, in the same pass."""
        self.steps, self.names, self.rows, self.with_sends = steps, names, rows, with_sends
        self.row_of = {node: row for row in rows for each in row for node in (each - 1, each)}
        self.blocks = [list(block.nodes) for block in steps.blocks]
        self.by_rank: dict[int, list[Node]] = {}
        for node in steps.nodes:
            self.by_rank.setdefault(node.rank, []).append(node)
        self.moved: set[int] = set(self.row_of)
        #: by send of a sum, the thread block where it goes with it
        self.sent_on: dict[int, int] = {}

    def run(self) -> tuple[Steps, dict[int, int]] | None:
        """The steps, and their new numbers; None: a thread block has too many channels, or of two steps that
        talk through a channel one comes too early.
        """
        for row in self.rows:
            self._move_to_last(row)
        self._hear_where_sums_are()
        self._tell_from_where_sums_are()
        waits = {node.index: self._depends(node) for node in self.steps.nodes if node.index not in self.moved}
        made, at = rearranged(self.steps, self.blocks, waits)
        for first, second in self._in_order():
            begins = self.row_of[second][0] - 1 if second in self.row_of else second
            if not made.is_before(at[first], at[begins]):
                waits.setdefault(begins, []).append(first)
        made, at = rearranged(self.steps, self.blocks, waits)
        return (made, at) if _has_channels(made) else None

    def _move_to_last(self, row: Sequence[int]) -> None:
        """Receives, sums, and sends of the sum to where the last one is."""
        nodes, last = self.steps.nodes, row[-1]
        sends = [*self._sends_of_sum(last)][: MAX_OPERANDS - 1] if self.with_sends else []
        together = [node for each in row for node in (each - 1, each)]
        for each in (*together[:-2], *sends):
            self.blocks[nodes[each].block].remove(each)
        here = self.blocks[nodes[last].block]
        at = here.index(last)
        here[at - 1 : at + 1] = [*together, *sends]
        self.moved |= {*sends}
        self.sent_on |= dict.fromkeys(sends, nodes[last].block)

    def _sends_of_sum(self, last: int) -> Iterator[int]:
        nodes, rank = self.steps.nodes, self.steps.nodes[last].rank
        place = target(nodes[last].step, rank, self.names)
        for message in self.steps.messages:
            node, heard = nodes[message.send], nodes[message.receive]
            block = self.steps.blocks[heard.block].nodes
            if (
                message.src == rank
                and node.step.op is Op.SEND
                and heard.step.op is Op.RECV
                and source(node.step, rank, self.names) == place
                and self.steps.is_before(last, node.index)
                and not (heard.index + 1 in block and nodes[heard.index + 1].step.op is Op.REDUCE)
                and message.send not in self.moved
                and not self._is_written_between(last, node, place)
            ):
                yield message.send

    def _is_written_between(self, first: int, last: Node, place: Place) -> bool:
        return any(
            writes(node.step)
            and target(node.step, node.rank, self.names).overlaps(place)
            and self.steps.is_before(first, node.index)
            and self.steps.is_before(node.index, last.index)
            for node in self.by_rank[last.rank]
        )

    def _hear_where_sums_are(self) -> None:
        """Receives of sums that nobody looks at any more to the end of thread blocks with sums.

        So what one thread block asks another for, and what it tells it, go through one channel.
        """
        nodes, sums = self.steps.nodes, self._blocks_with_sums()
        wanted: dict[int, list[tuple[int, int]]] = {}
        for message in self.steps.messages:
            heard, mine = nodes[message.receive], sums.get(message.dst)
            if mine is None or message.send not in self.sent_on or self._is_looked_at(heard):
                continue
            there = self.sent_on[message.send]
            here = mine[sums[message.src].index(there) % len(mine)]
            wanted.setdefault(here, []).append((self.blocks[there].index(message.send), heard.index))
        for block, found in wanted.items():
            for _, index in sorted(found):
                self.blocks[nodes[index].block].remove(index)
                self.blocks[block].append(index)
                self.moved.add(index)

    def _is_looked_at(self, heard: Node) -> bool:
        """Whether another step of the rank touches what comes, from then on."""
        place = target(heard.step, heard.rank, self.names)
        return any(
            self.steps.is_before(heard.index, node.index)
            and any(each.overlaps(place) for each in _places(node, self.names))
            for node in self.by_rank[heard.rank]
        )

    def _blocks_with_sums(self) -> dict[int, list[int]]:
        """By rank."""
        nodes = self.steps.nodes
        sums: dict[int, list[int]] = {}
        for block in sorted({nodes[row[-1]].block for row in self.rows}):
            sums.setdefault(self.steps.blocks[block].rank, []).append(block)
        return sums

    def _tell_from_where_sums_are(self) -> None:
        """Sends of what peers read from the beginning on to the beginning of thread blocks with sums."""
        nodes, sums = self.steps.nodes, self._blocks_with_sums()
        written: dict[Cell, list[int]] = {}
        for node in nodes:
            if writes(node.step):
                for cell in _cells(node.rank, target(node.step, node.rank, self.names)):
                    written.setdefault(cell, []).append(node.index)
        wanted: dict[int, list[tuple[int, int]]] = {}
        for row in self.rows:
            reader = nodes[row[-1]]
            for each in row:
                message = self.steps.received[each - 1]
                send, mine = nodes[message.send], sums.get(message.src)
                place = source(send.step, send.rank, self.names)
                if mine is None or any(
                    self.steps.is_before(writer, send.index)
                    for cell in _cells(send.rank, place)
                    for writer in written.get(cell, ())
                ):
                    continue
                here = mine[sums[reader.rank].index(reader.block) % len(mine)]
                at = self.blocks[reader.block].index(each)
                wanted.setdefault(here, []).append((at, send.index))
        for block, found in wanted.items():
            sends = [index for _, index in sorted(found)]
            for index in sends:
                self.blocks[nodes[index].block].remove(index)
            self.blocks[block][:0] = sends
            self.moved |= {*sends}

    def _depends(self, node: Node) -> list[int]:
        """What a step waits for next to the one before it: not steps that move, but those of its memory."""
        return [
            each
            for each in self.steps.before[node.index]
            if self.steps.nodes[each].rank == node.rank and each not in self.moved
        ]

    def _in_order(self) -> Iterator[tuple[int, int]]:
        """Steps of a rank that touch a chunk one after the other, one of them to write it."""
        users: dict[Cell, dict[int, bool]] = {}
        for node in self.steps.nodes:
            step, row = node.step, self.row_of.get(node.index)
            if row is not None and node.index not in row:
                continue  # what is pulled lands nowhere
            index, read = node.index, []
            if row is not None:
                index = row[-1]
                read.append(own_part(node, self.steps.nodes[node.index - 1], self.names))
            elif reads(step):
                read.append(source(step, node.rank, self.names))
            for place in read:
                for cell in _cells(node.rank, place):
                    users.setdefault(cell, {}).setdefault(index, False)
            if writes(step):
                for cell in _cells(node.rank, target(step, node.rank, self.names)):
                    users.setdefault(cell, {})[index] = True
        for mine in users.values():
            for one, other in combinations(mine, 2):
                if mine[one] or mine[other]:
                    if self.steps.is_before(one, other):
                        yield one, other
                    elif self.steps.is_before(other, one):
                        yield other, one


def _places(node: Node, names: Aliases) -> Iterator[Place]:
    """What a step reads, and what it writes."""
    if reads(node.step):
        yield source(node.step, node.rank, names)
    if writes(node.step):
        yield target(node.step, node.rank, names)


def _cells(rank: int, place: Place) -> Iterator[Cell]:
    return ((rank, *cell) for cell in place.cells())


def _has_channels(steps: Steps) -> bool:
    """Whether thread blocks have channels enough, and what goes through each is heard as it was sent."""
    sends: dict[tuple[int, int], list[tuple[int, int]]] = {}
    count = [0] * len(steps.blocks)
    for message in steps.messages:
        sends.setdefault(message.connection, []).append((message.send, message.receive))
    for connection, found in sends.items():
        for block in connection:
            count[block] += 1
        if [heard for _, heard in sorted(found)] != sorted(heard for _, heard in found):
            return False
    return max(count) <= MAX_CHANNELS
