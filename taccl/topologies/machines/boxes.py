"""Nodes as data, and the machine of many such nodes: GPUs, the links between them, NICs next to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from taccl.model.units import beta_from_bandwidth
from taccl.topologies.machines.figures import Alpha, Bandwidth, Figure, Rate
from taccl.topologies.machines.machine import Machine
from taccl.topologies.machines.parts import Parts, Wire, counted, of_nodes
from taccl.topologies.model import PhysicalTopology

#: GPUs (by their number in the node) and how many links join them: (0, 1, 4).
Bundle = tuple[int, int, int]


@dataclass(frozen=True)
class Box:
    """A node whose GPUs have fast links, through one switch or to each other.

    Parameters
    ----------
    gpu : the model of its GPUs.
    gpus : how many.
    link, link_alpha : one link between GPUs, or from a GPU to the switch; the alpha is from GPU to GPU.
    switch_links : links of each GPU into the switch between all of them; 0: there is none.
    switch_sums : what a GPU gets of one link where the switch sums and copies; None: it does neither.
    bundles : links between GPUs, of which each pair stands once.
    nics : for each NIC, the GPUs next to it.
    nic, network_alpha : of a NIC's port, and from NIC to NIC.
    pcie : between a GPU and a NIC next to it.
    counts, counts_source : how the numbers of GPUs, links and NICs are known.
    """

    gpu: str
    gpus: int
    link: Rate
    link_alpha: Alpha
    nics: tuple[tuple[int, ...], ...]
    nic: Rate
    network_alpha: Alpha
    pcie: Rate
    counts: Literal["dump", "vendor"]
    counts_source: str
    switch_links: int = 0
    switch_sums: Rate | None = None
    bundles: tuple[Bundle, ...] = ()

    def build(self, name: str, nodes: int, bandwidth: Bandwidth) -> PhysicalTopology:
        """The machine of `nodes` such nodes, whose NICs one fabric joins.

        Raises
        ------
        TopologyError : no number of nodes, or more GPUs than a machine may have.
        """
        parts: Parts = {
            "gpu": counted("gpu", self.gpus),
            "switch": ["nvswitch"] if self.switch_links else [],
            "nic": counted("nic", len(self.nics)),
        }
        network = (self.network_alpha.us, beta_from_bandwidth(self.nic.of(bandwidth)))
        sums = {}
        if self.switch_sums is not None:
            sums = {"nvswitch": beta_from_bandwidth(self.switch_links * self.switch_sums.of(bandwidth))}
        return of_nodes(name, nodes, parts, list(self._wires(bandwidth)), network, gpu=self.gpu, sums=sums)

    def figures(self) -> tuple[Figure, ...]:
        """All numbers of the machine that `build` makes, each with its source."""
        return (*self._gpu_figures(), *self._nic_figures())

    def machine(self, summary: str, source: str, default_nodes: int = 2) -> Machine:
        """A row of the catalogue: any number of such nodes, as sure as the counts are."""
        return Machine(self.build, summary, self.counts, source, self.figures(), default_nodes)

    def _wires(self, bandwidth: Bandwidth) -> Iterator[Wire]:
        gbps = self.link.of(bandwidth)
        for gpu in range(self.gpus if self.switch_links else 0):
            beta = beta_from_bandwidth(self.switch_links * gbps)
            yield f"gpu{gpu}", "nvswitch", self.link_alpha.us / 2, beta
        for a, b, count in self.bundles:
            yield f"gpu{a}", f"gpu{b}", self.link_alpha.us, beta_from_bandwidth(count * gbps)
        beta = beta_from_bandwidth(self.pcie.of(bandwidth))
        for nic, alongside in enumerate(self.nics):
            for gpu in alongside:
                yield f"gpu{gpu}", f"nic{nic}", 0.0, beta

    def _gpu_figures(self) -> Iterator[Figure]:
        yield self._count("GPUs of a node", self.gpus)
        if self.switch_links:
            per_gpu = self.switch_links
            yield self._count(f"{self.link.name}s of a GPU, to the switch", per_gpu)
        else:
            degrees = {sum(count for *ends, count in self.bundles if gpu in ends) for gpu in range(self.gpus)}
            per_gpu = max(degrees)
            yield self._count(f"{self.link.name} links of a GPU, to other GPUs", per_gpu)
        yield self.link.figure(f"one {self.link.name} link")
        yield self.link.figure("a GPU to all others together", per_gpu)
        if self.switch_sums is not None:
            yield self.switch_sums.figure("a GPU, where the switch sums or copies", per_gpu)
        yield self.link_alpha.figure("GPU to GPU in a node")

    def _nic_figures(self) -> Iterator[Figure]:
        yield self._count("NICs of a node", len(self.nics))
        yield self._count("GPUs next to a NIC", max(len(alongside) for alongside in self.nics))
        yield self.nic.figure("a NIC")
        yield self.pcie.figure(f"GPU to the NIC next to it ({self.pcie.name})")
        yield self.network_alpha.figure("NIC to NIC")

    def _count(self, quantity: str, count: int) -> Figure:
        return Figure(count, self.counts, self.counts_source, quantity)


def one_each(gpus: int) -> tuple[tuple[int, ...], ...]:
    """A NIC next to each GPU."""
    return tuple((gpu,) for gpu in range(gpus))


def full_mesh(gpus: int, count: int = 1) -> tuple[Bundle, ...]:
    """`count` links between any two GPUs."""
    return tuple((a, b, count) for a in range(gpus) for b in range(a + 1, gpus))
