"""The steps of a long file that are written as synthesizers write them, taken out of it as columns.

It knows how plain steps are spelled, and nothing of other elements or of what is wrong with a file. Their
line breaks stay behind, so whatever is left is read as if nothing had been taken: a thread block with
anything but plain steps in it stays whole, and so does a file with anything in it (comments, document types,
other line breaks) that could make a tag be no tag or stand on another line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taccl.backend.step_rows import BUFFERS, OPS, Column, StepRows, StepTable
from taccl.collective import IntArray
from taccl.compiled import Loop, runs_compiled
from taccl.xml_elements import MAX_ELEMENTS

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
        op_words=np.array([_packed(op.value) for op in OPS], dtype=np.int64),
        buffer_words=np.array([_packed(buffer.value) for buffer in BUFFERS], dtype=np.int64),
        number_words=np.array([_packed(name) for name in _NUMBERS], dtype=np.int64),
        number_columns=np.array(list(_NUMBERS.values()), dtype=np.int64),
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


def _scan_steps(
    text: Sequence[int],
    op_words: Sequence[int],
    buffer_words: Sequence[int],
    number_words: Sequence[int],
    number_columns: Sequence[int],
    table: Column,
    blocks: IntArray,
) -> int:
    """Fill the table with plain steps; of each <tb>: its first row, the row after its last, where in the text
    its content begins and ends (0: it stays), and its line breaks. Returns the number of <tb>.
    """
    length = len(text)
    place, line, row, block = 0, 1, 0, 0
    while place < length:
        letter = text[place]
        place += 1
        if letter == _BREAK:
            line += 1
        if letter != _LESS or place + 2 >= length or text[place] != _T or text[place + 1] != _B:
            continue
        after = text[place + 2]
        if after not in (_BLANK, _MORE, _SLASH, _BREAK, _TAB):
            continue
        # The opening tag, whose values may hold anything but what begins a tag.
        at, within, this_line = place + 2, 0, line
        while at < length and text[at] != _LESS and (within != 0 or text[at] != _MORE):
            if text[at] == _BREAK:
                this_line += 1
            if within == 0 and (text[at] == _QUOTE or text[at] == _APOSTROPHE):
                within = text[at]
            elif text[at] == within:
                within = 0
            at += 1
        block += 1
        if at >= length or text[at] != _MORE or text[at - 1] == _SLASH:
            continue
        begin, first, line_before = at + 1, row, this_line
        at += 1
        while True:
            while at < length and (text[at] == _BLANK or text[at] == _BREAK):
                if text[at] == _BREAK:
                    this_line += 1
                at += 1
            # One step; `at` moves behind it, and `seen` has a bit for each column that it filled.
            if at + 5 >= length or text[at] != _LESS or text[at + 1] != _S or text[at + 2] != _T:
                break
            if text[at + 3] != _E or text[at + 4] != _P:
                break
            here, seen, is_plain = at + 5, 0, True
            while is_plain and here + 1 < length and text[here] == _BLANK and text[here + 1] != _SLASH:
                here += 1
                name, letters, column, value = 0, 0, -1, -1
                while here < length and text[here] != _EQUALS and letters < 7:
                    name = name << 8 | int(text[here])
                    letters += 1
                    here += 1
                is_plain = here + 4 < length and text[here] == _EQUALS and text[here + 1] == _QUOTE
                here += 2
                if not is_plain:
                    continue
                if name == _TYPE:
                    column, word, letters = 0, 0, 0
                    while here < length and text[here] != _QUOTE and letters < 7:
                        word = word << 8 | int(text[here])
                        letters += 1
                        here += 1
                    for code in range(len(op_words)):
                        if op_words[code] == word:
                            value = code
                    is_plain = value >= 0
                elif name in (_SRC, _DST):
                    column = 1 if name == _SRC else 3
                    for code in range(len(buffer_words)):
                        if buffer_words[code] == text[here]:
                            value = code
                    is_plain = value >= 0
                    here += 1
                else:
                    for code in range(len(number_words)):
                        if number_words[code] == name:
                            column = number_columns[code]
                    if text[here] == _MINUS:
                        is_plain = text[here + 1] == _ONE
                        here += 2
                    else:
                        begins, value = here, 0
                        while here < length and here - begins < 10 and _ZERO <= text[here] <= _NINE:
                            value = value * 10 + int(text[here]) - _ZERO
                            here += 1
                        is_plain = 0 < here - begins < 10 and (text[begins] != _ZERO or here == begins + 1)
                    if column < 0 or (column == _HAS_DEPENDENT and value != 0 and value != 1):
                        is_plain = False
                if not is_plain or here >= length or text[here] != _QUOTE or seen >> column & 1:
                    is_plain = False
                    continue
                here += 1
                seen |= 1 << column
                table[column, row] = value
            if here < length and text[here] == _BLANK:
                here += 1
            if (
                not is_plain
                or seen != _ALL_SEEN
                or here + 1 >= length
                or text[here] != _SLASH
                or text[here + 1] != _MORE
            ):
                break
            table[_LINE, row] = this_line
            row += 1
            at = here + 2
        ends = at + 4 < length and text[at] == _LESS and text[at + 1] == _SLASH
        if ends and text[at + 2] == _T and text[at + 3] == _B and text[at + 4] == _MORE:
            blocks[0, block - 1], blocks[1, block - 1] = first, row
            blocks[2, block - 1], blocks[3, block - 1] = begin, at
            blocks[4, block - 1] = this_line - line_before
            place, line = at, this_line
        else:
            row = first
    return block


_scan = Loop(_scan_steps)
