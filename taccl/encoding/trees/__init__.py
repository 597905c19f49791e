"""Spanning trees at the throughput optimum, for large messages that every rank wants."""

from taccl.encoding.trees.engine import trees

__all__ = ["trees"]
