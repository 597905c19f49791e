"""A number of the catalogue and how it is known: what it is of, its unit, its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: How a number is known. `measured`: somebody measured it on this machine; `dump`: real machines say so of
#: themselves; `library`: NCCL or RCCL count on it; `vendor`: the maker of the part, or the cloud, says so;
#: `published`: a study models the machine so; `read`: an imported file says so; `inferred`: it follows from
#: others; `assumed`: a constant.
How = Literal["measured", "dump", "library", "vendor", "published", "read", "inferred", "assumed"]
Unit = Literal["", "GB/s", "us", "us/MB"]

#: Which speed of a link counts: what the library's kernels get of it, or what the vendor says.
Bandwidth = Literal["nccl", "peak"]
BANDWIDTHS: tuple[Bandwidth, ...] = ("nccl", "peak")


@dataclass(frozen=True)
class Figure:
    """A number of a machine, of one link and direction unless `quantity` says otherwise.

    Parameters
    ----------
    value : in `unit`; GB/s are 10**9 bytes per second, us/MB microseconds per 2**20 bytes.
    how, source : how it is known: the line that was read, a rule, a reference.
    quantity : what it is of, in a few words; empty where its holder says so.
    peak : the vendor's figure, where `value` is what is got of it.
    """

    value: float
    how: How
    source: str
    quantity: str = ""
    unit: Unit = ""
    peak: float | None = None

    @property
    def origin(self) -> str:
        """How it is known and its source, as comments of a machine file have it."""
        return f"{self.how} {self.source}" if self.how == "read" else f"{self.how}: {self.source}"


@dataclass(frozen=True)
class Rate:
    """What a kind of link moves in one direction, GB/s: what kernels get of it, and what the vendor says.

    `gpus` are those that have such links, where their name alone does not tell.
    """

    name: str
    gbps: float
    peak_gbps: float
    how: How
    source: str
    gpus: str = ""

    def of(self, bandwidth: Bandwidth) -> float:
        """The one that counts."""
        return self.gbps if bandwidth == "nccl" else self.peak_gbps

    def figure(self, quantity: str, links: int = 1) -> Figure:
        """The rate of this many of these links together."""
        how: How = self.how if links == 1 else "inferred"
        source = self.source if links == 1 else f"{links} x {self.gbps:g}"
        gbps, peak = round(links * self.gbps, 6), round(links * self.peak_gbps, 6)
        return Figure(gbps, how, source, quantity, "GB/s", peak if peak != gbps else None)


@dataclass(frozen=True)
class Alpha:
    """A latency, microseconds."""

    us: float
    how: How
    source: str

    def figure(self, quantity: str) -> Figure:
        """The latency as a figure."""
        return Figure(self.us, self.how, self.source, quantity, "us")
