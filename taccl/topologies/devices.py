"""The parts of a machine: devices, directed links, and paths over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

DeviceKind = Literal["gpu", "switch", "nic", "pcie", "fabric"]

#: `Device.node` of a device that belongs to no node: the fabric between nodes.
NO_NODE = -1

#: Larger machines than these are taken for slips of the pen: 512 GPUs that are all linked fit.
MAX_GPUS = 4096
MAX_LINKS = 2**18


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
