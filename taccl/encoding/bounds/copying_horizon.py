"""A time by which all is said to have been copied, in cells, and what sends cost there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.bounds.cells import cell_us
from taccl.encoding.bounds.copying_loop import ACROSS, BACK, CLASSES, MATE, OTHER, ROOT, Sends
from taccl.encoding.bounds.copying_setting import Setting
from taccl.encoding.bounds.tuning import COPYING_EACH, COPYING_GROWS
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray


@dataclass(frozen=True, eq=False)
class Sizes:
    """How many chunks, or pieces of them, one send carries, in classes.

    Parameters
    ----------
    least, most : shape (sizes,); of a class, ascending. What is begun counts as whole.
    lasting : shape (sizes,); how many a send of the class lasts at least.
    """

    least: IntArray
    most: IntArray
    lasting: IntArray

    @staticmethod
    def of(largest: int, divisible: bool) -> Sizes:
        """One for each small size, and ranges of larger ones; `divisible` : the last one may be begun."""
        least = [1]
        while least[-1] < largest:
            last = least[-1]
            least.append(min(largest, last + (1 if last < COPYING_EACH else math.ceil(last * COPYING_GROWS))))
        starts = np.array(least)
        return Sizes(starts, np.append(starts[1:] - 1, largest), starts - divisible)


@dataclass(frozen=True, eq=False)
class Horizon:
    """A horizon in cells; prices change every few of them.

    Parameters
    ----------
    setting, sizes : what is sent.
    us, cell_us : the horizon, and a cell.
    cells : those that begin before the horizon.
    edges_us : shape (spans + 1,); where prices change, multiples of a cell, the last one the horizon.
    held : shape (3, cells); how many chunks the root, its mates and others can have in a cell at the most;
        None: any number.
    """

    setting: Setting
    sizes: Sizes
    us: float
    cell_us: float
    cells: int
    edges_us: FloatArray
    held: IntArray | None = None

    @cached_property
    def lasts_us(self) -> FloatArray:
        """How long a send takes at least, shape (CLASSES, sizes)."""
        return self._by_size(self.setting.alpha_us, self.setting.us_per_mb)

    @cached_property
    def busy_us(self) -> FloatArray:
        """How long it keeps ports of each kind busy at least, shape (kinds, CLASSES, sizes)."""
        return np.stack([self._by_size(each.alpha_us, each.us_per_mb) for each in self.setting.ports])

    def _by_size(self, alpha_us: FloatArray, us_per_mb: FloatArray) -> FloatArray:
        is_there = np.isfinite(self.setting.alpha_us) & np.isfinite(us_per_mb)
        alpha_us, us_per_mb = (np.where(is_there, each, 0.0)[:, None] for each in (alpha_us, us_per_mb))
        return np.asarray(alpha_us + us_per_mb * self.sizes.lasting * self.setting.chunk_mb)

    @property
    def entries(self) -> float:
        """About how many looks the loops take."""
        ranks, nodes = self.setting.ranks, self.setting.nodes
        return self.cells * len(self.sizes.least) * (ranks * nodes) ** 2 / 4.0

    @cached_property
    def _begins_us(self) -> FloatArray:
        """From when on ports of a kind are busy, after the start of a send, shape (kinds, CLASSES, sizes)."""
        return np.asarray((self.lasts_us - self.busy_us) * self.setting.at_ends)

    @cached_property
    def starts_us(self) -> FloatArray:
        """When a send may be cheapest, shape (choices, CLASSES, sizes, cells).

        Prices change at edges of cells, so costs are linear between starts at which a port becomes busy, or
        free, at such an edge.
        """
        lead = self._begins_us
        first = np.zeros((1, *lead.shape[1:]))
        within = [first, first + self.cell_us, -lead % self.cell_us, -(lead + self.busy_us) % self.cell_us]
        return np.asarray(np.concatenate(within)[..., None] + np.arange(self.cells) * self.cell_us)

    @cached_property
    def is_out(self) -> np.ndarray:
        """Which sends end too late, or have more than there can be, shape (CLASSES, sizes, cells)."""
        late = self.lasts_us[..., None] + np.arange(self.cells) * self.cell_us > self.us
        late |= ~np.isfinite(self.setting.alpha_us)[:, None, None]
        if self.held is not None:
            of_class = self.held[[ROOT, MATE, OTHER, ROOT, MATE, OTHER, OTHER]]
            late |= self.sizes.least[:, None] > of_class[:, None, :]
        return late

    def _in_cells(self, durations_us: FloatArray) -> IntArray:
        cells = np.floor(np.minimum(durations_us, 2 * self.us) / self.cell_us * (1 + 1e-12))
        return cells.astype(np.int64)

    @cached_property
    def _steps(self) -> tuple[IntArray, IntArray, IntArray]:
        """Cells of a send, cells until the next one of its sender, and from when on somebody may send so."""
        lasts = self._in_cells(self.lasts_us)
        turn = self._in_cells(self._by_size(self.setting.turn_alpha_us, self.setting.turn_us_per_mb))
        soonest = np.zeros(CLASSES, dtype=np.int64)
        if self.setting.first == ROOT:
            never = 2 * self.cells
            root, out, on, back = np.where(np.isfinite(self.setting.alpha_us), lasts[:, 0], never)[
                [ROOT, ACROSS + ROOT, ACROSS + MATE, BACK]
            ].tolist()
            soonest[ACROSS + MATE] = min(root, out + back)
            soonest[[ACROSS + OTHER, BACK]] = min(out, root + on)
        return lasts, np.minimum(turn, lasts), soonest

    @property
    def is_too_coarse(self) -> bool:
        """Whether some send takes less than a cell."""
        return bool((self._steps[0][np.isfinite(self.setting.alpha_us)] < 1).any())

    def port_us(self) -> FloatArray:
        """The time of all ports of each kind in each span, shape (kinds, spans)."""
        many = np.array([each.many for each in self.setting.ports])
        return np.asarray(many[:, None] * np.diff(self.edges_us))

    def sends(self, prices: FloatArray) -> tuple[Sends, IntArray]:
        """What sends cost for a MB at prices, and at which of the starts."""
        total = np.cumsum(prices * np.diff(self.edges_us), axis=1)
        total = np.concatenate([np.zeros((len(prices), 1)), total], axis=1)
        cost = np.zeros(self.starts_us.shape)
        for kind, ports in enumerate(self.setting.ports):
            from_us = self.starts_us + self._begins_us[kind][..., None]
            until_us = from_us + self.busy_us[kind][..., None]
            paid = [np.interp(each, self.edges_us, total[kind]) for each in (from_us, until_us)]
            cost += ports.used[:, None, None] * (paid[1] - paid[0])
        chosen = cost.argmin(axis=0)
        least = np.take_along_axis(cost, chosen[None], axis=0)[0]
        least = np.maximum(least, 0.0) / (self.sizes.most * self.setting.chunk_mb)[:, None]
        least[self.is_out] = np.inf
        return Sends(*self._steps[:2], least, self._steps[2]), chosen

    def use(self, link: IntArray, size: IntArray, cell: IntArray, choice: IntArray) -> FloatArray:
        """How long some sends keep ports busy for each MB, shape (kinds, spans)."""
        starts = self.starts_us[choice, link, size, cell]
        each = 1 / (self.sizes.most[size] * self.setting.chunk_mb)
        use = []
        for kind, ports in enumerate(self.setting.ports):
            from_us = starts + self._begins_us[kind][link, size]
            until_us = from_us + self.busy_us[kind][link, size]
            within = np.clip(self.edges_us[:, None], from_us, until_us)
            use.append(np.diff(within, axis=0) @ (ports.used[link] * each))
        return np.stack(use)


def cells_of(
    setting: Setting, sizes: Sizes, us: float, most: int, spans: int
) -> tuple[float, int, FloatArray]:
    """How long a cell is, how many there are, and where prices change."""
    there = np.isfinite(setting.alpha_us)
    lasts = setting.alpha_us[there, None] + setting.us_per_mb[there, None] * sizes.lasting * setting.chunk_mb
    width_us = cell_us(lasts.ravel(), us, most)
    cells = math.ceil(us / width_us * (1 - 1e-12))
    each = -(-cells // spans)
    edges = np.minimum(np.arange(-(-cells // each) + 1) * each * width_us, us)
    return width_us, cells, edges
