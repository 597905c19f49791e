"""Clusters of small equal nodes: gather in each node, cross between nodes, spread, each searched exactly.

What crosses from one node to another goes over one link between them, in few groups. So a schedule falls into
parts that hardly touch: what comes to the node's way out before each group leaves, the groups, and what
becomes of them in the node that they come to. Each part inside a node is small enough for CP-SAT.

`nodes` finds the equal nodes, `crossing` the routes to cross and what each is worth at best,
`sending_model.in_node` decides what happens in one node, and `engine` puts the parts together.
"""

from taccl.encoding.engines.gather_cross_scatter.engine import gather_cross_scatter, serves

__all__ = ["gather_cross_scatter", "serves"]
