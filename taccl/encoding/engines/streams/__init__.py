"""Pipelines of one root: chunk after chunk goes wherever it is lacking."""

from taccl.encoding.engines.streams.engine import across_chunks, is_compiled, serves, streams, streams_at_once

__all__ = ["across_chunks", "is_compiled", "serves", "streams", "streams_at_once"]
