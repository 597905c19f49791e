"""The steps of a long file that are written as synthesizers write them, taken out of it as columns.

Their line breaks stay behind, so whatever is left is read as if nothing had been taken: a thread block with
anything but plain steps in it stays whole, and so does a file with anything in it (comments, document types,
other line breaks) that could make a tag be no tag or stand on another line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taccl.backend.step_rows import BUFFERS, OPS, Column, StepRows, StepTable
from taccl.model.collective import IntArray
from taccl.support.jit import Loop, runs_compiled
from taccl.support.xml_elements import MAX_ELEMENTS

#: A file with one of these is left as it is.
_UNUSUAL = (b"<!", b"<?", b"\r", b"\0")


@dataclass(frozen=True, slots=True, eq=False)
class PlainSteps:
    """The steps of one thread block, and the number that each gives itself (`s`)."""

    steps: StepRows
    numbers: Column


def take_plain_steps(text: bytes) -> tuple[bytes, tuple[PlainSteps | None, ...]] | None:
    """A text without the plain steps in it, and for each `<tb>` in it those that were taken from it.

    A step is plain with all its ten attributes, each once, after one blank and in double quotes; with
    numbers of up to nine digits that are -1 or more, `hasdep` 0 or 1, and no closing tag. Between steps there
    are blanks and line breaks only.

    Returns None where there are too few steps, more elements than a file may have, or an unusual text.
    """
    rows = text.count(b"<step")
    if not runs_compiled(rows) or any(each in text for each in _UNUSUAL):
        return None
    if text.count(b"<") - text.count(b"</") > MAX_ELEMENTS:
        return None
    table = np.empty((_NUMBER + 1, rows), dtype=np.int32)
    blocks = np.zeros((5, text.count(b"<tb")), dtype=np.int64)
    used = _scan(
        rows,
        text=np.frombuffer(text, dtype=np.uint8),
        words=_Words(
            np.array([_packed(op.value) for op in OPS], dtype=np.int64),
            np.array([_packed(buffer.value) for buffer in BUFFERS], dtype=np.int64),
            np.array([_packed(name) for name in _NUMBERS], dtype=np.int64),
            np.array(list(_NUMBERS.values()), dtype=np.int64),
        ),
        table=table,
        blocks=blocks,
    )
    columns = StepTable(*table[:_NUMBER])
    numbers = table[_NUMBER]
    rest: list[bytes] = []
    taken: list[PlainSteps | None] = []
    place = 0
    for first, end, begin, stop, breaks in blocks[:, :used].T.tolist():
        if stop == 0:
            taken.append(None)
            continue
        taken.append(PlainSteps(StepRows(columns, first, end), numbers[first:end]))
        rest += (text[place:begin], b"\n" * breaks)
        place = stop
    rest.append(text[place:])
    return b"".join(rest), tuple(taken)


def _packed(word: str) -> int:
    """A word of up to seven letters as one number."""
    return int.from_bytes(word.encode("ascii"), "big")


_BLANK, _TAB, _BREAK, _QUOTE, _APOSTROPHE, _SLASH, _LESS, _EQUALS, _MORE = (
    ord(each) for each in " \t\n\"'/<=>"
)
_MINUS, _ZERO, _ONE, _NINE = (ord(each) for each in "-019")
_B, _E, _P, _S, _T = (ord(each) for each in "bepst")
_TYPE, _SRC, _DST = (_packed(each) for each in ("type", "srcbuf", "dstbuf"))
#: Attributes that are numbers, and their columns in the table: the first ten are those of `StepTable`.
_NUMBERS = {"srcoff": 2, "dstoff": 4, "cnt": 5, "depid": 6, "deps": 7, "hasdep": 8, "s": 10}
_HAS_DEPENDENT, _LINE, _NUMBER = 8, 9, 10
_ALL_SEEN = 0b10111111111


#: No number, and no place in a list: the step is not plain.
_NONE = -2


class _Words(NamedTuple):
    """Words as `_packed` has them: operations, buffers, and names of numbers with their columns."""

    ops: IntArray
    buffers: IntArray
    numbers: IntArray
    columns: IntArray


def _scan_steps(text: Sequence[int], words: _Words, table: Column, blocks: IntArray) -> int:
    """Fill the table with plain steps; of each <tb>: its first row, the row after its last, where in the text
    its content begins and ends (0: it stays), and its line breaks. Returns the number of <tb>.
    """
    place, line, row, block = 0, 1, 0, -1
    while place < len(text):
        if text[place] == _BREAK:
            line += 1
        if not _begins_block(text, place):
            place += 1
            continue
        block += 1
        begin, breaks_in_tag = _behind_tag(text, place + 3)
        place += 1
        if begin == 0:
            continue
        first, breaks = row, 0
        end = begin
        while end > 0:
            at, more = _behind_blanks(text, end)
            breaks += more
            end = _read_step(text, at, words, table, row)
            if end > 0:
                table[_LINE, row] = line + breaks_in_tag + breaks
                row += 1
        if _ends_block(text, at):
            blocks[0, block], blocks[1, block] = first, row
            blocks[2, block], blocks[3, block] = begin, at
            blocks[4, block] = breaks
            place, line = at, line + breaks_in_tag + breaks
        else:
            row = first
    return block + 1


def _begins_block(text: Sequence[int], at: int) -> bool:
    """Whether `<tb` and the end of a name stand here."""
    if at + 3 >= len(text) or text[at] != _LESS or text[at + 1] != _T or text[at + 2] != _B:
        return False
    after = text[at + 3]
    return after in (_BLANK, _MORE, _SLASH, _BREAK, _TAB)


def _ends_block(text: Sequence[int], at: int) -> bool:
    """Whether `</tb>` stands here."""
    if at + 4 >= len(text) or text[at] != _LESS or text[at + 1] != _SLASH:
        return False
    return text[at + 2] == _T and text[at + 3] == _B and text[at + 4] == _MORE


def _behind_tag(text: Sequence[int], at: int) -> tuple[int, int]:
    """Where an opening tag ends, and the line breaks in it; 0 where it has no content.

    Its values may hold anything but what begins a tag.
    """
    within, breaks = 0, 0
    while at < len(text) and text[at] != _LESS and (within != 0 or text[at] != _MORE):
        if text[at] == _BREAK:
            breaks += 1
        if within == 0 and (text[at] == _QUOTE or text[at] == _APOSTROPHE):
            within = text[at]
        elif text[at] == within:
            within = 0
        at += 1
    if at >= len(text) or text[at] != _MORE or text[at - 1] == _SLASH:
        return 0, 0
    return at + 1, breaks


def _behind_blanks(text: Sequence[int], at: int) -> tuple[int, int]:
    """Where blanks and line breaks end, and how many breaks there are."""
    breaks = 0
    while at < len(text) and (text[at] == _BLANK or text[at] == _BREAK):
        if text[at] == _BREAK:
            breaks += 1
        at += 1
    return at, breaks


def _read_step(text: Sequence[int], at: int, words: _Words, table: Column, row: int) -> int:
    """Put a plain step into a row. Returns where it ends; 0 where there is none."""
    if not _begins_step(text, at):
        return 0
    at, seen = at + 5, 0  # a bit for each column
    while at + 1 < len(text) and text[at] == _BLANK and text[at + 1] != _SLASH:
        name, at = _read_word(text, at + 1, _EQUALS)
        if at + 4 >= len(text) or text[at] != _EQUALS or text[at + 1] != _QUOTE:
            return 0
        column = _column_of(name, words)
        value, at = _read_value(text, at + 2, column, words)
        if column < 0 or value == _NONE or seen >> column & 1:
            return 0
        if at >= len(text) or text[at] != _QUOTE:
            return 0
        at += 1
        seen |= 1 << column
        table[column, row] = value
    if at < len(text) and text[at] == _BLANK:
        at += 1
    if seen != _ALL_SEEN or at + 1 >= len(text) or text[at] != _SLASH or text[at + 1] != _MORE:
        return 0
    return at + 2


def _begins_step(text: Sequence[int], at: int) -> bool:
    """Whether `<step` stands here."""
    if at + 5 >= len(text) or text[at] != _LESS or text[at + 1] != _S or text[at + 2] != _T:
        return False
    return text[at + 3] == _E and text[at + 4] == _P


def _column_of(name: int, words: _Words) -> int:
    """The column of an attribute; `_NONE` of any that no step has."""
    if name == _TYPE:
        return 0
    if name == _SRC:
        return 1
    if name == _DST:
        return 3
    which = _place_of(name, words.numbers)
    return words.columns[which] if which >= 0 else _NONE


def _read_value(text: Sequence[int], at: int, column: int, words: _Words) -> tuple[int, int]:
    """A value as its column has it, or `_NONE` where it is not plain; and where it ends."""
    if column == 0:
        word, at = _read_word(text, at, _QUOTE)
        return _place_of(word, words.ops), at
    if column == 1 or column == 3:
        return _place_of(text[at], words.buffers), at + 1
    value, at = _read_number(text, at)
    if column == _HAS_DEPENDENT and value != 0 and value != 1:
        value = _NONE
    return value, at


def _read_word(text: Sequence[int], at: int, stop: int) -> tuple[int, int]:
    """What stands before a letter, up to seven letters of it, as `_packed` has it; and where it ends."""
    word, letters = 0, 0
    while at < len(text) and text[at] != stop and letters < 7:
        word = word << 8 | int(text[at])
        letters += 1
        at += 1
    return word, at


def _read_number(text: Sequence[int], at: int) -> tuple[int, int]:
    """A number of up to nine digits that is -1 or more, or `_NONE`; and where it ends."""
    if text[at] == _MINUS:
        return -1 if text[at + 1] == _ONE else _NONE, at + 2
    begins, value = at, 0
    while at < len(text) and at - begins < 10 and _ZERO <= text[at] <= _NINE:
        value = value * 10 + int(text[at]) - _ZERO
        at += 1
    is_plain = 0 < at - begins < 10 and (text[begins] != _ZERO or at == begins + 1)
    return value if is_plain else _NONE, at


def _place_of(word: int, words: Sequence[int] | IntArray) -> int:
    for place in range(len(words)):
        if words[place] == word:
            return place
    return _NONE


_scan = Loop(
    _scan_steps,
    (
        *(_begins_block, _ends_block, _behind_tag, _behind_blanks),
        *(_begins_step, _read_step, _column_of, _read_value, _read_word, _read_number, _place_of),
    ),
)
