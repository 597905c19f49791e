"""A file becomes rounds: who has what when, where it lies, and which neighbours go in one message.

call ──► dataflow ──► levels ──► homes ──► messages, sums and copies
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taccl.backend.machine.one_call import OneCall
from taccl.backend.program import Buffer
from taccl.backend.rounds.dataflow import Dataflow, dataflow_of, longest_chain, rounds_of
from taccl.backend.rounds.homes import Buffers, Homes, buffers_of, find_homes
from taccl.backend.rounds.rounds import Local, Message, Place, Round, Rounds
from taccl.backend.rounds.verify import check_rounds
from taccl.errors import TacclError
from taccl.support.arguments import whole_number

#: NCCL has hung on groups of a thousand operations (pytorch#174288); PyTorch means to cut them at this.
MOST_OPERATIONS = 256


def lower_to_rounds(
    call: OneCall, *, in_place: bool = False, pipelined: bool = False, most_operations: int = MOST_OPERATIONS
) -> Rounds:
    """The transfers of a call in rounds.

    Parameters
    ----------
    in_place : how it will be called, whatever the file was made for.
    pipelined : more rounds, in which links of unlike speeds are busy at once; else the fewest.
    most_operations : sends and receives of a rank in a round; a round of more is cut into several.

    Raises
    ------
    TacclError : fewer than two operations are allowed, or pieces of a chunk are unequal.
    """
    most_operations = whole_number(
        most_operations, "the most operations of a round", TacclError, least=2, most=2**31
    )
    pieces = equal_pieces(call)
    flow, wanted = dataflow_of(call), call.expectation
    levels = rounds_of(flow, pipelined=pipelined)
    homes = find_homes(flow, levels, buffers_of(wanted, pieces, in_place))
    locals_of = _locals_by_round(flow, homes)
    before = [*_copies(homes.before, homes), *locals_of.pop(0, [])]
    rounds: list[Round] = []
    messages_of = _messages_by_round(flow, levels, homes)
    for level in range(1, max(levels, default=0) + 1):
        parts = list(_cut(messages_of[level], most_operations))
        rounds += [Round(tuple(part), ()) for part in parts[:-1]]
        rounds.append(Round(tuple(parts[-1]), tuple(locals_of.get(level, []))))
    last = _copies(homes.after, homes)
    if rounds:
        rounds[-1] = Round(rounds[-1].messages, (*rounds[-1].after, *last))
    else:
        before += last
    sizes = zip(wanted.input_size.tolist(), wanted.output_size.tolist(), homes.scratch, strict=True)
    made = Rounds(
        collective=wanted.collective,
        num_ranks=len(homes.buffers),
        root=wanted.root,
        chunks=_chunks_of_call(wanted.collective, homes.buffers),
        in_place=in_place,
        in_place_shift=tuple(int(shift) * pieces for shift in wanted.in_place_shift),
        sizes=tuple((int(a) * pieces, int(b) * pieces, c) for a, b, c in sizes),
        before=tuple(before),
        rounds=tuple(rounds),
        chain=longest_chain(flow),
    )
    check_rounds(made, wanted, pieces, most_operations)
    return made


def equal_pieces(call: OneCall) -> int:
    """How many equal pieces the file cuts each chunk into."""
    layout = call.machine.layout
    ends = [*layout.cuts.tolist()[1:], layout.chunk_bytes]
    lengths = {end - start for start, end in zip(layout.cuts.tolist(), ends, strict=True)}
    if len(lengths) > 1:
        raise TacclError(
            f"blocks cut each chunk into {len(ends)} pieces of unequal length, by the size of the call",
            hint="rounds know chunks and equal pieces of them; a file whose blocks share no ranges has these",
        )
    return len(ends)


def _chunks_of_call(collective: str, buffers: tuple[Buffers, ...]) -> int:
    """What a call is cut into; of gather and scatter, a rank's part."""
    sizes = [(len(each.inputs), len(each.outputs)) for each in buffers]
    if collective in ("gather", "scatter"):
        return max(size[collective == "scatter"] for size in sizes)
    return max(max(size) for size in sizes)


def _messages_by_round(flow: Dataflow, levels: list[int], homes: Homes) -> dict[int, list[Message]]:
    """The messages of each round, those between the same two ranks in the order of what they read."""
    moved: dict[int, list[_Row]] = {}
    for each, holding in enumerate(flow.holdings):
        if holding.sent_from >= 0:
            source = flow.holdings[holding.sent_from].rank
            places = ((source, homes.home[holding.sent_from]), (holding.rank, homes.home[each]))
            moved.setdefault(levels[each], []).append(places)
    return {
        level: [
            Message(
                source[0], target[0], _place(homes.buffers, *source), _place(homes.buffers, *target), count
            )
            for (source, target), count in _runs(sorted(rows, key=_by_pair), homes.buffers)
        ]
        for level, rows in moved.items()
    }


def _by_pair(row: _Row) -> tuple[int, ...]:
    """Neighbours become one message where nothing for another rank stands between them."""
    (source, read), (target, written) = row
    return source, target, read, written


def _locals_by_round(flow: Dataflow, homes: Homes) -> dict[int, list[Local]]:
    """The sums behind each round, in the order of time."""
    added: dict[int, dict[int, list[_Row]]] = {}
    for each, holding in enumerate(flow.holdings):
        if holding.terms:
            level, step = homes.moment[each]
            row = tuple((holding.rank, homes.home[part]) for part in (*holding.terms, each))
            added.setdefault(level, {}).setdefault(step, []).append(row)
    return {
        level: [
            local
            for step in sorted(steps)
            for local in _joined(sorted(steps[step], key=_by_rank), homes.buffers)
        ]
        for level, steps in added.items()
    }


#: (rank, position) of everything that a message or a sum touches; the target is the last.
_Row = tuple[tuple[int, int], ...]


def _by_rank(row: _Row) -> tuple[int, int, _Row]:
    return row[0][0], len(row), row


def _copies(copies: list[tuple[int, int, int]], homes: Homes) -> list[Local]:
    rows = [((rank, source), (rank, target)) for rank, source, target in sorted(copies)]
    return _joined(rows, homes.buffers)


def _joined(rows: Iterable[_Row], buffers: tuple[Buffers, ...]) -> list[Local]:
    """Sums and copies, neighbours as one."""
    made = []
    for row, count in _runs(rows, buffers):
        *sources, target = (_place(buffers, *end) for end in row)
        made.append(Local(row[0][0], tuple(sources), target, count))
    return made


def _runs(rows: Iterable[_Row], buffers: tuple[Buffers, ...]) -> Iterator[tuple[_Row, int]]:
    """Rows that follow each other everywhere, as the first of them and their number."""
    first: _Row | None = None
    count = 0
    for row in rows:
        if first is not None and _follows(first, count, row, buffers):
            count += 1
            continue
        if first is not None:
            yield first, count
        first, count = row, 1
    if first is not None:
        yield first, count


def _follows(first: _Row, count: int, row: _Row, buffers: tuple[Buffers, ...]) -> bool:
    """Whether a row goes on where `count` rows end, in the same buffers, and reads none that they write."""
    if len(first) != len(row):
        return False
    target = first[-1]
    for (rank, begin), (other, position) in zip(first, row, strict=True):
        if rank != other or position != begin + count:
            return False
        if _buffer(buffers[rank], begin) is not _buffer(buffers[rank], position):
            return False
        if rank == target[0] and begin != target[1] and abs(begin - target[1]) <= count:
            return False
    return True


def _buffer(buffers: Buffers, position: int) -> Buffer:
    if position >= buffers.user:
        return Buffer.SCRATCH
    return Buffer.OUTPUT if position in buffers.outputs else Buffer.INPUT


def _place(buffers: tuple[Buffers, ...], rank: int, position: int) -> Place:
    buffer = _buffer(buffers[rank], position)
    starts = {
        Buffer.INPUT: buffers[rank].inputs.start,
        Buffer.OUTPUT: buffers[rank].outputs.start,
        Buffer.SCRATCH: buffers[rank].user,
    }
    return Place(buffer, position - starts[buffer])


def _cut(messages: list[Message], most: int) -> Iterator[list[Message]]:
    """Messages in rounds in which no rank has more than `most`, each in the first that has room for it.

    Those that go equally far come together: in an AlltoAll they are a send and a receive of each rank.
    """
    if max(Round(tuple(messages), ()).operations().values(), default=0) <= most:
        yield messages
        return
    ranks = 1 + max(max(message.source, message.target) for message in messages)
    messages = sorted(messages, key=lambda message: (message.target - message.source) % ranks)
    parts: list[tuple[list[Message], dict[int, int]]] = []
    full: dict[tuple[int, int], int] = {}
    for message in messages:
        pair = (message.source, message.target)
        for number in range(full.get(pair, 0), len(parts) + 1):
            if number == len(parts):
                parts.append(([], {}))
            part, used = parts[number]
            if all(used.get(rank, 0) < most for rank in pair):
                break
            full[pair] = number
        part.append(message)
        for rank in pair:
            used[rank] = used.get(rank, 0) + 1
    for part, _ in parts:
        yield part
