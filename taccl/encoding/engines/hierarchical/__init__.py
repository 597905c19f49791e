"""Hierarchical composition: one node's part of a collective, which all equal nodes do at once."""

from taccl.encoding.engines.hierarchical.engine import hierarchical, serves

__all__ = ["hierarchical", "serves"]
