"""How many links from rank to rank a sketch will make of a machine, without looking for any path."""

from __future__ import annotations

import numpy as np

from taccl.sketch.layout import Layout
from taccl.sketch.model import Internode, Sketch
from taccl.topologies.model import PhysicalTopology
from taccl.topologies.reach import may_reach


def count_links(sketch: Sketch, topology: PhysicalTopology, layout: Layout) -> int:
    """The number of links from rank to rank, or somewhat more."""
    same_node = layout.node_of[:, None] == layout.node_of
    reached = may_reach(topology)
    if sketch.internode.strategy == "none":
        return int(reached.sum())
    return int((reached & same_node).sum()) + _named_between_nodes(sketch.internode, layout)


def _named_between_nodes(internode: Internode, layout: Layout) -> int:
    sizes = np.array([len(ranks) for ranks in layout.ranks])
    if internode.strategy == "fully-connected":
        return int(sizes.sum() ** 2 - (sizes**2).sum())
    if internode.strategy == "direct-map":
        return int(np.minimum(sizes[:, None], sizes).sum() - sizes.sum())
    relayed = {(relay.sender, receiver) for relay in internode.relays for receiver in relay.receivers}
    return len(relayed) * len(sizes) * (len(sizes) - 1)
