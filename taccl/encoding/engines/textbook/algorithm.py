"""A textbook algorithm for one problem, before it is built."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.engines.textbook.grid import GridAlgorithm
from taccl.encoding.engines.textbook.parts import Cut, Parts
from taccl.encoding.engines.textbook.sends import Sends, together
from taccl.model.collective import IntArray

#: From where units begin a number that is the same for those that travel together all the way.
Together = Callable[[IntArray], IntArray]
#: From where some units begin and where they are wanted, what they do; they are numbered as they stand there.
Way = Callable[[IntArray, IntArray], Sends]

#: In the name of an AllReduce that is an AllGather backwards, and then forwards.
THERE_AND_BACK = "there and back, "


@dataclass(frozen=True, eq=False)
class Algorithm:
    """What is known of an algorithm before it is built.

    Parameters
    ----------
    name : for messages and tests.
    rows : about how many transfers of one part it makes.
    moves : about how many sends it makes of each batch, whatever the parts are.
    crossing : how many of these are between nodes, where it is on no grids; None: all may be.
    crossers : how many ranks of each node make those; None: all.
    shares : into this many units a way is given each part, of each batch, if there are as many pieces.
    labels : how many of its parts travel apart from all others; None: all.
    is_explicit : whether sums are made at several ranks, so that sends say what they carry.
    of_libraries : whether NCCL, RCCL or an MPI run it; no grids and pipelines of our own.
    """

    name: str
    rows: int
    moves: int
    crossing: int | None = None
    crossers: int | None = None
    shares: int = 1
    labels: int | None = None
    is_explicit: bool = False
    of_libraries: bool = True

    @property
    def plans(self) -> tuple[GridAlgorithm, ...]:
        """The grids that it is on, with what happens along their axes; empty: on none."""
        return ()

    @abstractmethod
    def numbers_of_batches(self, parts: Parts) -> Iterator[int]:
        """Into how many batches the pieces can be split, ascending."""

    def written_for(self, batches: int) -> int:
        """How many batches have to be written down to tell how long this many take."""
        return batches

    @abstractmethod
    def built(self, parts: Parts, batches: int) -> tuple[Cut, Sends]:
        """What is sent if each part is cut into batches."""


@dataclass(frozen=True, eq=False, kw_only=True)
class InVariants(Algorithm):
    """One that deals the pieces of each part to its variants, in equal batches a step behind each other.

    Parameters
    ----------
    routes : one way for each variant; each part's pieces are dealt to the variants in turn.
    first : shape (num_ranks,); the variant that the first piece of each rank's part goes to.
    deals_by_end : whether a rank's parts for others are dealt by where they end, too: then each of its links
        has about as much to do in every variant. Else all go one way, which takes fewer sends.
    plans : as `Algorithm` has them.
    unit_labels : for each route, labels of units: those with the same travel together; None: only those with
        the same ends.
    is_combined : whether what several variants send over a link in one step is one send.
    """

    routes: tuple[Way, ...]
    first: IntArray
    deals_by_end: bool = False
    plans: tuple[GridAlgorithm, ...] = ()
    unit_labels: tuple[Together, ...] | None = None
    is_combined: bool = False

    def numbers_of_batches(self, parts: Parts) -> Iterator[int]:
        """1, 2, 4, ... and as many as the pieces can be split into that a variant has of a part.

        None where shares are requested of a part that is one piece.
        """
        if parts.most_pieces < min(2, self.shares):
            return
        batches, most = 1, -(-parts.most_pieces // (len(self.routes) * self.shares))
        while batches < most:
            yield batches
            batches *= 2
        yield most

    def written_for(self, batches: int) -> int:
        """One: they are equal."""
        return 1

    def built(self, parts: Parts, batches: int) -> tuple[Cut, Sends]:
        """What is sent if each part is cut into batches; each follows a step behind the one before."""
        variants, shares = len(self.routes), min(self.shares, parts.most_pieces)
        cut = parts.cut(self.first % variants, variants, batches * shares, self.deals_by_end)
        if self.unit_labels is not None:
            labels = np.stack([label(cut.begin) for label in self.unit_labels])
            cut = cut.merged(labels[cut.variant, np.arange(len(cut.begin))])
        streams = dict[int, list[Sends]]()
        for batch, variant, units in cut.streams(shares):
            made = self.routes[variant](cut.begin[units], cut.end[units])
            streams.setdefault(batch, []).append(made.of_units(units).later(batch))
        some = [together(each) for each in streams.values()]
        return cut, together([each.combined() for each in some] if self.is_combined else some)
