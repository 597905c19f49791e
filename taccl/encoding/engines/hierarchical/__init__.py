"""Hierarchical composition: one node's part of a collective, which all equal nodes do at once."""

from taccl.encoding.engines.hierarchical.engine import hierarchical, of_node_0, serves

__all__ = ["hierarchical", "of_node_0", "serves"]
