"""Pipelines of one root: few trees at balanced loads carry chunk after chunk at equal intervals."""

from taccl.encoding.engines.streams.engine import across_chunks, is_compiled, serves, streams

__all__ = ["across_chunks", "is_compiled", "serves", "streams"]
