"""The flat JSON to `ActionsProgram`: what a file says, not whether that is right.

`read_actions` raises the first thing that cannot be understood; `parse_actions_document`, for `verify`, goes
on with a guess and hands over all of them next to the program.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from taccl.backend.flat_json.document import (
    BUFFERS,
    FORMAT,
    MOST,
    VERSION,
    Action,
    ActionRank,
    ActionsProgram,
    Do,
    Span,
)
from taccl.errors import FileError
from taccl.support.json_text import MAX_BYTES, lines_of, parse_json
from taccl.support.json_values import Fault, Values, join, spelled
from taccl.support.reading import bytes_of

_HINT = "give the file that --target json wrote, or see docs/actions-json.md"
_DOS = {do.value: do for do in Do}
_HEADER = (
    *("format", "version", "name", "collective", "root", "chunks", "chunk_elements", "sums"),
    *("call_elements", "element_bytes", "min_bytes", "max_bytes", "ranks"),
)
_RANK = ("input", "output", "scratch", "actions")
#: More chunks are in no file that is read.
_MOST_CHUNKS = 2**24
#: Chunks and buffers are no more together: sums of elements fit 64 bits.
_MOST_ELEMENTS = 2**60
_ACTION = ("do", "peer", "message", "from", "to", "elements", "after")


@dataclass(frozen=True, eq=False)
class ActionsDocument:
    """A program, and what in its file could not be understood.

    Parameters
    ----------
    program : with a guess where there is a fault.
    faults : each with its place.
    text, path : of the file; None for a text that came from no file.
    """

    program: ActionsProgram
    faults: tuple[Fault, ...]
    text: str
    path: str | None = None

    def lines(self, places: Collection[str]) -> dict[str, int]:
        """The lines where these places begin, from 1."""
        return lines_of(self.text, places)

    def whole(self) -> ActionsProgram:
        """The program.

        Raises
        ------
        FileError : for the first fault.
        """
        for fault in self.faults:
            line = self.lines([fault.place]).get(fault.place)
            raise FileError(f"{fault.place} {fault.message}", path=self.path, line=line, hint=fault.hint)
        return self.program


def begins_as_actions(content: bytes) -> bool:
    """Whether bytes are a file of this kind: the format is named at its beginning."""
    return FORMAT.encode() in content[:200] and content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def read_actions(path: str | Path) -> ActionsProgram:
    """The program in a file.

    Raises
    ------
    FileError : it cannot be read, or something in it cannot be understood.
    """
    return parse_actions_document(bytes_of(path, MAX_BYTES + 1), path).whole()


def parse_actions_document(text: str | bytes, path: str | Path | None = None) -> ActionsDocument:
    """A text, with all that `verify` wants to know about it.

    Raises
    ------
    FileError : it is no file of this kind at all.
    """
    where = None if path is None else str(path)
    content, decoded = parse_json(text, where, FileError, _HINT)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FileError(f"this is no JSON object of format {FORMAT!r}", path=where, line=1, hint=_HINT)
    if content.get("version") != VERSION:
        found = spelled(content.get("version"))
        raise FileError(f"version {found} of {FORMAT} is not {VERSION}", path=where, line=1, hint=_HINT)
    reader = _Reader()
    program = reader.program(content)
    return ActionsDocument(program, tuple(reader.faults), decoded, where)


class _Reader(Values):
    """Value by value to the program; holds the faults found, each with its place."""

    def program(self, top: dict[str, object]) -> ActionsProgram:
        self._expect(top, "", _HEADER)
        chunks = self._at_least(top, "chunks", "", 1)
        sizes, sums = (
            self._of_chunks(top, key, chunks, kind) for key, kind in (("chunk_elements", int), ("sums", bool))
        )
        for number, size in enumerate(sizes):
            if not 1 <= size <= MOST:
                self.fault(f"chunk_elements[{number}]", f"must be from 1 to {MOST}, not {size}")
        elements = tuple(min(max(1, int(size)), MOST) for size in sizes)
        ranks = self.each(top, "ranks", "", partial(self._rank, chunks))
        self._check_total(elements, ranks)
        return ActionsProgram(
            name=self.text(top, "name", ""),
            collective=self.text(top, "collective", ""),
            root=None if top.get("root") is None else self._natural(top, "root", ""),
            chunk_elements=elements,
            sums=tuple(map(bool, sums)),
            call_elements=self._at_least(top, "call_elements", "", 1),
            element_bytes=self._at_least(top, "element_bytes", "", 1),
            min_bytes=self._natural(top, "min_bytes", ""),
            max_bytes=self._natural(top, "max_bytes", ""),
            ranks=ranks,
        )

    def _check_total(self, elements: tuple[int, ...], ranks: tuple[ActionRank, ...]) -> None:
        """All chunks and all buffers together are few enough to be counted; faults of chunks come first."""
        if self.faults:
            return
        sizes = (*elements, 1)  # the last is the room that -1 is
        held = sum(sizes[chunk] for rank in ranks for buffer in (rank.input, rank.output) for chunk in buffer)
        total = sum(elements) + held + sum(rank.scratch for rank in ranks)
        if total > _MOST_ELEMENTS:
            hint = "fewer elements, of more bytes each"
            message = f"is too large: chunks and buffers have {total} elements, more than {_MOST_ELEMENTS}"
            self.fault("chunk_elements", message, hint)

    def _of_chunks(self, top: dict[str, object], key: str, chunks: int, kind: type[int]) -> list[int]:
        """A value of each chunk: a list, or the one that all have."""
        value = top.get(key)
        values = value if isinstance(value, list) else [value] * min(chunks, _MOST_CHUNKS)
        read = [item for item in values if isinstance(item, kind) and type(item) is kind]
        if len(read) == len(values) == chunks:
            return read
        what = "whole numbers" if kind is int else "true or false"
        self.fault(key, f"must be one of, or a list of {chunks}, {what}")
        return [kind(1)]

    def _rank(self, chunks: int, row: dict[str, object], place: str) -> ActionRank:
        self._expect(row, place, _RANK)
        return ActionRank(
            input=self._held(row, "input", place, chunks),
            output=self._held(row, "output", place, chunks),
            scratch=self._natural(row, "scratch", place),
            actions=self.each(row, "actions", place, self._action),
        )

    def _held(self, row: dict[str, object], key: str, place: str, chunks: int) -> tuple[int, ...]:
        held = self.numbers(row, key, place)
        for number, chunk in enumerate(held):
            if not -1 <= chunk < chunks:
                self.fault(f"{join(place, key)}[{number}]", f"is no chunk from 0 to {chunks - 1}, or -1")
        return held

    def _action(self, row: dict[str, object], place: str) -> Action:
        do = self.choice(row, "do", place, _DOS) or Do.COPY
        needed = {"do", "elements", "after"}
        needed |= {"peer", "message"} if do.travels else set()
        needed |= ({"from"} if do.reads else set()) | ({"to"} if do.writes else set())
        self._expect(row, place, needed)
        return Action(
            do,
            elements=self._at_least(row, "elements", place, 1),
            source=self._span(row, "from", place) if do.reads else None,
            target=self._span(row, "to", place) if do.writes else None,
            peer=self._natural(row, "peer", place) if do.travels else -1,
            message=self._natural(row, "message", place) if do.travels else -1,
            after=self.numbers(row, "after", place),
        )

    def _span(self, row: dict[str, object], key: str, place: str) -> Span:
        where, value = join(place, key), row.get(key)
        if not isinstance(value, list) or len(value) != 2:
            if key in row:
                self.fault(where, f'must be ["input", 0] or the like, not {spelled(value)}')
            return Span(BUFFERS["input"], 0)
        buffer = self.chosen(value[0], f"{where}[0]", BUFFERS) or BUFFERS["input"]
        offset = self.as_whole(value[1], f"{where}[1]")
        if not 0 <= offset <= MOST:
            self.fault(f"{where}[1]", f"must be from 0 to {MOST}, not {offset}")
        return Span(buffer, min(max(offset, 0), MOST))

    def _expect(self, row: dict[str, object], place: str, keys: Collection[str]) -> None:
        """Note keys that are missing, that nobody reads, and that are there twice."""
        before = len(self.ignored)
        self.look(row, place, keys)
        for ignored in self.ignored[before:]:
            self.fault(join(place, ignored.key), "is no key of this object", "remove it")
        for key in keys:
            if key not in row:
                self.wrong(row, key, place, "see docs/actions-json.md")

    def _natural(self, row: dict[str, object], key: str, place: str) -> int:
        return self._at_least(row, key, place, 0)

    def _at_least(self, row: dict[str, object], key: str, place: str, least: int) -> int:
        value = self.whole(row, key, place, default=least)
        if not least <= value <= MOST:
            self.fault(join(place, key), f"must be from {least} to {MOST}, not {value}")
        return min(max(value, least), MOST)
