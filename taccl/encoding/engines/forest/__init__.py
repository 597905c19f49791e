"""Forests: a spanning tree for each chunk, all in one pipeline of sums and copies."""

from taccl.encoding.engines.forest.engine import forest, serves

__all__ = ["forest", "serves"]
