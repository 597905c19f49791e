"""The physical machine: devices, the links between them, and what a transfer over them costs.

A machine is a directed graph. GPUs are its ranks; switches, NICs, PCIe bridges and the fabric
between nodes only pass data on. Every physical link serves one transfer at a time, so every link
that several GPU-to-GPU paths share is a *port* of all of them: no other notion is needed for
switches, NICs and bridges.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import networkx as nx

from taccl.errors import TopologyError

DeviceKind = Literal["gpu", "switch", "nic", "pcie", "fabric"]
Occupancy = Literal["serial", "pipelined"]

#: `Device.node` of a device that belongs to no node: the fabric between nodes.
NO_NODE = -1


@dataclass(frozen=True)
class Device:
    """Something with links. `local` counts the devices of one kind inside one node from 0."""

    name: str
    kind: DeviceKind
    node: int
    local: int


@dataclass(frozen=True)
class Link:
    """A directed link between two devices: `alpha_us` microseconds, `beta_us_per_mb` per MB."""

    src: str
    dst: str
    alpha_us: float
    beta_us_per_mb: float


@dataclass(frozen=True)
class Path:
    """A way from one GPU to another through devices that are not GPUs.

    `links` are indices into `PhysicalTopology.links`. A message is cut through, not stored, at each
    device on the way, so alphas add up and the largest beta is the path's.
    """

    src_rank: int
    dst_rank: int
    links: tuple[int, ...]
    alpha_us: float
    beta_us_per_mb: float


@dataclass(frozen=True)
class PhysicalTopology:
    """A machine, checked when it is made.

    Parameters
    ----------
    name : how the machine is called in files and results.
    devices : every device; the GPUs among them are the ranks, in this order.
    links : every directed link; at most one from one device to another.
    occupancy : `serial` (a port is busy for alpha + size * beta) or `pipelined` (for size * beta).
    chunk_bytes : the chunk size that the costs were measured for, where a profile says so.

    Raises
    ------
    TopologyError : a duplicate name or link, an unknown end, a cost that is negative or not finite.
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    occupancy: Occupancy = "serial"
    chunk_bytes: int | None = field(default=None)

    def __post_init__(self) -> None:
        names = [device.name for device in self.devices]
        if not self.gpus:
            raise TopologyError(f"topology {self.name!r} has no GPU")
        for name in sorted(
            {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else ()
        ):
            raise TopologyError(f"topology {self.name!r} has two devices called {name!r}")
        if self.occupancy not in ("serial", "pipelined"):
            raise TopologyError(f"occupancy must be serial or pipelined, not {self.occupancy!r}")
        known, seen = set(names), set()
        for link in self.links:
            self._check_link(link, known)
            if (link.src, link.dst) in seen:
                raise TopologyError(
                    f"topology {self.name!r} has two links from {link.src} to {link.dst}",
                    hint="make them one link with half the beta",
                )
            seen.add((link.src, link.dst))

    def _check_link(self, link: Link, known: set[str]) -> None:
        for end in (link.src, link.dst):
            if end not in known:
                raise TopologyError(f"a link of {self.name!r} ends at {end!r}, which is no device of it")
        if link.src == link.dst:
            raise TopologyError(f"a link of {self.name!r} leads from {link.src} to itself")
        for what, cost in (("alpha_us", link.alpha_us), ("beta_us_per_mb", link.beta_us_per_mb)):
            if not math.isfinite(cost) or cost < 0:
                raise TopologyError(
                    f"{what} of {link.src} -> {link.dst} must be finite and not negative, not {cost}"
                )

    @cached_property
    def gpus(self) -> tuple[Device, ...]:
        """The GPUs; a GPU's position here is its rank."""
        return tuple(device for device in self.devices if device.kind == "gpu")

    @cached_property
    def rank_of(self) -> dict[str, int]:
        """GPU name -> rank."""
        return {gpu.name: rank for rank, gpu in enumerate(self.gpus)}

    @property
    def num_ranks(self) -> int:
        return len(self.gpus)

    @cached_property
    def num_nodes(self) -> int:
        return len({gpu.node for gpu in self.gpus})

    def with_occupancy(self, occupancy: Occupancy) -> PhysicalTopology:
        """The same machine under the other rule for busy ports."""
        return replace(self, occupancy=occupancy)

    def to_networkx(self) -> nx.DiGraph[str]:
        """Devices as nodes (`kind`, `node`, `local`), links as edges (`alpha_us`, `beta_us_per_mb`, `index`)."""
        graph: nx.DiGraph[str] = nx.DiGraph(name=self.name)
        for device in self.devices:
            graph.add_node(device.name, kind=device.kind, node=device.node, local=device.local)
        for index, link in enumerate(self.links):
            graph.add_edge(
                link.src,
                link.dst,
                index=index,
                alpha_us=link.alpha_us,
                beta_us_per_mb=link.beta_us_per_mb,
            )
        return graph
