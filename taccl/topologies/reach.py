"""Which GPUs reach which past no other GPU, without looking for any path.

A machine whose GPUs all reach each other has a path for each pair of them, which takes long to find where
there are many; so pairs are counted first.
"""

from __future__ import annotations

import numpy as np

from taccl.model.collective import BoolArray
from taccl.support.lists import joined
from taccl.support.size_limits import MAX_LINKS, check_links
from taccl.topologies.devices import BETWEEN_NODES, INSIDE_NODE, DeviceKind
from taccl.topologies.importers.nodes.gpus import arch_of_model
from taccl.topologies.model import PhysicalTopology


def may_reach(topology: PhysicalTopology) -> BoolArray:
    """Whether the GPU of a row has a way to that of a column past no GPU, shape (num_ranks, num_ranks).

    In a node routes pass switches and PCIe bridges, between nodes NICs and the fabric too. Links between
    such devices count both directions: where some lead one way only, there may be fewer pairs than these.
    """
    node = np.array([gpu.node for gpu in topology.gpus])
    same = node[:, None] == node
    inside, between = (_past(topology, passed) for passed in (INSIDE_NODE, BETWEEN_NODES))
    return np.asarray(np.where(same, inside, between))


def nvlinked_pairs(topology: PhysicalTopology) -> frozenset[tuple[int, int]]:
    """The GPUs of a node that reach each other by NVLinks and NVSwitches alone; none but of NVIDIA's GPUs."""
    if topology.gpu is None or not (arch_of_model(topology.gpu) or "").startswith("sm"):
        return frozenset()
    node = np.array([gpu.node for gpu in topology.gpus])
    reached = _past(topology, frozenset(("switch",))) & (node[:, None] == node)
    return frozenset((src, dst) for src, dst in np.argwhere(reached).tolist() if src != dst)


def check_pairs(topology: PhysicalTopology) -> None:
    """Raise TopologyError where this many GPUs reach each other that finding all paths takes too long."""
    if topology.num_ranks**2 > MAX_LINKS:
        check_links(topology.name, int(may_reach(topology).sum()))


def _past(topology: PhysicalTopology, passed: frozenset[DeviceKind]) -> BoolArray:
    """As `may_reach`, past devices of these kinds wherever they are."""
    rank_of, part_of = topology.rank_of, _parts(topology, passed)
    number = {part: i for i, part in enumerate(sorted(set(part_of.values())))}
    leaves = np.zeros((topology.num_ranks, len(number)), dtype=np.float32)
    enters = np.zeros_like(leaves)
    reached = np.zeros((topology.num_ranks, topology.num_ranks), dtype=np.bool_)
    for link in topology.links:
        if link.src in rank_of and link.dst in rank_of:
            reached[rank_of[link.src], rank_of[link.dst]] = True
        elif link.src in rank_of and link.dst in part_of:
            leaves[rank_of[link.src], number[part_of[link.dst]]] = 1
        elif link.dst in rank_of and link.src in part_of:
            enters[rank_of[link.dst], number[part_of[link.src]]] = 1
    for rank, device in enumerate(topology.gpus):
        if device.at in part_of:
            leaves[rank, number[part_of[device.at]]] = enters[rank, number[part_of[device.at]]] = 1
    reached |= leaves @ enters.T > 0
    np.fill_diagonal(reached, False)
    return reached


def _parts(topology: PhysicalTopology, passed: frozenset[DeviceKind]) -> dict[str, str]:
    """Each device of these kinds with one that stands for all that it is joined to past no GPU."""
    names = dict.fromkeys(device.name for device in topology.devices if device.kind in passed)
    pairs = ((link.src, link.dst) for link in topology.links if link.src in names and link.dst in names)
    return {name: part[0] for part in joined(names, pairs) for name in part}
