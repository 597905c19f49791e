"""The parts of a machine: devices, directed links, and paths over them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from taccl.errors import TopologyError
from taccl.model.units import MAX_ALPHA_US, MAX_BETA_US_PER_MB, MIN_BETA_US_PER_MB
from taccl.support.arguments import is_number, number, shown

DeviceKind = Literal["gpu", "helper", "switch", "nic", "pcie", "fabric"]

#: `Device.node` of a device that belongs to no node: the fabric between nodes.
NO_NODE = -1

#: What a path may pass between ranks of one node, and between nodes.
INSIDE_NODE: frozenset[DeviceKind] = frozenset(("switch", "pcie"))
BETWEEN_NODES: frozenset[DeviceKind] = frozenset(("switch", "pcie", "nic", "fabric"))

#: The kinds of devices that are ranks, in the order of their numbers.
RANKS: tuple[DeviceKind, ...] = ("gpu", "helper")

#: Larger machines than these are taken for slips of the pen: 512 GPUs that are all linked fit.
MAX_GPUS = 4096
MAX_LINKS = 2**18
#: In equal nodes, of which one is planned (`taccl.model.template`).
MAX_GPUS_OF_NODES = 2**14


#: The least and the most that a cost can be, if it is not 0.
_RANGE = {"alpha_us": (0.0, MAX_ALPHA_US), "beta_us_per_mb": (MIN_BETA_US_PER_MB, MAX_BETA_US_PER_MB)}


@dataclass(frozen=True)
class Device:
    """Something with links. `local` counts the devices of one kind inside one node from 0.

    A helper is a rank without data: a server that adds up for others, a switch that sums and copies.

    Parameters
    ----------
    may_sum, may_copy : what a helper can do, as in `LogicalTopology`.
    at : the switch that a helper is part of; the switch's links are then its own, and so are their ports.
    alpha_us, beta_us_per_mb : what a transfer between a helper at a switch and a GPU or NIC costs on the link
        that it uses, in place of that link's own costs; None: as others.
    loops_back : whether what a GPU gets of a sum face, or gives to a copy face, passes the GPU's link in the
        other direction too: a load-reduce reads the memory of the GPU that issues it as that of all others,
        and a multicast store writes it.
    memory_mb : how much a helper can hold at any moment; None: anything.
    behind : the ends of a link that all transfers to and from a helper use too, in either direction: the
        memory of a host that serves several.
    """

    name: str
    kind: DeviceKind
    node: int
    local: int
    may_sum: bool = True
    may_copy: bool = True
    at: str | None = None
    alpha_us: float | None = None
    beta_us_per_mb: float | None = None
    loops_back: bool = False
    memory_mb: float | None = None
    behind: tuple[str, str] | None = None


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
    device on the way, so alphas add up and the largest beta is the path's. `betas` are those at which it uses
    its links, where a helper has others than they; None: theirs.
    """

    src_rank: int
    dst_rank: int
    links: tuple[int, ...]
    alpha_us: float
    beta_us_per_mb: float
    betas: tuple[float, ...] | None = None


def check_cost(what: Literal["alpha_us", "beta_us_per_mb"], cost: object, of: str) -> None:
    """Raise TopologyError for a cost that no link can have; `of` names the link or helper in messages."""
    if not is_number(cost) or not 0 <= cost < math.inf:
        raise TopologyError(f"{what} of {of} must be finite and not negative, not {shown(cost)}")
    least, most = _RANGE[what] if cost else (0.0, 0.0)
    number(cost, f"{what} of {of}", TopologyError, least=least, most=most)


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
