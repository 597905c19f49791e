"""The linear program of `moments`: rows for one horizon, with variables for what looks equivalence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from taccl.encoding.bounds.cells import STRETCH, CellProgram, Term, begins, times_of
from taccl.encoding.bounds.colours import first_of_each
from taccl.encoding.bounds.equivalence import Equivalence, Turns
from taccl.encoding.bounds.tuning import MOMENTS_EACH, MOMENTS_PARTS, MOMENTS_WINDOWS
from taccl.encoding.bounds.views import View
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray


@dataclass(frozen=True, eq=False)
class _Sends:
    """Variables of sends over a link of a class, in groups of `least` to `most` chunks.

    Parameters
    ----------
    begun : shape (cells,); the columns: how much has begun in the cells up to each; -1: nothing can have.
    last : no later cell can be that in which one begins.
    least, most : how many chunks a group has.
    link : a link of the class.
    """

    begun: IntArray
    last: int
    least: int
    most: int
    link: int


class Program(CellProgram):
    """How much of all that is wanted can have come by a horizon, at most.

    Parameters
    ----------
    view : of copies.
    equivalence : its classes.
    horizon_us, cell_us : until when, and how long a cell is.
    """

    def __init__(self, view: View, equivalence: Equivalence, horizon_us: float, cell_us: float) -> None:
        super().__init__(horizon_us, cell_us)
        self.view, self.equivalence = view, equivalence
        self._problem, self._topology = view.problem, view.problem.topology
        self._classes = equivalence.classes
        self._of_link = first_of_each(self._classes.links)
        self._of_passage = first_of_each(self._classes.passages)
        self._on = np.bincount(equivalence.link, minlength=self._topology.num_links)
        self._share = int(self.model.add_variables(1, 0.0, 1.0, cost=-1.0)[0])
        self._groups = {
            each: list(self._sends(link, float(self._on[link]), 0.0))
            for each, link in enumerate(self._of_link)
        }
        self._chunks = {each: self._chunk_sends(passage) for each, passage in enumerate(self._of_passage)}
        self._there: dict[int, IntArray] = {}
        for row in (self._arrive, self._leave, self._take_turns, self._are_grouped, self._pass_ports):
            row()

    # --- what there is

    def takes_us(self, link: int, many: int) -> float:
        """How long a group takes."""
        beta = self._topology.beta_us_per_mb[link]
        return float(self._topology.alpha_us[link] + many * self._problem.chunk_mb * beta) * (1 + STRETCH)

    def busy_us(self, pair: int, many: int) -> tuple[float, float]:
        """How long it keeps a port busy, and how long after its start that begins."""
        link = self._topology.incidence[0][pair]
        alpha = self._topology.alpha_us[link] if self._topology.occupancy == "serial" else 0.0
        busy = float(alpha + many * self._problem.chunk_mb * self._topology.pair_betas[pair]) * (1 + STRETCH)
        return busy, max(0.0, self.takes_us(link, many) - busy) if self.view.backwards else 0.0

    def _sends(self, link: int, most: float, head_us: float) -> Iterator[_Sends]:
        """Variables for sends over a link from a moment on, up to `most` for each size of groups."""
        if not self._on[link]:
            return
        sizes = group_sizes(min(int(self._on[link]), self._problem.max_group))
        first = math.floor(head_us * (1 + STRETCH) / self.cell_us)
        for least, following in zip(sizes, [*sizes[1:], math.inf], strict=True):
            last = math.floor((self.horizon_us - self.takes_us(link, least)) / self.cell_us)
            last = min(self.cells - 1, last)
            if last < first:
                continue
            begun = self.begun(first, last, most)
            largest = min(int(self._on[link]), self._problem.max_group, int(min(following - 1, 2**31)))
            yield _Sends(begun, last, least, largest, link)

    def _chunk_sends(self, passage: int) -> list[_Sends]:
        chunk = self.equivalence.chunk[passage]
        far = self.view.instance.distances_us[self.equivalence.starts[chunk]]
        head_us = float(far[:, self.equivalence.sender[passage]].min(initial=np.inf))
        if not math.isfinite(head_us):
            return []
        return list(self._sends(int(self.equivalence.link[passage]), 1.0, head_us))

    def _of_class(self, passages: IntArray) -> Iterator[tuple[_Sends, int]]:
        """The variables of some passages, and how many of these have each."""
        classes, many = np.unique(self._classes.passages[passages], return_counts=True)
        for each, times in zip(classes.tolist(), many.tolist(), strict=True):
            for sends in self._chunks[each]:
                yield sends, times

    def _place(self, passage: int) -> IntArray | None:
        """Whether the chunk of a passage has come to the sender by each cell; None: it starts there."""
        place = int(self._classes.places[self.equivalence.chunk[passage], self.equivalence.sender[passage]])
        return self._there.get(place)

    # --- the rows

    def _arrive(self) -> None:
        """A chunk comes to a rank once, no sooner than it was sent, and than it came into the node."""
        equivalence, cross = self.equivalence, self.equivalence.crossings
        places = self._classes.places
        key = equivalence.chunk * places.shape[1] + equivalence.receiver
        crossing = equivalence.chunk[cross.passage] * places.shape[1] + cross.rank
        for each, place in enumerate(first_of_each(places.ravel())):
            if equivalence.starts.flat[place]:
                continue
            there = self._there[each] = self.model.add_variables(self.cells, 0.0, 1.0)
            coming = list(self._of_class(np.flatnonzero(key == place)))
            self.row([(there, 1.0, 0), *self._arrivals(coming, 0.0)], upper=0.0)
            ends: list[Term] = [(sends.begun[-1:], float(many), 0) for sends, many in coming]
            self.row(ends, upper=1.0)
            if equivalence.wanted.flat[place]:
                self.row([*ends, (np.array([self._share]), -1.0, 0)], lower=0.0)
            chosen = np.flatnonzero(crossing == place)
            terms: list[Term] = [(there, 1.0, 0)]
            for further_us in np.unique(cross.further_us[chosen]).tolist():
                through = cross.passage[chosen[cross.further_us[chosen] == further_us]]
                terms += self._arrivals(self._of_class(through), further_us)
            if len(chosen):
                self.row(terms, upper=0.0)

    def _arrivals(
        self, sends: Iterator[tuple[_Sends, int]] | list[tuple[_Sends, int]], further_us: float
    ) -> list[Term]:
        found: list[Term] = []
        for each, many in sends:
            later_us = self.takes_us(each.link, each.least) + further_us * (1 + STRETCH)
            later = math.floor(later_us / self.cell_us) if later_us < self.horizon_us else self.cells
            if later < self.cells:
                found.append((each.begun, -float(many), later))
        return found

    def _leave(self) -> None:
        """A chunk passes a link once, after it has come to the sender."""
        for each, passage in enumerate(self._of_passage):
            sent: list[Term] = [(sends.begun, 1.0, 0) for sends in self._chunks[each]]
            there = self._place(passage)
            if sent and there is not None:
                self.row([*sent, (there, -1.0, 0)], upper=0.0)
            else:
                self.row([(variables[-1:], one, 0) for variables, one, _ in sent], upper=1.0)

    def _take_turns(self) -> None:
        """In a short time a chunk leaves a rank through a port only so often, and not before it is there."""
        turns: Turns = self.equivalence.turns
        for turn in first_of_each(self._classes.turns).tolist():
            rows = np.flatnonzero(turns.turn == turn)
            there = self._place(int(turns.passage[rows[0]]))
            if there is None:
                continue
            used = [
                (sends, *self.busy_us(pair, sends.least))
                for passage, pair in zip(turns.passage[rows].tolist(), turns.pair[rows].tolist(), strict=True)
                for sends in self._chunks[self._classes.passages[passage]]
            ]
            shortest_us = min((busy_us for _, busy_us, _ in used), default=0.0)
            if shortest_us <= 0:
                continue
            width = min(self.cells, max(1, math.floor(shortest_us / self.cell_us)))
            often = max(1, math.ceil(width * self.cell_us / shortest_us))
            soonest_us = min(after_us for _, _, after_us in used)
            terms: list[Term] = [(there, -float(often), 0)]
            for sends, _, after_us in used:
                later = (after_us - soonest_us) / self.cell_us
                if width + math.floor(later) > math.ceil(later):
                    terms.append((sends.begun, 1.0, math.ceil(later)))
                    terms.append((sends.begun, -1.0, width + math.floor(later)))
            self.row([term for term in terms if term[2] < self.cells], upper=0.0)

    def _are_grouped(self) -> None:
        """Each chunk is sent in a group, which has this many chunks."""
        for each, groups in self._groups.items():
            passages = np.flatnonzero(self.equivalence.link == self._of_link[each])
            for group in groups:
                held: list[Term] = []
                for sends, many in self._of_class(passages):
                    if sends.least != group.least:
                        continue
                    begin = begins(sends.begun)
                    held += times_of(begin, many)
                    self.row([*begin, *times_of(begins(group.begun), -1.0)], upper=0.0)
                self.row([*held, *times_of(begins(group.begun), -float(group.least))], lower=0.0)
                self.row([*held, *times_of(begins(group.begun), -float(group.most))], upper=0.0)

    def _pass_ports(self) -> None:
        """A port is busy for no longer than there is time, from any cell to the end, and in windows."""
        link, port = self._topology.incidence
        for each in first_of_each(self._classes.ports).tolist():
            pairs = np.flatnonzero((port == each) & (self._on[link] > 0))
            if not len(pairs):
                continue
            equivalence = np.stack([self._classes.links[link[pairs]], self._topology.pair_betas[pairs]])
            _, chosen, many = np.unique(equivalence, axis=1, return_index=True, return_counts=True)
            self._until_the_end(pairs[chosen], many)
            self._in_windows(pairs[chosen], many)

    def _until_the_end(self, pairs: IntArray, many: IntArray) -> None:
        """What keeps a port busy from cell i on, for all i."""
        loads: list[Term] = []
        rest_us = np.inf
        for pair, times in zip(pairs.tolist(), many.tolist(), strict=True):
            link = int(self._topology.incidence[0][pair])
            chunk_us = self.busy_us(pair, 1)[0] - self.busy_us(pair, 0)[0]
            passages = np.flatnonzero(self.equivalence.link == link)
            sent = [(sends, chunk_us * often) for sends, often in self._of_class(passages)]
            groups = [
                (group, self.busy_us(pair, 0)[0]) for group in self._groups[int(self._classes.links[link])]
            ]
            rest_us = min(rest_us, self.takes_us(link, 1) - self.busy_us(pair, 1)[0])
            for sends, busy_us in [*sent, *groups]:
                after = math.floor(self.busy_us(pair, sends.least)[1] / self.cell_us)
                before = np.concatenate([np.full(1 + after, -1), sends.begun])[: self.cells]
                busy_cells = busy_us * times / self.cell_us
                loads.append((np.full(self.cells, sends.begun[-1]), busy_cells, 0))
                loads.append((before, -busy_cells, 0))
        rest_us = 0.0 if self.view.backwards else max(0.0, rest_us)
        time_us = self.horizon_us - self.cell_us * np.arange(self.cells) - rest_us
        self.row_of(loads, np.maximum(time_us, 0.0) / self.cell_us)

    def _in_windows(self, pairs: IntArray, many: IntArray) -> None:
        """What of each group is certain to lie in a window, wherever in its cell it begins."""
        lengths = [length for length in MOMENTS_WINDOWS if length <= self.cells]
        begin = np.concatenate([np.arange(self.cells - length + 1) for length in lengths])
        length = np.repeat(lengths, [self.cells - each + 1 for each in lengths])
        begin_us, end_us = begin * self.cell_us, np.minimum((begin + length) * self.cell_us, self.horizon_us)
        rows: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        columns: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        values: list[FloatArray] = [np.zeros(0)]
        for pair, times in zip(pairs.tolist(), many.tolist(), strict=True):
            link = int(self._topology.incidence[0][pair])
            for group in self._groups[int(self._classes.links[link])]:
                busy_us, after_us = self.busy_us(pair, group.least)
                at_us = np.arange(self.cells + 2) * self.cell_us + after_us
                ends = np.minimum(at_us + busy_us, end_us[:, None]) - np.maximum(at_us, begin_us[:, None])
                inside = np.minimum(ends[:, :-1], ends[:, 1:]).clip(0.0)
                inside[:, group.last + 1 :] = 0.0
                step = inside[:, :-1] - inside[:, 1:]
                row, cell = np.nonzero((step != 0) & (group.begun >= 0))
                rows.append(row)
                columns.append(group.begun[cell])
                values.append(step[row, cell] * times / self.cell_us)
        self.model.add_rows(
            len(begin),
            *(np.concatenate(rows), np.concatenate(columns), np.concatenate(values)),
            upper=(end_us - begin_us) / self.cell_us,
        )


def group_sizes(most: int) -> list[int]:
    """The least sizes of the classes of groups: each up to some, and then in steps of a part of them."""
    sizes = list(range(1, min(most, MOMENTS_EACH) + 1))
    while sizes[-1] + max(1, sizes[-1] // MOMENTS_PARTS) <= most:
        sizes.append(sizes[-1] + max(1, sizes[-1] // MOMENTS_PARTS))
    return sizes
