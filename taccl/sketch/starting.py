"""A commented first sketch for a machine, to be edited."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from string import Template

from taccl.model.automorphism import broken_by
from taccl.model.units import MB, format_size
from taccl.sketch.layout import SketchLayout, layout_of
from taccl.sketch.limits import routing_limits
from taccl.sketch.load import parse_sketch
from taccl.sketch.model import Rotation, Sketch
from taccl.sketch.network import logical_topology
from taccl.sketch.symmetry import rank_map
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.reach import check_pairs
from taccl.topologies.without import without_helpers

_HEAD = Template("""\
# A sketch for $title.
# It says which links an algorithm may use; the solver finds the rest. Edit it, then check it:
#   taccl sketch check FILE

topology: $topology
nodes: $nodes                # a default: --nodes overrides it

# The message size it is meant for, as nccl-tests counts it (here 1 MB per chunk of an AllGather).
size: $size

# Pieces that each rank's part is cut into: more overlap better, and cost more alphas.
chunks_per_rank: 1
""")
_INTRANODE = """\
# Links inside a node.
#   none            all links, as they are
#   switch          only between GPUs that one of `switches` joins
#   minmax, maxmin  all links, and the load spread over them
intranode:
"""
_SWITCH = """\
  strategy: switch
  switches:
    - gpus: all         # or a list: [0, 1, 2, 3]
      policy: uc-min    # uc-min: few connections (large sizes); uc-max: many (small sizes)
"""
_NO_SWITCH = """\
  strategy: none
"""
_INTERNODE = """\
# Links between nodes. GPUs are numbered inside their node, and what is said holds for every node.
#   relay            only from a sender to its receivers, as listed
#   direct-map       GPU i to GPU i
#   fully-connected  every GPU to every GPU
#   none             between GPUs that a link or a NIC next to them joins, as they are
internode:
"""
_MORE = """\
  # own_first: true         # a sender's own chunks leave before those it carries for others
  # nic_sharing: static     # TACCL's rule: beta times links / NICs, used or not
"""
_SYMMETRY = """\
# Permutations that leave the network as it is: every GPU moves on by `rotate` within its group.
# They make the search smaller, and the algorithm symmetric.
symmetry:
"""


def starting_sketch(topology: PhysicalTopology, name: str) -> str:
    """The text of a sketch for a machine that `load_topology` knows by `name`; loads and applies as it is.

    Between nodes, one GPU next to each NIC sends and another receives (or the same, where there is
    only one). The symmetries in it are those of the network that it makes.
    """
    topology = without_helpers(topology)  # sketches choose links of GPUs
    check_pairs(topology)
    layout = layout_of(topology)
    nodes = len(layout.ranks)
    machine = f"{name}, {nodes} node{'s' if nodes > 1 else ''}, {layout.num_ranks} GPUs"
    sections = [
        _HEAD.substitute(
            title=" ".join(machine.split()),
            topology=json.dumps(name),
            nodes=nodes,
            size=format_size(layout.num_ranks * MB),
        ),
        _INTRANODE + (_SWITCH if _all_behind_switch(topology, layout) else _NO_SWITCH),
    ]
    if nodes > 1:
        sections.append(_INTERNODE + _strategy(topology, layout) + _MORE)
    rotations = _rotations("\n".join(sections), topology, layout)
    if rotations:
        lines = (f"  - {{rotate: {r.offset}, within: {r.group}}}\n" for r in rotations)
        sections.append(_SYMMETRY + "".join(lines))
    return "\n".join(sections)


def proposed_sketch(topology: PhysicalTopology) -> Sketch | None:
    """The first sketch of a machine, for searches; None: it has no NIC that several GPUs of a node share.

    Of GPUs that share a NIC, one sends for all and another receives. docs/results/tried.md has what it
    gained, and that other rules gained little.

    Raises
    ------
    TacclError : a machine that no first sketch is for.
    """
    layout = layout_of(without_helpers(topology))
    if len(layout.ranks) == 1 or max(map(len, _gpus_by_nic(topology, layout)), default=1) == 1:
        return None
    sketch = parse_sketch(starting_sketch(topology, topology.name))
    return replace(sketch, name="senders-and-receivers")


def _all_behind_switch(topology: PhysicalTopology, layout: SketchLayout) -> bool:
    """Whether all pairs of GPUs of a node have a path, and none is a direct link."""
    pairs = [(a, b) for ranks in layout.ranks for a, b in product(ranks, ranks) if a != b]
    paths = [topology.path(a, b) for a, b in pairs]
    return bool(paths) and all(path is not None and len(path.links) > 1 for path in paths)


def _strategy(topology: PhysicalTopology, layout: SketchLayout) -> str:
    groups = _gpus_by_nic(topology, layout)
    if not groups:
        return "  strategy: none\n"
    relays = "".join(f"    {gpus[-1]}: [{gpus[0]}]\n" for gpus in groups)
    text = f"  strategy: relay\n  relay:                    # sender: [receivers]\n{relays}"
    if len(groups) > 1 and sum(map(len, groups)) == layout.smallest_node:
        senders = "".join(f"    {gpus[-1]}: {gpus}\n" for gpus in groups)
        text += f"  sender_for:               # sender: [GPUs whose chunks leave through it]\n{senders}"
    return text


def _gpus_by_nic(topology: PhysicalTopology, layout: SketchLayout) -> list[list[int]]:
    """The GPUs (by local index) that send through each NIC next to them; empty if the nodes differ."""
    kind_of = {device.name: device.kind for device in topology.devices}
    by_node = []
    for here, there in zip(layout.ranks, layout.ranks[1:] + layout.ranks[:1], strict=True):
        groups: dict[str, list[int]] = {}
        for rank in here:
            path = next(filter(None, (topology.path(rank, other) for other in there)), None)
            passed = [topology.links[link].dst for link in path.links] if path else []
            nic = next((device for device in passed if kind_of[device] == "nic"), None)
            if nic is not None:
                groups.setdefault(nic, []).append(int(layout.local_of[rank]))
        by_node.append(sorted(groups.values()))
    return by_node[0] if all(groups == by_node[0] for groups in by_node) else []


def _rotations(text: str, topology: PhysicalTopology, layout: SketchLayout) -> list[Rotation]:
    """The smallest rotation inside a node, and that of the nodes, where the network has them."""
    sketch = parse_sketch(text)
    logical = logical_topology(sketch, topology, layout)
    limits = routing_limits(sketch, logical, layout)
    size = layout.gpus_per_node
    if size is None:
        return []
    inside = [Rotation(offset, "node") for offset in range(1, size // 2 + 1) if size % offset == 0]
    found = []
    for alternatives in (inside, [Rotation("node", "machine")] if len(layout.ranks) > 1 else []):
        for rotation in alternatives:
            if broken_by(rank_map(sketch, rotation, layout), logical, limits) is None:
                found.append(rotation)
                break
    return found
