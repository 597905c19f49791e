"""The linear program of `timed-flow`: rows for one horizon, with variables for orbits of links."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from taccl.encoding.bounds.cells import STRETCH, CellProgram, Term, begins, times_of
from taccl.encoding.bounds.direct import sizeless
from taccl.encoding.bounds.timed_flow_layout import Commodity, Layout, Way
from taccl.encoding.bounds.tuning import TIMED_FLOW_SIZES, TIMED_FLOW_SMALLEST, TIMED_FLOW_WINDOWS
from taccl.encoding.bounds.views import View
from taccl.model.collective import IntArray


@dataclass(frozen=True, eq=False)
class _Sends:
    """Variables of sends over an orbit of links, each of `least_mb` to `most_mb`."""

    begun: IntArray
    last: int
    least_mb: float
    most_mb: float
    link: int


class Program(CellProgram):
    """How much of all that is wanted can have come by a horizon, at most.

    Parameters
    ----------
    view : with equal chunks, all there at once.
    layout : of the view.
    horizon_us, cell_us : until when, and how long a cell is.
    """

    def __init__(self, view: View, layout: Layout, horizon_us: float, cell_us: float) -> None:
        super().__init__(horizon_us, cell_us)
        self._view, self._topology = view, view.problem.topology
        self._is_serial = self._topology.is_serial
        self._far_us = view.instance.once(sizeless).distances_us
        self._share = self.model.add_variables(1, 0.0, 1.0, cost=-1.0)
        self._sent = [dict(self._sends(each)) for each in layout.commodities]
        self._pass_ports(layout)
        for commodity, sent in zip(layout.commodities, self._sent, strict=True):
            self._suffice(commodity, sent)
            for way in commodity.ways:
                self._flow(commodity, sent, way)

    # --- what there is

    def _takes_us(self, link: int, size_mb: float) -> float:
        topology = self._topology
        takes = topology.alpha_us[link] + size_mb * topology.beta_us_per_mb[link]
        return float(takes) * (1 + STRETCH)

    def _busy_us(self, pair: int, size_mb: float) -> float:
        topology = self._topology
        alpha = topology.alpha_us[topology.incidence[0][pair]] if self._is_serial else 0.0
        return float(alpha + size_mb * topology.pair_betas[pair]) * (1 + STRETCH)

    def _sizes(self, link: int, all_mb: float) -> list[tuple[float, float]]:
        """From what on and up to what sends are looked at as one class, MB."""
        if not self._is_serial:
            return [(0.0, 0.0)]
        smallest_mb = self._topology.alpha_us[link] / self._topology.beta_us_per_mb[link]
        smallest_mb = min(TIMED_FLOW_SMALLEST * float(smallest_mb), all_mb)
        most = np.geomspace(smallest_mb, all_mb, TIMED_FLOW_SIZES).tolist() if smallest_mb else [all_mb]
        return [(least, largest) for least, largest in pairwise([0.0, *most]) if least < largest]

    def _sends(self, commodity: Commodity) -> Iterator[tuple[int, list[_Sends]]]:
        all_mb = self._view.problem.chunk_mb * self._view.problem.num_chunks
        sources = np.unique([way.source for way in commodity.ways])
        for link in np.unique(commodity.links).tolist():
            first = 0
            if not commodity.transfers:
                first = self._cells_of(float(self._far_us[sources, self._topology.src[link]].min()))
            found = []
            for least_mb, most_mb in self._sizes(link, all_mb):
                last = math.floor((self.horizon_us - self._takes_us(link, least_mb)) / self.cell_us)
                last = min(self.cells - 1, last)
                most = self.horizon_us / (commodity.size_mb * float(self._topology.beta_us_per_mb[link]))
                if last >= first:
                    found.append(_Sends(self.begun(first, last, most), last, least_mb, most_mb, link))
            yield link, found

    def _cells_of(self, time_us: float) -> int:
        """How many whole cells that is, if it is before the horizon; -1 if it is before the beginning."""
        if time_us >= self.horizon_us:
            return self.cells
        return math.floor(time_us / self.cell_us) if time_us >= 0 else -1

    # --- the rows

    def _suffice(self, commodity: Commodity, sent: dict[int, list[_Sends]]) -> None:
        """A sum needs so many transfers."""
        if not commodity.transfers:
            return
        many = np.bincount(commodity.links)
        terms: list[Term] = [
            (sends.begun[-1:], float(many[link]), 0) for link, each in sent.items() for sends in each
        ]
        self.row([*terms, (self._share, -float(commodity.transfers), 0)], lower=0.0)

    def _flow(self, commodity: Commodity, sent: dict[int, list[_Sends]], way: Way) -> None:
        """All of it goes from the source to the end, and where anything of the kind is sent."""
        topology = self._topology
        flows: list[_Sends] = []
        for link in way.links.tolist():
            if topology.dst[link] == way.source or topology.src[link] == way.end:
                continue
            first = self._cells_of(float(self._far_us[way.source, topology.src[link]]))
            for sends in sent[int(commodity.links[link])]:
                rest_us = self._takes_us(link, sends.least_mb)
                rest_us += float(self._far_us[topology.dst[link], way.end])
                last = min(sends.last, self._cells_of(self.horizon_us - rest_us))
                if last >= first:
                    begun = self.begun(first, last, 1.0)
                    terms = [*begins(begun[first : last + 1]), *_within(sends.begun, first, last)]
                    self.row(terms, upper=0.0)
                    flows.append(_Sends(begun, last, sends.least_mb, sends.most_mb, link))
        for rank in way.into:
            self._pass_on(flows, way, rank)

    def _pass_on(self, flows: list[_Sends], way: Way, rank: int) -> None:
        """What leaves a rank has come to it; at the end all has come."""
        into, out = way.into[rank], way.out[rank]
        coming = [each for each in flows if into[each.link]]
        if rank == way.end:
            terms: list[Term] = [(each.begun[-1:], float(into[each.link]), 0) for each in coming]
            self.row([*terms, (self._share, -1.0, 0)], lower=0.0)
            return
        terms = [(each.begun, float(out[each.link]), 0) for each in flows if out[each.link]]
        for each in coming:
            later = self._cells_of(self._takes_us(each.link, each.least_mb))
            if later < self.cells:
                terms.append((each.begun, -float(into[each.link]), later))
        self.row(terms, upper=0.0)

    def _pass_ports(self, layout: Layout) -> None:
        """A port is busy no longer than a window is."""
        pair_link = self._topology.incidence[0]
        for uses in layout.ports:
            loads = [
                self._load(pair, sends, often_mb)
                for commodity, pair, often_mb in uses
                for sends in self._sent[commodity][int(layout.commodities[commodity].links[pair_link[pair]])]
            ]
            if loads:
                self._in_windows(loads)

    def _load(self, pair: int, sends: _Sends, often_mb: float) -> _Load:
        """What sends do at a port: see `timed_flow` for what lies within a window."""
        takes_us = self._takes_us(sends.link, sends.most_mb)
        if self._is_serial:
            per_mb = self._busy_us(pair, sends.most_mb) / sends.most_mb
            rest_us = self._takes_us(sends.link, sends.least_mb) - self._busy_us(pair, sends.least_mb)
            rest_us = max(0.0, rest_us)
            end_us = takes_us if self._view.backwards else self._busy_us(pair, sends.most_mb)
            is_slow = True
        else:
            per_mb = float(self._topology.pair_betas[pair]) * (1 + STRETCH)
            rest_us = float(self._topology.alpha_us[sends.link])
            end_us = takes_us if self._view.backwards else 0.0
            is_slow = bool(self._topology.pair_betas[pair] >= self._topology.beta_us_per_mb[sends.link])
        before_us, after_us = (rest_us, 0.0) if self._view.backwards else (0.0, rest_us)
        return _Load(sends, per_mb * often_mb, before_us, end_us, after_us, is_slow)

    def _in_windows(self, loads: list[_Load]) -> None:
        cells, is_slow = self.cells, all(each.is_slow for each in loads)
        windows = {(0, end) for end in range(1, cells)} if is_slow or not self._view.backwards else set()
        if is_slow or self._view.backwards:
            windows |= {(begin, cells) for begin in range(cells)}
        if is_slow:
            windows |= {
                (begin, begin + length) for length in TIMED_FLOW_WINDOWS for begin in range(cells - length)
            }
        windows.add((0, cells))
        begin, end = np.array(sorted(windows)).T
        # Windows are longer by a little at both ends, so that what ends with a cell lies in it.
        slack_us = 4 * STRETCH * max(each.end_us for each in loads)
        time_us = np.where(end == cells, self.horizon_us, end * self.cell_us) - begin * self.cell_us
        after_us = min(each.after_us for each in loads)
        time_us = np.maximum(time_us - np.where(end == cells, after_us, 0.0), 0.0) + 2 * slack_us
        terms: list[Term] = []
        for each in loads:
            first = np.ceil(begin - (each.before_us + slack_us) / self.cell_us).astype(np.int64).clip(0)
            last = end - 1 - math.ceil((each.end_us - slack_us) / self.cell_us)
            last = np.where(end == cells, cells - 1, last)
            until = np.where(last >= first, each.sends.begun[last.clip(0)], -1)
            before = np.where((last >= first) & (first > 0), each.sends.begun[(first - 1).clip(0)], -1)
            weight = each.us / self.cell_us
            terms += [(until, weight, 0), (before, -weight, 0)]
        self.row_of(terms, time_us / self.cell_us)


@dataclass(frozen=True, eq=False)
class _Load:
    """What sends do at a port.

    Parameters
    ----------
    us : how long all of it keeps the port busy.
    before_us, end_us : when that begins at the soonest, and ends at the latest, from the start on.
    after_us : how long a send lasts after it, at the least.
    is_slow : whether the port is no faster than the link.
    """

    sends: _Sends
    us: float
    before_us: float
    end_us: float
    after_us: float
    is_slow: bool


def _within(begun: IntArray, first: int, last: int) -> list[Term]:
    """No more than what begins in each of these cells."""
    before = begun[first - 1 : last] if first else np.concatenate([[-1], begun[:last]])
    return times_of([(begun[first : last + 1], 1.0, 0), (before, -1.0, 0)], -1.0)
