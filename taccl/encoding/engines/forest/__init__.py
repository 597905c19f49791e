"""Forests: a spanning tree for each chunk, all in one pipeline of sums and copies."""

from taccl.encoding.engines.forest.engine import forest, is_compiled, serves

__all__ = ["forest", "is_compiled", "serves"]
