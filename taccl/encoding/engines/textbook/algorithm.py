"""A textbook algorithm for one problem, before it is built."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from taccl.encoding.engines.textbook.parts import Cut, Parts
from taccl.encoding.engines.textbook.sends import Sends, together
from taccl.model.collective import IntArray

#: What some units of a cut do.
Way = Callable[[Cut, IntArray], Sends]


@dataclass(frozen=True, eq=False)
class Algorithm:
    """What is known of an algorithm before it is built.

    Parameters
    ----------
    name : for messages and tests.
    rows : about how many transfers of one part it makes.
    routes : one way for each variant; each part's pieces are dealt to the variants in turn.
    first : shape (num_ranks,); the variant that the first piece of each rank's part goes to.
    moves : about how many sends it makes of each batch, whatever the parts are.
    shares : into this many units a way is given each part, of each batch.
    is_explicit : whether sums are made at several ranks, so that sends say what they carry.
    """

    name: str
    rows: int
    routes: tuple[Way, ...]
    first: IntArray
    moves: int
    shares: int = 1
    is_explicit: bool = False

    def numbers_of_batches(self, parts: Parts) -> Iterator[int]:
        """1, 2, 4, ... and as many as the pieces can be split into that a variant has of a part."""
        batches, most = 1, -(-parts.most_pieces // (len(self.routes) * self.shares))
        while batches < most:
            yield batches
            batches *= 2
        yield most

    def built(self, parts: Parts, batches: int) -> tuple[Cut, Sends]:
        """What is sent if each part is cut into batches; each follows a step behind the one before."""
        variants = len(self.routes)
        cut = parts.cut(self.first % variants, variants, batches * self.shares)
        streams = [
            self.routes[variant](cut, units).later(batch)
            for batch, variant, units in cut.streams(self.shares)
        ]
        return cut, together(streams)
