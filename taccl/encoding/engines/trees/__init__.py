"""Spanning trees at the throughput optimum, for large messages that every rank wants."""

from taccl.encoding.engines.trees.engine import serves, trees

__all__ = ["serves", "trees"]
