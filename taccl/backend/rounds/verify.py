"""Whether rounds do what they should: they are executed on values, by nothing that made them.

Each rank becomes one block of the machine below all files: in a round it sends all, then takes all, then
adds. That is right where nothing in a round is written that is also read or written by another message of it,
which is looked at first. As both ends of a message are in one round, and a rank posts all of a round before
it waits, no order of messages can hang, and no library that lets a send wait for its receive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.backend.machine.acts import Kind, Machine, Names, Role, Stuck, Writer
from taccl.backend.machine.contents import carry_out
from taccl.backend.machine.expected import Expectation
from taccl.backend.machine.layout import INPUT, OUTPUT, SCRATCH, Layout
from taccl.backend.machine.meaning import check_meaning
from taccl.backend.machine.report import Collector, Location
from taccl.backend.machine.run import run_acts
from taccl.backend.program import Buffer
from taccl.backend.rounds.rounds import Local, Message, Place, Round, Rounds
from taccl.errors import VerificationError

_COLUMN = {Buffer.INPUT: INPUT, Buffer.OUTPUT: OUTPUT, Buffer.SCRATCH: SCRATCH}
_SHOWN = 5


def check_rounds(rounds: Rounds, wanted: Expectation, pieces: int, most_operations: int) -> None:
    """Refuse rounds that are not the collective, or that some order of messages makes wrong.

    Parameters
    ----------
    wanted : the collective. pieces : chunks of the rounds in each of its chunks.

    Raises
    ------
    VerificationError : with what is wrong.
    """
    chunks = -(-np.array(rounds.sizes, dtype=np.int64).reshape(-1, 3) // pieces)
    shift = np.array(rounds.in_place_shift) // pieces if rounds.in_place else None
    layout = Layout.of(chunks, shift, cuts=np.arange(pieces), chunk_bytes=pieces)
    said = list(_faults(rounds, layout, most_operations))
    if not said:
        machine = _machine(rounds, layout)
        run = run_acts(machine.acts)
        collector = Collector()
        contents = carry_out(machine, run, has_input=wanted.has_input)
        verdict = check_meaning(machine, contents, wanted, set(), collector)
        said = [str(finding) for finding in collector.findings() if finding.severity == "error"]
        if verdict != "right" and not said:
            said = ["the outputs could not be checked"]
    if said:
        raise VerificationError("the rounds are wrong", findings=said[:_SHOWN])


def _faults(rounds: Rounds, layout: Layout, most_operations: int) -> Iterator[str]:
    """Chunks outside of buffers, chunks that two messages of a round touch, and rounds that are too large."""
    for local in rounds.locals():
        for place in (*local.sources, local.target):
            yield from _outside(rounds, local.rank, place, local.count)
        yield from _tangled(local, layout)
    for number, each in enumerate(rounds.rounds):
        for message in each.messages:
            yield from _outside(rounds, message.source, message.read, message.count)
            yield from _outside(rounds, message.target, message.written, message.count)
            if message.source == message.target:
                yield f"round {number}: rank {message.source} sends to itself"
        if each.most_operations > most_operations:
            yield f"round {number}: {each.most_operations} operations of a rank, of {most_operations} allowed"
        yield from _shared(number, each, layout)


def _outside(rounds: Rounds, rank: int, place: Place, count: int) -> Iterator[str]:
    size = rounds.sizes[rank][_COLUMN[place.buffer]]
    if not (0 <= place.offset and 1 <= count and place.offset + count <= size):
        yield f"{count} chunks at {place} of rank {rank}, which has {size} there"


def _tangled(local: Local, layout: Layout) -> Iterator[str]:
    target = _cell(layout, local.rank, local.target)
    for source in local.sources:
        if 0 < abs(_cell(layout, local.rank, source) - target) < local.count:
            yield f"rank {local.rank} reads {source} while it writes {local.target}"


def _shared(number: int, each: Round, layout: Layout) -> Iterator[str]:
    """What a message writes, no other message of the round touches."""
    written: set[int] = set()
    for message in each.messages:
        first = _cell(layout, message.target, message.written)
        cells = set(range(first, first + message.count))
        if cells & written:
            yield f"round {number}: two messages write {message.written} of rank {message.target}"
        written |= cells
    for message in each.messages:
        first = _cell(layout, message.source, message.read)
        if not written.isdisjoint(range(first, first + message.count)):
            yield f"round {number}: {message.read} of rank {message.source} is sent and received at once"


def _cell(layout: Layout, rank: int, place: Place) -> int:
    return int(layout.base[rank, _COLUMN[place.buffer]]) + place.offset


def _machine(rounds: Rounds, layout: Layout) -> Machine:
    """A block for each rank; messages travel in cells of their own, and are counted by pairs of ranks."""
    writer, slot = Writer(), layout.num_cells
    counters: dict[tuple[int, int], int] = {}
    slots: list[dict[int, int]] = []
    for each in rounds.rounds:
        slots.append({})
        for number, message in enumerate(each.messages):
            counters.setdefault((message.source, message.target), len(counters))
            slots[-1][number] = slot
            slot += message.count
    for _ in counters:
        writer.counter()
    for rank in range(rounds.num_ranks):
        writer.block(rank)
        _add_locals(writer, layout, rank, rounds.before)
        for number, each in enumerate(rounds.rounds):
            _add_messages(writer, layout, rank, number, each.messages, counters, slots[number])
            _add_locals(writer, layout, rank, each.after)
    acts, moves = writer.columns()
    return Machine(acts, moves, layout, _RoundNames(acts.operation.tolist(), acts.rank[acts.block].tolist()))


def _add_messages(
    writer: Writer,
    layout: Layout,
    rank: int,
    number: int,
    messages: tuple[Message, ...],
    counters: dict[tuple[int, int], int],
    slots: dict[int, int],
) -> None:
    for each, message in enumerate(messages):
        if message.source == rank:
            writer.act(Kind.MOVE, number, gives=counters[message.source, message.target])
            read = _cell(layout, rank, message.read)
            writer.move([(read, read, 0), (slots[each], slots[each], int(Role.TARGET))], message.count)
    for each, message in enumerate(messages):
        if message.target == rank:
            writer.act(Kind.MOVE, number, takes=counters[message.source, message.target])
            place = _cell(layout, rank, message.written)
            role = int(Role.TARGET) | (int(Role.INPUT) if message.written.buffer is Buffer.INPUT else 0)
            writer.move([(slots[each], slots[each], 0), (place, place, role)], message.count)


def _add_locals(writer: Writer, layout: Layout, rank: int, locals_: tuple[Local, ...]) -> None:
    for local in locals_:
        if local.rank == rank:
            writer.act(Kind.MOVE, -1)
            cells = [_cell(layout, rank, place) for place in (*local.sources, local.target)]
            role = int(Role.TARGET) | (int(Role.INPUT) if local.target.buffer is Buffer.INPUT else 0)
            roles = [0] * len(local.sources) + [role]
            writer.move([(cell, cell, how) for cell, how in zip(cells, roles, strict=True)], local.count)


@dataclass(frozen=True, eq=False)
class _RoundNames(Names):
    """Acts by their rank and round."""

    operation: list[int]
    rank: list[int]

    def act(self, act: int) -> str:
        number = self.operation[act]
        return f"rank {self.rank[act]}, " + (f"round {number}" if number >= 0 else "a sum or copy")

    def counter(self, counter: int) -> str:
        return f"messages {counter}"

    def wait(self, stuck: Stuck) -> str:
        return f"waits at {self.act(stuck.act)}"

    def place(self, act: int) -> tuple[int, ...]:
        return (act,)

    def location(self, act: int) -> Location:
        return Location(rank=self.rank[act])
