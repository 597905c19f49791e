"""Slices of Google's TPUs: chips linked to their neighbours in a grid, whose large dimensions are rings.

A chip is a rank, called gpu as everywhere. Slices of a v4, v5p or 7x have three dimensions and are closed
when all are multiples of 4; those of a v5e or v6e have two, closed where one is 16. Twisted tori
are not here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from taccl.errors import TopologyError
from taccl.model.network import Occupancy
from taccl.topologies.devices import MAX_GPUS
from taccl.topologies.generators import grid, hop_cost
from taccl.topologies.machines.figures import Alpha, Figure, Rate
from taccl.topologies.model import PhysicalTopology

_ALPHA = Alpha(0.7, "assumed", "as NVLink; Google publishes none")


@dataclass(frozen=True)
class TpuSlices:
    """One generation: slices of it by their sizes.

    Parameters
    ----------
    dimensions : of the grid.
    link : to one neighbour.
    closed_at : a slice of three dimensions is a torus if all its sizes are multiples of it; of two, each
        dimension of this size is a ring.
    most_chips : of a pod.
    """

    name: str
    dimensions: int
    link: Rate
    closed_at: int
    most_chips: int

    def build(
        self,
        *sizes: int,
        alpha_us: float = _ALPHA.us,
        beta_us_per_mb: float | None = None,
        bandwidth_gbps: float | None = None,
        occupancy: Occupancy = "serial",
    ) -> PhysicalTopology:
        """The slice of these sizes; ranks are row-major.

        Raises
        ------
        TopologyError : not this many sizes as the pod has dimensions, more chips than it has, a cost that is
            not finite and positive.
        """
        shape = f"{self.name}:{'x'.join(map(str, sizes))}"
        if len(sizes) != self.dimensions:
            raise TopologyError(
                f"a slice of {self.name} has {self.dimensions} sizes, not '{shape}'",
                hint=f"{self.name}:{'x'.join(['4'] * self.dimensions)}",
            )
        most = min(self.most_chips, MAX_GPUS)
        if math.prod(sizes) > most:
            raise TopologyError(f"{self.name} takes 2 to {most} chips, not {math.prod(sizes)}")
        if beta_us_per_mb is None and bandwidth_gbps is None:
            bandwidth_gbps = self.link.gbps
        cost = hop_cost(alpha_us, beta_us_per_mb, bandwidth_gbps)
        return grid(self.name, sizes, self._closed(sizes), cost, occupancy)

    def figures(self) -> tuple[Figure, ...]:
        """Its numbers, each with its source."""
        return (self.link.figure("chip to a neighbour"), _ALPHA.figure("chip to a neighbour"))

    def _closed(self, sizes: Sequence[int]) -> tuple[bool, ...]:
        if self.dimensions == 2:
            return tuple(size == self.closed_at for size in sizes)
        return (all(size % self.closed_at == 0 for size in sizes),) * self.dimensions


TPU_V4 = TpuSlices(
    "tpu-v4",
    3,
    Rate("ICI", 45.0, 50.0, "inferred", "Google: AllReduce of a pod 1.1 PB/s / 4096 chips / 6 links"),
    4,
    4096,
)
TPU_V5E = TpuSlices(
    "tpu-v5e",
    2,
    Rate("ICI", 50.0, 50.0, "vendor", "Google: 400 GB/s of a chip / 4 links / 2 directions"),
    16,
    256,
)
TPU_V5P = TpuSlices(
    "tpu-v5p",
    3,
    Rate("ICI", 100.0, 100.0, "vendor", "Google: 1200 GB/s of a chip / 6 links / 2 directions"),
    4,
    8960,
)
TPU_V6E = TpuSlices(
    "tpu-v6e",
    2,
    Rate("ICI", 100.0, 100.0, "vendor", "Google: 800 GB/s of a chip / 4 links / 2 directions"),
    16,
    256,
)
TPU_7X = TpuSlices(
    "tpu-7x",
    3,
    Rate("ICI", 100.0, 100.0, "vendor", "Google: 1200 GB/s of a chip / 6 links / 2 directions"),
    4,
    9216,
)
