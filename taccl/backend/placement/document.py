"""Where the sums of a collective are made, and its file: JSON with a line for each chunk and each rank.

It says nothing of time but the order in which a rank hands over its chunks: servers take what comes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from taccl.errors import FileError
from taccl.support.json_text import MAX_BYTES, parse_json
from taccl.support.json_values import Fault, Values
from taccl.support.reading import bytes_of

#: The schema of the file (`taccl.json_schema`), which its first key names.
SCHEMA = "taccl.placement/1"
_HINT = "give the file that --target placement wrote"
_HEADER = ("schema", "collective", "root", "chunks_per_rank", "size_bytes", "chunks", "ranks")


@dataclass(frozen=True, slots=True)
class Handover:
    """Chunks that one rank sends to another, in the order in which it does."""

    to: int
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RankPlan:
    """What one rank does: a GPU, or a server (a helper of the machine).

    Parameters
    ----------
    name : what the machine's file calls it.
    is_server : whether it holds no data of its own.
    sums : what it sends on the way to where sums are made: its own part, or what it has added up.
    copies : what it sends of finished sums.
    """

    name: str
    is_server: bool
    sums: tuple[Handover, ...]
    copies: tuple[Handover, ...]


@dataclass(frozen=True, slots=True)
class MeetingPlaces:
    """Which chunk is summed at which rank, and what every rank hands to whom.

    Parameters
    ----------
    collective, root, chunks_per_rank : what is computed, as `taccl.make_collective` takes it.
    size_bytes : of the call that it was made for, as nccl-tests prints it.
    chunk_bytes : of each chunk in that call.
    at : of each chunk, the rank where its sum is made.
    ranks : those that hold data, then the servers.
    """

    collective: str
    root: int | None
    chunks_per_rank: int
    size_bytes: int
    chunk_bytes: tuple[int, ...]
    at: tuple[int, ...]
    ranks: tuple[RankPlan, ...]

    @property
    def num_members(self) -> int:
        """How many ranks hold data."""
        return sum(not rank.is_server for rank in self.ranks)


@dataclass(frozen=True, eq=False)
class PlacementDocument:
    """What a file says, and what in it could not be understood."""

    places: MeetingPlaces
    faults: tuple[Fault, ...]
    path: str | None = None


def placement_json(places: MeetingPlaces) -> str:
    """The text; `parse_placement` reads it back."""
    header = {
        "schema": SCHEMA,
        "collective": places.collective,
        "root": places.root,
        "chunks_per_rank": places.chunks_per_rank,
        "size_bytes": places.size_bytes,
    }
    chunks = [
        {"chunk": chunk, "bytes": size, "at": at}
        for chunk, (size, at) in enumerate(zip(places.chunk_bytes, places.at, strict=True))
    ]
    ranks = [
        {
            "rank": number,
            "name": rank.name,
            "server": rank.is_server,
            "sums": [{"to": each.to, "chunks": list(each.chunks)} for each in rank.sums],
            "copies": [{"to": each.to, "chunks": list(each.chunks)} for each in rank.copies],
        }
        for number, rank in enumerate(places.ranks)
    ]
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in header.items()]
    rows = [",\n".join(f"  {json.dumps(each)}" for each in part) for part in (chunks, ranks)]
    return "\n".join(["{", *lines, ' "chunks": [', rows[0], ' ],\n "ranks": [', rows[1], " ]\n}\n"])


def begins_as_placement(content: bytes) -> bool:
    """Whether bytes are a file of this kind: its schema is named at its beginning."""
    return SCHEMA.encode() in content[:200] and content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def read_placement(path: str | Path) -> MeetingPlaces:
    """What a file says.

    Raises
    ------
    FileError : it cannot be read, or something in it cannot be understood.
    """
    document = parse_placement(bytes_of(path, MAX_BYTES + 1), path)
    for fault in document.faults:
        raise FileError(f"{fault.place} {fault.message}", path=path, hint=fault.hint)
    return document.places


def parse_placement(text: str | bytes, path: str | Path | None = None) -> PlacementDocument:
    """A text, with all that `verify` wants to know about it.

    Raises
    ------
    FileError : it is no file of this kind at all.
    """
    where = None if path is None else str(path)
    content, _ = parse_json(text, where, FileError, _HINT)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise FileError(f"this is no JSON object of schema {SCHEMA!r}", path=where, line=1, hint=_HINT)
    reader = _Reader()
    return PlacementDocument(reader.places(content), tuple(reader.faults), where)


class _Reader(Values):
    """Value by value; holds the faults found, each with its place."""

    def places(self, top: dict[str, object]) -> MeetingPlaces:
        self.look(top, "", _HEADER)
        chunks = self.each(top, "chunks", "", self._chunk)
        ranks = self.each(top, "ranks", "", self._rank)
        for what, rows in (("chunks", chunks), ("ranks", ranks)):
            if [each[0] for each in rows] != list(range(len(rows))):
                self.fault(what, "must be numbered from 0 on, in order")
        return MeetingPlaces(
            collective=self.text(top, "collective", ""),
            root=None if top.get("root", "") is None else self.whole(top, "root", ""),
            chunks_per_rank=self.whole(top, "chunks_per_rank", ""),
            size_bytes=self.whole(top, "size_bytes", ""),
            chunk_bytes=tuple(each[1] for each in chunks),
            at=tuple(each[2] for each in chunks),
            ranks=tuple(each[1] for each in ranks),
        )

    def _chunk(self, row: dict[str, object], place: str) -> tuple[int, int, int]:
        self.look(row, place, ("chunk", "bytes", "at"))
        chunk, size, at = (self.whole(row, key, place) for key in ("chunk", "bytes", "at"))
        return chunk, size, at

    def _rank(self, row: dict[str, object], place: str) -> tuple[int, RankPlan]:
        self.look(row, place, ("rank", "name", "server", "sums", "copies"))
        handed = (self.each(row, key, place, self._handed) for key in ("sums", "copies"))
        name, is_server = self.text(row, "name", place), self.boolean(row, "server", place, None)
        return self.whole(row, "rank", place), RankPlan(name, is_server, *handed)

    def _handed(self, row: dict[str, object], place: str) -> Handover:
        self.look(row, place, ("to", "chunks"))
        return Handover(self.whole(row, "to", place), self.numbers(row, "chunks", place))
