"""What sends across a line can serve by a moment, at prices: `fan_out` has the argument."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.counts import Steps
from taccl.encoding.bounds.fan_out_setting import Link, Port, Setting
from taccl.encoding.bounds.tuning import (
    FAN_OUT_CELLS,
    FAN_OUT_EACH,
    FAN_OUT_MOST_OF_A_SEND,
    FAN_OUT_UNITS,
    FAN_OUT_UNITS_PER_BLOCK,
)
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray

#: So much is taken off durations before they are rounded down to cells, and added to moments.
_ROUNDING = 1e-9


class OutOfSight(Exception):
    """Some send would take no time, or what chunks serve in so long is not known."""


@dataclass(frozen=True, eq=False)
class Prices:
    """What is paid, in several forms: columns of shape (num_forms,). Lengths of time are parts of T.

    Parameters
    ----------
    fed, fed_for : shape (2, num_forms); a pair that a rank outside S sends across at t pays the sum of both
        fed (1 - t / fed_for), and no more than 1.
    port : c, in parts of what is needed.
    passed_on, passed_on_for : a pair passed on L before the end pays passed_on (1 - L / passed_on_for).
    """

    fed: FloatArray
    fed_for: FloatArray
    port: FloatArray
    passed_on: FloatArray
    passed_on_for: FloatArray


@dataclass(frozen=True, eq=False)
class Sends:
    """Sends of some sizes over one kind of link; columns of shape (num_sizes, 1), times in cells.

    Parameters
    ----------
    many : chunks.
    busy : for how long the port is busy, from when the send's turn begins.
    early : how long before that the send leaves.
    comes : how long after that it has come.
    """

    many: IntArray
    busy: IntArray
    early: IntArray
    comes: IntArray


@dataclass(frozen=True, eq=False)
class Crossing:
    """What sends over one kind of link into W can serve by when their turn begins; (num_sizes, cells + 1).

    Parameters
    ----------
    sends : the sends.
    direct : pairs of the rank that they come to.
    passed_on : further pairs.
    left : the cells that are left when they have come, no less than 0.
    """

    sends: Sends
    direct: FloatArray
    passed_on: FloatArray
    left: IntArray


class Worth:
    """What can be served by a moment T, `end_us`, in cells of equal length that end at T.

    T is the first such moment that is no less than the one that is requested.

    Raises
    ------
    OutOfSight : some send would take no time, or what chunks serve in so long is not known.
    """

    def __init__(self, setting: Setting, end_us: float) -> None:
        self._setting, self._is_serial = setting, setting.view.problem.topology.is_serial
        least, self._most = _sizes(setting.largest)
        self._least_mb = (least - (1 if setting.parts else 0)) * setting.unit_mb
        shortest_us = min(map(self._shortest_us, _links(setting)))
        fine = FAN_OUT_CELLS * shortest_us / end_us
        if not math.isfinite(fine) or fine < 1:
            raise OutOfSight
        # The shortest send takes a whole number of cells.
        self._shortest = min(int(fine), FAN_OUT_MOST_OF_A_SEND)
        self._cell_us = shortest_us * (1 - 4 * _ROUNDING) / self._shortest
        self.cells = math.ceil(end_us / self._cell_us)
        self.end_us = self.cells * self._cell_us
        if self.end_us > setting.horizon_us:
            raise OutOfSight
        self._now = np.arange(self.cells + 1)
        self._sends = {link: self._sends_over(link) for link in _links(setting)}

    def units(self, forms: int) -> float:
        """Units of work for some forms of the prices."""
        sizes = sum(len(each.many) for each in self._sends.values())
        blocks = self.cells / self._shortest
        return (
            FAN_OUT_UNITS_PER_BLOCK * blocks * len(self._sends) + FAN_OUT_UNITS * forms * sizes * self.cells
        )

    def served(self, prices: Prices) -> FloatArray:
        """No schedule serves more pairs by T than these, one for each form of the prices.

        Where each rank feeds many others many times in T, what a chunk is worth overflows: inf and nan refute
        nothing.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._served(prices)

    def _served(self, prices: Prices) -> FloatArray:
        setting = self._setting
        fed = np.minimum(sum(map(self._falling, prices.fed, prices.fed_for)), 1.0)
        late = self._falling(prices.passed_on, prices.passed_on_for)
        across = {port: many for port, many in setting.crossing_ports.items() if not _from_source(port)}
        alone = {port: self._fed(port, fed, late) for port in across}
        price = prices.port * setting.need
        begun = self._begun(np.maximum(0.0, np.max(list(alone.values()), axis=0) - price[:, None]))
        total = sum(many * np.minimum(price, alone[port][:, 0]) for port, many in across.items())
        for port, many in setting.crossing_ports.items():
            if _from_source(port):
                total = total + many * self._sent_by_sources(port, fed, late, begun)
        for port, many in setting.feeding_ports.items():
            total = total + many * self._feeding(port, fed, begun)
        for port, many in setting.spreading_ports.items() if prices.passed_on.any() else ():
            total = total + many * self._passing_on(port, late)
        return np.asarray(total)

    def _fed(self, port: Port, fed: FloatArray, late: FloatArray) -> FloatArray:
        """f: what a port that sends from ranks outside S is worth, by when the first send leaves."""
        links = [link for link, _ in port]
        first = min(int(self._sends[link].early.min()) for link in links)
        best = self._turns([(self._sends[link], self._net(link, fed, late)) for link in links])
        return best[:, first : first + self.cells + 1]

    def _net(self, link: Link, fed: FloatArray, late: FloatArray) -> FloatArray:
        """What sends from ranks outside S serve, less what they pay."""
        at = self._crossing(link)
        kept = 1 - fed[:, np.maximum(self._now - at.sends.early, 0)]
        return np.asarray(at.direct * kept + at.passed_on * np.maximum(0.0, kept - late[:, at.left]))

    def _sent_by_sources(
        self, port: Port, fed: FloatArray, late: FloatArray, begun: dict[int, FloatArray]
    ) -> FloatArray:
        """What a port across is worth that some ranks of S use."""
        worth: list[tuple[Sends, FloatArray]] = []
        for link, _ in port:
            if not link.from_source:
                worth.append((self._sends[link], self._net(link, fed, late)))
                continue
            at = self._crossing(link)
            come = self._now + at.sends.comes
            paid, further = fed[:, come], at.sends.many * self._setting.each - at.direct - at.passed_on
            net = at.direct + at.passed_on * np.maximum(1 - late[:, at.left], paid) + further * paid
            worth.append((at.sends, net + begun[0][:, come]))
        return self._turns(worth)[:, 0]

    def _feeding(self, port: Port, fed: FloatArray, begun: dict[int, FloatArray]) -> FloatArray:
        """What a port from S to others in A is worth: what chunks pay by then, and who begins by that."""
        worth: list[tuple[Sends, FloatArray]] = []
        for link, _ in port:
            sends = self._sends[link]
            come = self._now + sends.comes
            paid = sends.many * self._setting.each * fed[:, come]
            worth.append((sends, paid + begun[link.into][:, come]))
        return self._turns(worth)[:, 0]

    def _passing_on(self, port: Port, late: FloatArray) -> FloatArray:
        """What is paid for what a port in W passes on."""
        worth: list[tuple[Sends, FloatArray]] = []
        for link, _ in port:
            sends = self._sends[link]
            left = self.cells - self._now + sends.early
            worth.append((sends, sends.many * late[:, left]))
        return self._turns(worth)[:, 0]

    def _begun(self, worth: FloatArray) -> dict[int, FloatArray]:
        """U: what it is worth that a rank has a chunk and passes it on, by its fed ports and by moment."""
        relays, shape = self._setting.relays, (len(worth), 2 * self.cells + 2)
        begun: dict[int, FloatArray] = {fed: np.zeros(shape) for fed in {0, *relays}}
        ports = {port for kinds in relays.values() for kind in kinds for port in kind}
        passed: dict[Port, FloatArray] = {port: np.zeros(shape) for port in ports}
        block = min(map(self._block, ports), default=self.cells + 1)
        for high in range(self.cells + 1, 0, -block):
            low = max(0, high - block)
            for port, after in passed.items():
                after[:, low:high] = self._next(port, after, begun, low, high)
            for fed, kinds in relays.items():
                onwards: FloatArray | float = 0.0
                for kind in kinds:
                    onwards = np.maximum(onwards, self._onwards(kind, passed, low, high))
                begun[fed][:, low:high] = fed * worth[:, low:high] + onwards
        return begun

    def _next(
        self, port: Port, after: FloatArray, begun: dict[int, FloatArray], low: int, high: int
    ) -> FloatArray:
        """V: what a rank's port is worth from some moments on, once for each link."""
        best, most = np.zeros((2, len(after), high - low))
        for link, many in port:
            comes, busy = self._alone[link]
            one = begun[link.into][:, low + comes : high + comes]
            best = np.maximum(best, one + after[:, low + busy : high + busy])
            most = most + many * one
        return _from_then_on(np.minimum(best, most), after[:, high : high + 1])

    def _onwards(
        self, kind: tuple[Port, ...], passed: dict[Port, FloatArray], low: int, high: int
    ) -> FloatArray | float:
        """What all ports of a rank are worth that has a chunk from some moments on."""
        total: FloatArray | float = 0.0
        for port in kind:
            early = min(int(self._sends[link].early[0, 0]) for link, _ in port)
            total = total + passed[port][:, low + early : high + early]
        return total

    def _block(self, port: Port) -> int:
        return min(min(self._alone[link]) for link, _ in port)

    @cached_property
    def _alone(self) -> dict[Link, tuple[int, int]]:
        """When a send of one chunk has come, and its port is free, from when its turn begins."""
        return {link: (int(each.comes[0, 0]), int(each.busy[0, 0])) for link, each in self._sends.items()}

    def _turns(self, worth: list[tuple[Sends, FloatArray]]) -> FloatArray:
        """The most that sends in turns are worth of which the first begins at a cell or later."""
        busy = np.concatenate([sends.busy for sends, _ in worth])
        each = np.concatenate([np.where(self._now >= sends.early, net, 0.0) for sends, net in worth], axis=1)
        best, block = np.zeros((len(each), 2 * self.cells + 2)), int(busy.min())
        for high in range(self.cells + 1, 0, -block):
            low = max(0, high - block)
            here = each[:, :, low:high] + best[:, self._now[low:high] + busy]
            best[:, low:high] = _from_then_on(here.max(axis=1), best[:, high : high + 1])
        return best

    def _falling(self, price: FloatArray, lasting: FloatArray) -> FloatArray:
        """A price that falls to nothing in some time, by the cell; shape (num_forms, 2 cells + 2)."""
        part = np.arange(2 * self.cells + 2) / self.cells
        return np.asarray(price[:, None] * np.maximum(0.0, 1 - part / lasting[:, None]))

    def _crossing(self, link: Link) -> Crossing:
        if link not in self._crossings:
            self._crossings[link] = self._serves(link)
        return self._crossings[link]

    @cached_property
    def _crossings(self) -> dict[Link, Crossing]:
        return {}

    def _serves(self, link: Link) -> Crossing:
        """What sends over a link into W serve: see `staged_copies`."""
        setting, sends = self._setting, self._sends[link]
        left = self.cells - self._now - sends.comes
        informed = np.where(left >= 0, self._at(setting.receivers[link.into])[np.maximum(left, 0)], 0)
        pairs = np.minimum(sends.many * setting.each, np.minimum(sends.many, setting.num_sets) * informed)
        direct = np.minimum(pairs, sends.many)
        return Crossing(sends, direct, pairs - direct, np.maximum(left, 0))

    def _at(self, steps: Steps) -> IntArray:
        """A count after each number of cells."""
        moments = self._now * self._cell_us * (1 + _ROUNDING) + _ROUNDING * self._cell_us
        place = np.searchsorted(np.array(steps.times), moments, side="right")
        return np.asarray(np.append(0, np.array(steps.counts, dtype=np.int64))[place])

    def _costs_us(self, link: Link, size_mb: FloatArray) -> tuple[FloatArray, FloatArray]:
        """How long sends take, and keep the port busy."""
        busy_us = size_mb * link.port_us_per_mb + (link.alpha_us if self._is_serial else 0.0)
        return link.alpha_us + size_mb * link.us_per_mb, busy_us

    def _shortest_us(self, link: Link) -> float:
        takes_us, busy_us = self._costs_us(link, self._least_mb[:1])
        return float(np.minimum(takes_us, busy_us)[0])

    def _sends_over(self, link: Link) -> Sends:
        takes_us, busy_us = self._costs_us(link, self._least_mb)
        early_us = takes_us - busy_us if self._setting.view.backwards else np.zeros_like(takes_us)
        columns = (self._down(each)[:, None] for each in (busy_us, early_us, takes_us - early_us))
        busy, early, comes = columns
        kept = np.append(True, (early + comes <= self.cells)[1:, 0])
        return Sends(self._most[kept, None], busy[kept], early[kept], comes[kept])

    def _down(self, time_us: FloatArray) -> IntArray:
        cells = np.floor(time_us / self._cell_us * (1 - _ROUNDING))
        return np.asarray(np.clip(cells, 0, self.cells + 1), dtype=np.int64)


def _from_then_on(best: FloatArray, after: FloatArray) -> FloatArray:
    """The largest of what is there from each cell on, and of what comes after all; (num_forms, num_cells)."""
    both = np.concatenate([best, after], axis=1)[:, ::-1]
    return np.asarray(np.maximum.accumulate(both, axis=1)[:, :0:-1])


def _sizes(largest: int) -> tuple[IntArray, IntArray]:
    """Ranges of sizes of sends: the least and the most of each; small ones are by themselves."""
    least, most = [1], [1]
    while most[-1] < largest:
        least.append(most[-1] + 1)
        most.append(min(largest, most[-1] + 1 + most[-1] // FAN_OUT_EACH))
    return np.array(least), np.array(most)


def _links(setting: Setting) -> set[Link]:
    """All kinds of links."""
    kinds: Iterable[Port] = (*setting.crossing_ports, *setting.feeding_ports, *setting.spreading_ports)
    relays = (port for kinds in setting.relays.values() for kind in kinds for port in kind)
    return {link for port in (*kinds, *relays) for link, _ in port}


def _from_source(port: Port) -> bool:
    return any(link.from_source for link, _ in port)
