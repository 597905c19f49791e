"""Spanning trees at the throughput optimum, for large messages that every rank wants."""

from taccl.encoding.engines.trees.engine import is_for_trees, trees

__all__ = ["is_for_trees", "trees"]
