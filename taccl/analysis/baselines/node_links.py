"""What NCCL and RCCL see of a machine: what rings get of the links of a node, and what its NICs move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from taccl.errors import TopologyError
from taccl.model.units import MB, bandwidth_gbps
from taccl.topologies import PhysicalTopology

_ROUNDING = 1e-9
#: What stands for a link that costs nothing.
_MOST_GBPS = 1e5


@dataclass(frozen=True)
class NodeLinks:
    """The links of one node of a machine.

    Parameters
    ----------
    gpus : of the node.
    hop : what its rings pass.
    direct : where GPUs are linked to each other: for each GPU, the GB/s of its links to others.
    loads : otherwise, of each link that a ring in the order of ranks or the reverse one passes: its GB/s, and
        how often each of the two passes it.
    has_switch : whether all GPUs are at one NVSwitch.
    nics, nic_gbps : NICs of the node, and GB/s from a GPU through one to another node; 0: a single node.
    """

    gpus: int
    hop: Literal["NVLink", "PCIe"]
    direct: tuple[tuple[float, ...], ...]
    loads: tuple[tuple[float, int, int], ...]
    has_switch: bool
    nics: int
    nic_gbps: float

    def channels(self, gbps: float) -> int:
        """Rings of this speed inside the node; of direct links, all are taken as used."""
        if self.direct:
            return min(sum(times(link, gbps) for link in links) for links in self.direct)
        narrowest = times(self._narrowest_gbps, gbps)
        return max(count + self._reverse_beside(count, gbps) for count in range(narrowest + 1))

    def _reverse_beside(self, count: int, gbps: float) -> int:
        """Reverse rings of this speed that fit next to this many others."""
        return min(
            times(link - count * ahead * gbps, back * gbps) for link, ahead, back in self.loads if back
        )

    @cached_property
    def _narrowest_gbps(self) -> float:
        """What a ring in the order of ranks gets."""
        return min(link / ahead for link, ahead, _ in self.loads if ahead)

    @cached_property
    def gpu_gbps(self) -> float:
        """All links of a GPU to others together."""
        return max(map(sum, self.direct)) if self.direct else self._narrowest_gbps

    @cached_property
    def path_gbps(self) -> float:
        """The fastest way from one GPU to another."""
        return max(map(max, self.direct)) if self.direct else self._narrowest_gbps


def times(whole: float, part: float) -> int:
    """How often the part fits, where bandwidths come of costs and are a little off."""
    return int(whole / part * (1 + _ROUNDING))


def links_of(topology: PhysicalTopology) -> NodeLinks:
    """What rings can use of the machine's first node; NCCL takes all nodes for equal.

    Raises
    ------
    TopologyError : nodes of different sizes, one GPU alone, GPUs without a way between them, nodes without
        NICs.
    """
    members = topology.gpus[: topology.num_members]
    sizes = Counter(gpu.node for gpu in members)
    if len(set(sizes.values())) > 1 or len(members) < 2:
        raise TopologyError(
            f"{topology.name!r} is not two GPUs or more, as many in each node, as NCCL's model needs"
        )
    ranks = [rank for rank, gpu in enumerate(members) if gpu.node == members[0].node]
    nics, nic_gbps = _network(topology, ranks) if len(sizes) > 1 else (0, 0.0)
    if len(ranks) == 1:
        return NodeLinks(1, "NVLink", (), ((nic_gbps, 1, 1),), False, nics, nic_gbps)
    direct = _direct(topology, ranks)
    if direct:
        return NodeLinks(len(ranks), "NVLink", direct, (), False, nics, nic_gbps)
    ahead, back = _passed(topology, ranks), _passed(topology, ranks[::-1])
    loads = {
        link: (_gbps(topology.links[link].beta_us_per_mb), ahead[link], back[link])
        for link in {**ahead, **back}
    }
    kinds = {device.name: device.kind for device in topology.devices}
    passed = {kinds[topology.links[link].dst] for link in loads}
    return NodeLinks(
        gpus=len(ranks),
        hop="PCIe" if "pcie" in passed else "NVLink",
        direct=(),
        loads=tuple(dict.fromkeys(loads.values())),
        has_switch=passed == {"gpu", "switch"},
        nics=nics,
        nic_gbps=nic_gbps,
    )


def _passed(topology: PhysicalTopology, ranks: list[int]) -> Counter[int]:
    """How often a ring through these ranks passes each link."""
    passed: Counter[int] = Counter()
    for src, dst in zip(ranks, (*ranks[1:], ranks[0]), strict=True):
        path = topology.path(src, dst)
        if path is None:
            raise TopologyError(f"{topology.name!r} has no ring: no way leads from rank {src} to rank {dst}")
        passed.update(path.links)
    return passed


def _gbps(beta_us_per_mb: float) -> float:
    return min(bandwidth_gbps(MB, beta_us_per_mb), _MOST_GBPS)


def _direct(topology: PhysicalTopology, ranks: list[int]) -> tuple[tuple[float, ...], ...]:
    """For each GPU, its links to other GPUs of the node; empty where they do not join all, each with two."""
    inside = {topology.gpus[rank].name for rank in ranks}
    links: dict[str, dict[str, float]] = {name: {} for name in inside}
    for link in topology.links:
        if link.src in inside and link.dst in inside:
            links[link.src][link.dst] = _gbps(link.beta_us_per_mb)
    fewest = min(2, len(ranks) - 1)
    if min(map(len, links.values())) < fewest or not _joins_all(links):
        return ()
    return tuple(tuple(each.values()) for each in links.values())


def _joins_all(links: Mapping[str, Mapping[str, float]]) -> bool:
    reached: set[str] = set()
    waiting = [next(iter(links))]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += links[name]
    return len(reached) == len(links)


def _network(topology: PhysicalTopology, ranks: list[int]) -> tuple[int, float]:
    """NICs of the first node, and what the fastest way through one moves."""
    nics, per_node = topology.nic_count(topology.gpus[ranks[0]].node), len(ranks)
    paths = [topology.path(rank, rank + per_node) for rank in ranks]
    found = [_gbps(path.beta_us_per_mb) for path in paths if path is not None]
    if not nics or not found:
        raise TopologyError(f"the nodes of {topology.name!r} have no NICs, and NCCL's model needs them")
    return nics, max(found)
