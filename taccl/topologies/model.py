"""The physical machine: devices, the links between them, and what a transfer over them costs.

A machine is a directed graph. GPUs are its ranks, and after them helpers, which hold no data; switches, NICs,
PCIe bridges and the fabric between nodes only pass data on. Every physical link serves one transfer at a
time, so every link that several paths from rank to rank share is a *port* of all of them: no other notion is
needed for switches, NICs and bridges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from taccl.errors import TopologyError
from taccl.model.collective import Collective
from taccl.model.executor import Executor
from taccl.model.network import Occupancy, check_occupancy
from taccl.support.arguments import is_whole, shown, text, tuple_of
from taccl.topologies.devices import NO_NODE, RANKS, Device, DeviceKind, Link, Path, bundled, check_cost
from taccl.topologies.helpers import check_helpers
from taccl.topologies.paths import PathFinder
from taccl.topologies.summary import LinkClass, as_html, headline, link_classes

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["NO_NODE", "Device", "DeviceKind", "Link", "Occupancy", "Path", "PhysicalTopology"]


@dataclass(frozen=True, repr=False)
class PhysicalTopology:
    """A machine, checked when it is made.

    Parameters
    ----------
    name : how the machine is called in files and results.
    devices : every device; the GPUs among them, and then the helpers, are the ranks, in this order.
    links : every directed link. Several from one device to another become one, which cuts each message
        into as many parts: their bandwidths add up, and the largest alpha is that of the last part to come.
    occupancy : `serial` (a port is busy for alpha + size * beta) or `pipelined` (for size * beta).
    chunk_bytes : the chunk size that the costs were measured for, where a profile says so.
    executor : what executing costs next to the links, where that is known.
    gpu : the model of its GPUs, such as `H100`, where all are of one and that is known.

    Raises
    ------
    TopologyError : a duplicate name, an unknown end, a cost that is negative or not finite.
    """

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    occupancy: Occupancy = "serial"
    chunk_bytes: int | None = field(default=None)
    executor: Executor | None = None
    gpu: str | None = None

    def __post_init__(self) -> None:
        text(self.name, "the name of a topology", TopologyError)
        tuple_of(self.devices, Device, "devices", TopologyError)
        tuple_of(self.links, Link, "links", TopologyError)
        names = [text(device.name, "the name of a device", TopologyError) for device in self.devices]
        if not self.num_members:
            raise TopologyError(f"topology {self.name!r} has no GPU")
        for name in sorted(
            {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else ()
        ):
            raise TopologyError(f"topology {self.name!r} has two devices called {name!r}")
        check_occupancy(self.occupancy)
        if self.executor is not None and not isinstance(self.executor, Executor):
            raise TopologyError(
                f"the executor of {self.name!r} must be an Executor, not {shown(self.executor)}"
            )
        if self.gpu is not None:
            text(self.gpu, "the model of the GPUs", TopologyError)
        known = set(names)
        for link in self.links:
            self._check_link(link, known)
        object.__setattr__(self, "links", bundled(self.links))
        check_helpers(self.devices, self.links)

    def _check_link(self, link: Link, known: set[str]) -> None:
        for end in (link.src, link.dst):
            if not isinstance(end, str) or end not in known:
                raise TopologyError(f"a link of {self.name!r} ends at {shown(end)}, which is no device of it")
        if link.src == link.dst:
            raise TopologyError(f"a link of {self.name!r} leads from {link.src} to itself")
        check_cost("alpha_us", link.alpha_us, f"{link.src} -> {link.dst}")
        check_cost("beta_us_per_mb", link.beta_us_per_mb, f"{link.src} -> {link.dst}")

    @cached_property
    def gpus(self) -> tuple[Device, ...]:
        """The ranks by number: the GPUs, and after them the helpers."""
        return tuple(device for kind in RANKS for device in self.devices if device.kind == kind)

    @cached_property
    def rank_of(self) -> dict[str, int]:
        """GPU name -> rank."""
        return {gpu.name: rank for rank, gpu in enumerate(self.gpus)}

    @property
    def num_ranks(self) -> int:
        return len(self.gpus)

    @cached_property
    def num_helpers(self) -> int:
        """Ranks without data: the last ones."""
        return sum(device.kind == "helper" for device in self.devices)

    @property
    def num_members(self) -> int:
        """Ranks with data."""
        return self.num_ranks - self.num_helpers

    @cached_property
    def sums_at(self) -> str:
        """` with in-switch sums`, ` with sums at servers` or both; empty where only GPUs sum."""
        summing = [helper for helper in self.gpus[self.num_members :] if helper.may_sum]
        found = ["in-switch sums"] * any(helper.at is not None for helper in summing)
        found += ["sums at servers"] * any(helper.at is None for helper in summing)
        return f" with {' and '.join(found)}" if found else ""

    def sums_for(self, collective: Collective) -> str:
        """`sums_at` where a collective sums, else nothing: what follows its name in every report."""
        return self.sums_at if collective.is_reduction else ""

    @cached_property
    def num_nodes(self) -> int:
        """Nodes with GPUs; servers of their own are none."""
        return len({gpu.node for gpu in self.gpus[: self.num_members]})

    @cached_property
    def _finder(self) -> PathFinder:
        return PathFinder(self.devices, self.links)

    def path(self, src_rank: int, dst_rank: int) -> Path | None:
        """The best way from one GPU to another past no other GPU.

        A direct link if there is one; else the way with the least beta, then the least alpha,
        through switches and PCIe bridges, and between nodes also through NICs and the fabric. None
        if there is none, or if the ranks are the same.

        Raises
        ------
        TopologyError : a rank that the machine does not have.
        """
        self._check_ranks(src_rank, dst_rank)
        return self._finder.path(src_rank, dst_rank)

    def paths_from(self, src_rank: int) -> Mapping[int, Path]:
        """The rank of each other GPU that has a `path` from this one -> that path.

        Raises
        ------
        TopologyError : a rank that the machine does not have.
        """
        self._check_ranks(src_rank)
        return self._finder.paths_from(src_rank)

    def host_path(self, src_rank: int, dst_rank: int) -> Path | None:
        """`path`; where GPUs of different nodes have none, the way from NIC to NIC.

        A GPU that is not next to a NIC is then served through its host: the path's links are those
        from the NIC nearest to the source (fewest links, passing anything) to the NIC nearest to
        the destination, and no others. None if a node has no NIC or the NICs are not connected.

        Raises
        ------
        TopologyError : a rank that the machine does not have.
        """
        self._check_ranks(src_rank, dst_rank)
        return self._finder.host_path(src_rank, dst_rank)

    def _check_ranks(self, *ranks: int) -> None:
        for rank in ranks:
            if not is_whole(rank) or not 0 <= rank < self.num_ranks:
                raise TopologyError(
                    f"{self.name!r} has ranks 0 .. {self.num_ranks - 1}, and no rank {shown(rank)}"
                )

    def nic_count(self, node: int) -> int:
        """How many NICs a node has."""
        return len(self._finder.nics.get(node, ()))

    def with_occupancy(self, occupancy: Occupancy) -> PhysicalTopology:
        """The same machine under the other rule for busy ports."""
        return replace(self, occupancy=occupancy)

    @cached_property
    def link_classes(self) -> tuple[LinkClass, ...]:
        """The links counted by the kinds of their ends and by their cost."""
        return link_classes(self.devices, self.links)

    def __repr__(self) -> str:
        return f"<{headline(self.name, self.devices, self.links, self.occupancy)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return as_html(self.name, self.devices, self.links, self.occupancy)

    def to_networkx(self) -> nx.DiGraph[str]:
        """Devices as nodes with `kind`, `node` and `local`, links as edges with `index` and their costs."""
        import networkx as nx  # takes long, and few calls need it

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
