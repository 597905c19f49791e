"""A schedule or a program as lines that a person reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from taccl.backend.program import Buffer, Op, Program, RankProgram, Step, ThreadBlock
from taccl.backend.show.contents import StepTimes, execute
from taccl.backend.show.facts import program_facts, schedule_facts
from taccl.backend.simulate import Simulation
from taccl.errors import TacclError
from taccl.model.collective import IntArray
from taccl.model.schedule import SavedSchedule, Schedule
from taccl.model.schedule.computing import WORDS, computing_of
from taccl.model.units import format_count

#: Chunks of one send that are written out.
_CHUNKS_SHOWN = 8


def describe_schedule(
    saved: SavedSchedule, rank: int | None = None, notes: Sequence[str] = ()
) -> Iterator[str]:
    """Lines: the summary, then the sends in the order of time.

    Parameters
    ----------
    saved : with a bound that the caller stands for, since it is shown as proven.
    rank : only sends that leave or reach this rank.
    notes : what else to say in the summary.

    Raises
    ------
    TacclError : there is no such rank.
    """
    schedule = saved.schedule.sorted()
    topology, sends = schedule.problem.topology, schedule.sends
    check_rank(rank, topology.num_ranks)
    yield from aligned((*schedule_facts(saved), *(("note", note) for note in notes)))
    yield ""
    rows_of = np.argsort(sends.of_row, kind="stable")
    first = np.concatenate([[0], np.cumsum(sends.count)])
    rows = []
    order = np.lexsort((sends.link, sends.start_us))
    if rank is not None:
        link_of = sends.link[order]
        order = order[(topology.src[link_of] == rank) | (topology.dst[link_of] == rank)]
    for send in order.tolist():
        link = int(sends.link[send])
        own = rows_of[first[send] : first[send + 1]]
        rows.append(
            (
                f"{sends.start_us[send]:.2f}",
                f"{sends.end_us[send]:.2f}",
                f"{topology.src[link]} -> {topology.dst[link]}",
                _carried(schedule, own),
            )
        )
    yield from _table(("START us", "END us", "LINK", "CHUNKS"), rows)
    yield from _computing_lines(schedule, rank)


def _computing_lines(schedule: Schedule, rank: int | None) -> Iterator[str]:
    """What ranks compute before, between and after, if anything is said of that."""
    computing, collective = computing_of(schedule), schedule.problem.collective
    columns = zip(*(column.tolist() for column in computing), strict=True)
    rows = [
        (
            *(f"{start_us:.2f}", f"{end_us:.2f}", str(at)),
            f"{WORDS[what]} {collective.describe_chunk(chunk)}",
        )
        for at, chunk, what, start_us, end_us in columns
        if rank in (None, at)
    ]
    if rows:
        yield ""
        yield from _table(("START us", "END us", "RANK", "COMPUTES"), rows)


def describe_program(
    program: Program,
    rank: int | None = None,
    simulation: Simulation | None = None,
    facts: Iterable[tuple[str, str]] = (),
) -> Iterator[str]:
    """Lines: the summary, then for each rank its thread blocks and their steps.

    Parameters
    ----------
    rank : only this rank.
    simulation : of this program; with it, each step that does something has its start and end.
    facts : what else to say in the summary.

    Raises
    ------
    TacclError : there is no such rank.
    """
    check_rank(rank, program.num_ranks)
    execution = execute(program)
    yield from aligned((("name", program.name), *program_facts(program), *facts))
    if execution.num_blocked:
        yield f"note         {execution.num_blocked} steps can never run (marked !); taccl verify says why"
    spans = {} if simulation is None else simulation.spans
    when = {key: f"{start:.2f} .. {end:.2f} us" for key, (start, end) in spans.items()}
    row = 0
    for each in program.ranks:
        steps = sum(len(block.steps) for block in each.thread_blocks)
        if rank is None or each.rank == rank:
            yield ""
            yield from _rank_lines(each, execution, row, when)
        row += steps


def _rank_lines(
    rank: RankProgram, execution: StepTimes, row: int, when: Mapping[tuple[int, int, int], str]
) -> Iterator[str]:
    sizes = (("input", rank.input_chunks), ("output", rank.output_chunks), ("scratch", rank.scratch_chunks))
    chunks = ", ".join(f"{word} {size}" for word, size in sizes)
    yield f"rank {rank.rank}: {format_count(len(rank.thread_blocks), 'thread block')}; chunks: {chunks}"
    for block in rank.thread_blocks:
        yield f"  {_block_title(block)}"
        lines = []
        for number, step in enumerate(block.steps):
            blocked = "!" if np.isnan(execution.end[row]) else " "
            reported = execution.describe(row)
            after = "" if step.depends is None else f"after block {step.depends[0]} step {step.depends[1]}"
            span = when.get((rank.rank, block.id, number), "")
            lines.append((f"  {blocked}{number:>4}", _words(step, block), span, reported, after))
            row += 1
        yield from _columns(lines, indent="  ")


def _block_title(block: ThreadBlock) -> str:
    peers = [f"sends to {block.send}"] if block.send >= 0 else []
    peers += [f"receives from {block.recv}"] if block.recv >= 0 else []
    return f"thread block {block.id}, channel {block.channel}: {', '.join(peers) or 'local'}"


def _words(step: Step, block: ThreadBlock) -> str:
    source, target = (
        _cells(step.src, step.src_offset, step.count),
        _cells(step.dst, step.dst_offset, step.count),
    )
    to, sender = f"to {block.send}", f"from {block.recv}"
    match step.op:
        case Op.SEND:
            return f"send {source} {to}"
        case Op.RECV:
            return f"receive {target} {sender}"
        case Op.COPY:
            return f"copy {source} to {target}"
        case Op.REDUCE:
            return f"add {source} to {target}"
        case Op.RECV_COPY_SEND:
            return f"receive {target} {sender}, send it {to}"
        case Op.RECV_REDUCE_SEND:
            return f"receive {sender}, add {source}, send it {to}"
        case Op.RECV_REDUCE_COPY:
            return f"receive {sender}, add {source}, into {target}"
        case Op.RECV_REDUCE_COPY_SEND:
            return f"receive {sender}, add {source}, into {target}, send it {to}"
        case Op.NOP:
            return "wait"


def _cells(buffer: Buffer, offset: int, count: int) -> str:
    return f"{buffer.value}[{offset}]" if count == 1 else f"{buffer.value}[{offset} .. {offset + count - 1}]"


def _carried(schedule: Schedule, rows: IntArray) -> str:
    """The chunks of a send: first those that are added up, by the ranks whose contributions they carry."""
    sums = schedule.sums
    of_row = np.where(schedule.reduce[rows], 0, -1) if sums is None else sums.of_row[rows]
    parts = []
    for number in [*sorted({*of_row.tolist()} - {-1}), -1]:
        chunks = schedule.chunk[rows[of_row == number]].tolist()
        if number >= 0:
            ranks = (
                "" if sums is None else f" of ranks {_some(np.flatnonzero(sums.members[number]).tolist())}"
            )
            parts.append(f"add {_some(chunks)}{ranks}")
        elif chunks:
            parts.append(_some(chunks))
    return "; ".join(parts)


def _some(chunks: Sequence[int]) -> str:
    shown = ", ".join(map(str, chunks[:_CHUNKS_SHOWN]))
    more = len(chunks) - _CHUNKS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def check_rank(rank: int | None, num_ranks: int) -> None:
    """Refuse a rank that is not there; None is all of them."""
    if rank is not None and not 0 <= rank < num_ranks:
        raise TacclError(f"there is no rank {rank}", hint=f"--rank from 0 to {num_ranks - 1}")


def aligned(facts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A line for each label and value."""
    for label, value in facts:
        yield f"{label:<12} {value}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header) - 1)]
    for row in (header, *rows):
        numbers = [f"{cell:>{width}}" for cell, width in zip(row[:2], widths[:2], strict=True)]
        yield "  ".join((*numbers, f"{row[2]:<{widths[2]}}", row[3])).rstrip()


def _columns(rows: Sequence[Sequence[str]], indent: str) -> Iterator[str]:
    if rows:
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        for row in rows:
            cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            yield indent + "  ".join(cell for cell in cells if cell).rstrip()
