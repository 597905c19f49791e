"""What a process does that knows sends, receives and sums of arrays, and nothing of thread blocks.

In a *round* every rank posts all of its sends and receives at once and waits until all are done; then it
adds and copies what it has. A message stands in the round once, for both of its ends, and messages from one
rank to another are posted by both in the order in which they stand here. So nobody waits for what nobody
sends: whoever ends a round has posted all that the others need to end it, which also holds where a send waits
for its receive (rendezvous).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from taccl.backend.program import Buffer


@dataclass(frozen=True, slots=True)
class Place:
    """Chunks of a buffer of one rank, from the one at `offset` on."""

    buffer: Buffer
    offset: int

    def __str__(self) -> str:
        return f"{self.buffer.value}[{self.offset}]"


@dataclass(frozen=True, slots=True)
class Message:
    """`count` chunks, from a place at rank `source` to a place at rank `target`."""

    source: int
    target: int
    read: Place
    written: Place
    count: int


@dataclass(frozen=True, slots=True)
class Local:
    """`count` chunks at `rank` become the sum of what lies at some places there; of one place, its copy."""

    rank: int
    sources: tuple[Place, ...]
    target: Place
    count: int


@dataclass(frozen=True, slots=True)
class Round:
    """Messages, all at once; then, one after the other at each rank, sums and copies."""

    messages: tuple[Message, ...]
    after: tuple[Local, ...]

    @property
    def most_operations(self) -> int:
        """Sends and receives of the rank that has most."""
        return max(self.operations().values(), default=0)

    def operations(self) -> dict[int, int]:
        """Sends and receives, by rank."""
        number: dict[int, int] = {}
        for message in self.messages:
            for rank in (message.source, message.target):
                number[rank] = number.get(rank, 0) + 1
        return number


@dataclass(frozen=True, eq=False)
class Rounds:
    """A collective in rounds.

    Parameters
    ----------
    collective, num_ranks : as the file says. root : of a rooted collective, else None.
    chunks : equal parts of what nccl-tests calls the size of a call, of gather and scatter of a rank's part.
    in_place : how it is called; in place, input and output are one memory, and `in_place_shift[r]` says that
        chunk k of rank r's input is chunk k + shift of its output.
    sizes : of each rank the chunks of input, output and scratch.
    before : sums and copies before the first round.
    rounds : in order.
    chain : ranks that some data passes one after the other, each of which has to wait for it: no fewer
        rounds than it has hops carry out these transfers.
    """

    collective: str
    num_ranks: int
    root: int | None
    chunks: int
    in_place: bool
    in_place_shift: tuple[int, ...]
    sizes: tuple[tuple[int, int, int], ...]
    before: tuple[Local, ...]
    rounds: tuple[Round, ...]
    chain: tuple[int, ...]

    @property
    def fewest(self) -> int:
        """No fewer rounds carry out these transfers."""
        return max(0, len(self.chain) - 1)

    def locals(self) -> Iterator[Local]:
        """All sums and copies, in order."""
        yield from self.before
        for each in self.rounds:
            yield from each.after

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain lists: a message is [source, target, read, written, count]."""
        return {
            "collective": self.collective,
            "num_ranks": self.num_ranks,
            "root": self.root,
            "chunks": self.chunks,
            "in_place": self.in_place,
            "buffers": [list(size) for size in self.sizes],
            "before": [_local(each) for each in self.before],
            "rounds": [
                {
                    "messages": [
                        [m.source, m.target, str(m.read), str(m.written), m.count] for m in each.messages
                    ],
                    "after": [_local(local) for local in each.after],
                }
                for each in self.rounds
            ],
            "chain": list(self.chain),
        }


def _local(local: Local) -> list[Any]:
    return [local.rank, [str(place) for place in local.sources], str(local.target), local.count]
