"""Pipelines of one root: chunk after chunk goes wherever it is lacking."""

from taccl.encoding.engines.streams.engine import across_chunks, is_compiled, serves, streams

__all__ = ["across_chunks", "is_compiled", "serves", "streams"]
