"""Which ranks make up each node, and the checks that a sketch's GPU numbers need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from taccl.model.collective import IntArray
from taccl.sketch.model import Sketch
from taccl.topologies.model import PhysicalTopology


@dataclass(frozen=True, eq=False)
class SketchLayout:
    """Where each rank sits.

    Parameters
    ----------
    ranks : per node, its ranks by local index: its GPUs, then its helpers. Helpers of no node make up one.
    node_of, local_of : shape (num_ranks,); the node, and the index in it, of each rank.
    num_members : how many of the ranks, the first ones, are GPUs.
    """

    ranks: tuple[tuple[int, ...], ...]
    node_of: IntArray
    local_of: IntArray
    num_members: int

    @property
    def num_ranks(self) -> int:
        return len(self.node_of)

    @property
    def smallest_node(self) -> int:
        """GPUs that every node has at least."""
        return int(np.unique(self.node_of[: self.num_members], return_counts=True)[1].min())

    @property
    def gpus_per_node(self) -> int | None:
        """GPUs of each node if the nodes are equivalent and their ranks follow one another, else None."""
        gpus = self.node_of[: self.num_members]
        blocks = np.array_equal(gpus, np.arange(len(gpus)) // self.smallest_node)
        return self.smallest_node if blocks else None


def layout_of(topology: PhysicalTopology) -> SketchLayout:
    """The layout of a machine; nodes are numbered in the order of their first ranks."""
    ranks: dict[int, list[int]] = {}
    for rank, gpu in enumerate(topology.gpus):
        ranks.setdefault(gpu.node, []).append(rank)
    node_of = np.zeros(topology.num_ranks, dtype=np.int64)
    local_of = np.zeros(topology.num_ranks, dtype=np.int64)
    for node, members in enumerate(ranks.values()):
        node_of[members] = node
        local_of[members] = np.arange(len(members))
    return SketchLayout(tuple(map(tuple, ranks.values())), node_of, local_of, topology.num_members)


def check_gpu_numbers(sketch: Sketch, layout: SketchLayout, topology_name: str) -> None:
    """Raise SketchError, with its line, for a GPU that a node does not have."""
    for switch in sketch.intranode.switches:
        _check(sketch, layout, topology_name, switch.gpus or (), switch.line)
    for relay in sketch.internode.relays:
        _check(sketch, layout, topology_name, (relay.sender, *relay.receivers), relay.line)
    for entry in sketch.internode.sender_for:
        _check(sketch, layout, topology_name, (entry.sender, *entry.owners), entry.line)


def _check(
    sketch: Sketch, layout: SketchLayout, topology_name: str, gpus: Iterable[int], line: int | None
) -> None:
    for gpu in gpus:
        if not 0 <= gpu < layout.smallest_node:
            raise sketch.error(
                f"GPU {gpu} is out of range: a node of {topology_name} has "
                f"GPUs 0 .. {layout.smallest_node - 1}",
                line=line,
                hint="GPUs are numbered inside their node, from 0, whatever the number of nodes",
            )
