"""Each chunk along its shortest paths: the engine that knows every feature of a problem."""

from taccl.encoding.engines.shortest.engine import serves, shortest

__all__ = ["serves", "shortest"]
