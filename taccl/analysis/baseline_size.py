"""One size of a baseline: the pick, its time, the bound next to it, and what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from taccl.analysis.baselines.measured import MeasuredRow, MeasuredTable, measured_tables
from taccl.encoding.bounds import Proof
from taccl.model import units
from taccl.support.schemas import finite
from taccl.topologies import PhysicalTopology

_NONE = "-"


@dataclass(frozen=True)
class BaselineSize:
    """What a library picks at one size.

    Parameters
    ----------
    size_bytes : what nccl-tests prints as size.
    busbw_factor : of the collective.
    pick, time_us : such as `Ring LL`, and what the library expects; None: it does not say.
    runner_up, runner_up_us : the next one; None: there is no other.
    bound : that no schedule can beat however finely the size is cut; None: nothing was proved.
    measured : published rows of this machine and size, with their tables.
    ratios : published measurements over NCCL's estimates at sizes near this one, with GPUs of this generation
        or, where none were published, with any.
    """

    HEADER: ClassVar[tuple[str, ...]] = (
        *("size", "pick", "time(us)", "algbw(GB/s)", "busbw(GB/s)", "runner-up", "time(us)", "bound(us)"),
        *("measured(us)", "measured/estimate"),
    )

    size_bytes: int
    busbw_factor: float
    pick: str
    time_us: float | None
    runner_up: str | None
    runner_up_us: float | None
    bound: Proof | None
    measured: tuple[tuple[MeasuredTable, MeasuredRow], ...]
    ratios: tuple[float, ...]

    @property
    def algbw_gbps(self) -> float | None:
        """Size over the expected time, 10**9 bytes per second."""
        return None if self.time_us is None else units.bandwidth_gbps(self.size_bytes, self.time_us)

    @property
    def busbw_gbps(self) -> float | None:
        """That times nccl-tests' factor."""
        return None if self.algbw_gbps is None else self.algbw_gbps * self.busbw_factor

    @property
    def is_below_bound(self) -> bool:
        """Whether the library expects less than what is proved."""
        return self.time_us is not None and self.bound is not None and self.time_us < self.bound.value_us

    def figures(self) -> dict[str, object]:
        """Plain values, in units by their keys."""
        least, most = self._measured_us()
        return {
            "size_bytes": self.size_bytes,
            "pick": self.pick,
            "time_us": self.time_us,
            "algbw_gbps": self.algbw_gbps,
            "busbw_gbps": self.busbw_gbps,
            "runner_up": self.runner_up,
            "runner_up_us": self.runner_up_us,
            "lower_bound_us": None if self.bound is None else self.bound.value_us,
            "bound_source": None if self.bound is None else self.bound.witness,
            "least_measured_us": least,
            "most_measured_us": most,
            "measured_sources": list(dict.fromkeys(table.source for table, _ in self.measured)),
            "least_ratio": min(self.ratios, default=None),
            "most_ratio": max(self.ratios, default=None),
            "rows_of_ratio": len(self.ratios),
        }

    def cells(self) -> tuple[str, ...]:
        """The figures as people read them."""
        least, most = self._measured_us()
        return (
            units.format_size(self.size_bytes),
            self.pick,
            *(_number(value) for value in (self.time_us, self.algbw_gbps, self.busbw_gbps)),
            self.runner_up or _NONE,
            _number(self.runner_up_us),
            _number(None if self.bound is None else finite(self.bound.value_us)),
            _range(least, most),
            _range(min(self.ratios, default=None), max(self.ratios, default=None)),
        )

    def _measured_us(self) -> tuple[float | None, float | None]:
        rows = [row for _, row in self.measured]
        least, most = (row.least_us for row in rows), (row.most_us for row in rows)
        return min(least, default=None), max(most, default=None)


def measured_at(
    machine: PhysicalTopology, collective: str, size_bytes: int, algorithm: str
) -> tuple[tuple[MeasuredTable, MeasuredRow], ...]:
    """Published rows of NCCL or RCCL for all GPUs of a machine, by this algorithm or by any."""
    is_of = (machine.name, machine.num_nodes, machine.num_members)
    return tuple(
        (table, row)
        for table in measured_tables()
        if (table.machine, table.nodes, table.ranks) == is_of
        and table.library in ("NCCL", "RCCL")
        and table.collective == collective
        and table.algorithm in ("", algorithm)
        for row in table.rows
        if row.size_bytes == size_bytes
    )


def _range(least: float | None, most: float | None) -> str:
    return _number(least) if least == most else f"{_number(least)} to {_number(most)}"


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.2f}"
