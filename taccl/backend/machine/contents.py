"""What every cell holds while acts happen: a number for its contributions, and who put it there.

A cell holds the number of a value (see `values`): copies copy numbers, and a sum that has not occurred gets a
new one, so that the loop is over numbers only. What these stand for is worked out afterwards, where a
question needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from taccl.backend.machine.acts import Machine, Moves, Role
from taccl.backend.machine.layout import INPUT, OUTPUT
from taccl.backend.machine.run import Run
from taccl.backend.machine.values import UNWRITTEN, Values
from taccl.model.collective import BoolArray, IntArray
from taccl.support.jit import Loop

_TARGET, _PACKETS, _INPUT = int(Role.TARGET), int(Role.PACKETS), int(Role.INPUT)


@dataclass(frozen=True, eq=False)
class Output:
    """What a rank's output holds after a call: per cell the number of a value, and the act that wrote it.

    A `writer` of -1: nobody did in that call.
    """

    values: IntArray
    writer: IntArray


@dataclass(frozen=True, eq=False)
class Contents:
    """What happened to the memory of all ranks.

    The input of rank r in call k counts as that of rank k * num_ranks + r, so that what is left over from an
    earlier call is distinguished from what belongs here.

    Parameters
    ----------
    values : the numbering. cells : per cell, the value in the end.
    outputs : per finished call and rank.
    unwritten : shape (n, 2), (act, cell) of reads of memory that nobody has written.
    changed_inputs : shape (n, 2), (act, cell) of writes that change a caller's input out of place.
    twice : shape (n, 2), (act, cell) of packets where the same call has put others already.
    rewritten : shape (n, 3), (act, cell, call) of writes that put what another act has put there in the call.
    """

    values: Values
    cells: IntArray
    outputs: tuple[tuple[Output, ...], ...]
    unwritten: IntArray
    changed_inputs: IntArray
    twice: IntArray
    rewritten: IntArray


class _Memory(NamedTuple):
    """Per cell its value, the act that wrote it last, and the call of the packet that is there."""

    cells: Any
    writer: Any
    flag: Any


class _Sums(NamedTuple):
    """The sums so far: a hash table from pairs of numbers, and the two terms of each, in order of number."""

    key_a: Any
    key_b: Any
    number: Any
    left: Any
    right: Any


def carry_out(machine: Machine, run: Run, *, has_input: BoolArray | None = None) -> Contents:
    """Carry out the moves of a run, call after call.

    Parameters
    ----------
    has_input : shape (num_ranks,); the ranks whose input holds data; None: all.
    """
    layout, moves, calls = machine.layout, machine.moves, len(run.sequence)
    num_ranks, pieces = len(layout.chunks), len(layout.cuts)
    values = Values(calls * num_ranks, max(1, int(layout.chunks[:, INPUT].max(initial=0))))
    size = max(layout.num_cells, int((moves.cell + moves.count[moves.move]).max(initial=0)))
    memory = _Memory(*(np.full(size, start, dtype=np.int64) for start in (UNWRITTEN, -1, -1)))
    sums, made = _no_sums(moves, calls), 0
    notes: list[list[IntArray]] = [[], [], [], []]
    outputs = []
    for call, sequence in enumerate(run.sequence):
        _begin_call(machine, memory, values, call, has_input)
        upper = layout.has_halves and call % 2 == 1
        memory, sums, made, noted = _carry_out_call(
            machine, sequence, memory, sums, (call, values.first_sum, made), upper
        )
        for kept, new in zip(notes, noted, strict=True):
            kept.append(new)
        if call < calls - 1 or run.ends:
            outputs.append(tuple(_output(machine, memory, rank, pieces) for rank in range(num_ranks)))
    values.set_sums(sums.left[:made], sums.right[:made])
    unwritten, changed, twice, rewritten = (np.concatenate(some) for some in notes)
    return Contents(
        values,
        memory.cells[: layout.num_cells],
        tuple(outputs),
        unwritten[:, :2],
        changed[values.differ(changed[:, 2], changed[:, 3]), :2],
        twice[values.differ(twice[:, 2], twice[:, 3]), :2],
        rewritten[:, :3],
    )


def _begin_call(
    machine: Machine, memory: _Memory, values: Values, call: int, has_input: BoolArray | None
) -> None:
    """Hosts have put new data into the inputs, and nobody knows what into the outputs."""
    layout = machine.layout
    num_ranks, pieces = len(layout.chunks), len(layout.cuts)
    for rank, (start, end) in enumerate(layout.user.tolist()):
        memory.cells[start:end] = UNWRITTEN
        memory.writer[start:end] = -1
        if has_input is None or has_input[rank]:
            chunks, first = int(layout.chunks[rank, INPUT]), int(layout.base[rank, INPUT])
            numbers = np.array(values.inputs(call * num_ranks + rank, chunks), dtype=np.int64)
            memory.cells[first : first + chunks * pieces] = np.repeat(numbers, pieces)


def _output(machine: Machine, memory: _Memory, rank: int, pieces: int) -> Output:
    first = int(machine.layout.base[rank, OUTPUT])
    last = first + int(machine.layout.chunks[rank, OUTPUT]) * pieces
    return Output(memory.cells[first:last].copy(), memory.writer[first:last].copy())


def _no_sums(moves: Moves, calls: int) -> _Sums:
    """Room for as many sums as there can be, and twice as much in the table."""
    sources = np.diff(moves.first_operand) - np.bincount(
        moves.move[moves.is_target()], minlength=len(moves.count)
    )
    most = calls * int((moves.count * (sources - 1).clip(min=0)).sum())
    room = 1 << max(1, 2 * most).bit_length()
    return _Sums(
        *(np.full(room, -1, dtype=np.int64) for _ in range(3)),
        *(np.zeros(most, dtype=np.int64) for _ in range(2)),
    )


def _carry_out_call(
    machine: Machine,
    sequence: IntArray,
    memory: _Memory,
    sums: _Sums,
    numbers: tuple[int, int, int],
    upper: bool,
) -> tuple[_Memory, _Sums, int, list[IntArray]]:
    """One call; `numbers`: the call, the number of the first sum, and how many sums there are."""
    moves = machine.moves
    call, first_sum, made = numbers
    after, sums_after, made, *noted = _move_all(
        len(sequence),
        sequence=sequence,
        first_of_act=moves.first_of_act,
        count=moves.count,
        first_operand=moves.first_operand,
        cell=moves.upper if upper else moves.cell,
        role=moves.role,
        guards_inputs=not machine.layout.in_place,
        memory=memory,
        sums=sums,
        total=np.zeros(int(moves.count.max(initial=0)), dtype=np.int64),
        call=call,
        first_sum=first_sum,
        made=made,
    )
    return (
        _Memory(*map(np.asarray, after)),
        _Sums(*map(np.asarray, sums_after)),
        made,
        [np.array(some, dtype=np.int64).reshape(-1, 4) for some in noted],
    )


def _carry_out_all(
    sequence: Sequence[int],
    first_of_act: Sequence[int],
    count: Sequence[int],
    first_operand: Sequence[int],
    cell: Sequence[int],
    role: Sequence[int],
    guards_inputs: bool,
    memory: _Memory,
    sums: _Sums,
    total: list[int],
    call: int,
    first_sum: int,
    made: int,
) -> tuple[_Memory, _Sums, int, list[int], list[int], list[int], list[int]]:
    """Move by move: the sources are read and added up in `total`, which then goes to every target.

    Returns what there is then, and four lists of notes, of which four numbers belong together: an act, a
    cell, and the values there before and after; of what is put again, the call.
    """
    unwritten, changed, twice = [0 for _ in range(0)], [0 for _ in range(0)], [0 for _ in range(0)]
    again = [0 for _ in range(0)]
    for act in sequence:
        for move in range(first_of_act[act], first_of_act[act + 1]):
            begin, end = first_operand[move], first_operand[move + 1]
            if role[end - 1] & _TARGET == 0:  # what is only waited for
                continue
            for operand in range(begin, end):
                first = cell[operand]
                if role[operand] & _TARGET == 0:
                    made = _add(
                        first,
                        count[move],
                        operand == begin,
                        act,
                        memory,
                        sums,
                        total,
                        first_sum,
                        made,
                        unwritten,
                    )
                    continue
                if role[operand] & _PACKETS != 0:
                    for k in range(count[move]):
                        if memory.flag[first + k] == call:
                            _note_change(twice, act, first + k, memory.cells[first + k], total[k])
                        memory.flag[first + k] = call
                elif role[operand] & _INPUT != 0 and guards_inputs:
                    for k in range(count[move]):
                        _note_change(changed, act, first + k, memory.cells[first + k], total[k])
                else:
                    _note_again(again, act, call, first, count[move], memory, total)
                for k in range(count[move]):
                    memory.cells[first + k] = total[k]
                    memory.writer[first + k] = act
    return memory, sums, made, unwritten, changed, twice, again


def _add(
    first: int,
    count: int,
    is_first: bool,
    act: int,
    memory: _Memory,
    sums: _Sums,
    total: list[int],
    first_sum: int,
    made: int,
    unwritten: list[int],
) -> int:
    """Read a source and add it to the total, or begin with it; how many sums there are then."""
    for k in range(count):
        value = memory.cells[first + k]
        if value == UNWRITTEN:
            unwritten.append(act)
            unwritten.append(first + k)
            unwritten.append(value)
            unwritten.append(value)
        if is_first:
            total[k] = value
        else:
            total[k], made = _sum(total[k], value, sums, first_sum, made)
    return made


def _sum(a: int, b: int, sums: _Sums, first_sum: int, made: int) -> tuple[int, int]:
    """The number of a sum, new if it has not occurred, and how many sums there are then."""
    if a > b:
        a, b = b, a
    mask = len(sums.number) - 1
    slot = (a * 1_000_003 + b) & mask
    while sums.number[slot] >= 0:
        if sums.key_a[slot] == a and sums.key_b[slot] == b:
            return sums.number[slot], made
        slot = (slot + 1) & mask
    sums.key_a[slot], sums.key_b[slot], sums.number[slot] = a, b, first_sum + made
    sums.left[made], sums.right[made] = a, b
    return first_sum + made, made + 1


def _note_change(notes: list[int], act: int, cell: int, before: int, after: int) -> None:
    if before != after:
        notes.append(act)
        notes.append(cell)
        notes.append(before)
        notes.append(after)


def _note_again(
    notes: list[int], act: int, call: int, first: int, count: int, memory: _Memory, total: Sequence[int]
) -> None:
    for cell in range(first, first + count):
        if memory.cells[cell] == total[cell - first] and memory.writer[cell] not in (-1, act):
            notes.append(act)
            notes.append(cell)
            notes.append(call)
            notes.append(call)


_move_all = Loop(_carry_out_all, (_add, _sum, _note_change, _note_again))
