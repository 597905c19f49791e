"""The parts of a machine: devices, directed links, and paths over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

DeviceKind = Literal["gpu", "helper", "switch", "nic", "pcie", "fabric"]

#: `Device.node` of a device that belongs to no node: the fabric between nodes.
NO_NODE = -1

#: What a path may pass between ranks of one node, and between nodes.
INSIDE_NODE: frozenset[DeviceKind] = frozenset(("switch", "pcie"))
BETWEEN_NODES: frozenset[DeviceKind] = frozenset(("switch", "pcie", "nic", "fabric"))

#: Larger machines than these are taken for slips of the pen: 512 GPUs that are all linked fit.
MAX_GPUS = 4096
MAX_LINKS = 2**18


@dataclass(frozen=True)
class Device:
    """Something with links. `local` counts the devices of one kind inside one node from 0.

    A helper is a rank without data: a server that adds up for others, a switch that stores. `may_sum` and
    `may_copy` say what it can do, as in `LogicalTopology`.
    """

    name: str
    kind: DeviceKind
    node: int
    local: int
    may_sum: bool = True
    may_copy: bool = True


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


def bundled(links: Sequence[Link]) -> tuple[Link, ...]:
    """Links of which no two lead from one device to another, in the order of the first of each bundle.

    Parallel links carry a message together: bandwidths add up, and the largest alpha counts.
    """
    bundles: dict[tuple[str, str], list[Link]] = {}
    for link in links:
        bundles.setdefault((link.src, link.dst), []).append(link)
    if len(bundles) == len(links):
        return tuple(links)
    return tuple(one[0] if len(one) == 1 else _bundle(one) for one in bundles.values())


def _bundle(links: Sequence[Link]) -> Link:
    betas = [link.beta_us_per_mb for link in links]
    beta = 1 / sum(1 / beta for beta in betas) if all(betas) else 0.0
    return Link(links[0].src, links[0].dst, max(link.alpha_us for link in links), beta)
