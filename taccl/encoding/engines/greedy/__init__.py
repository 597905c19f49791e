"""List scheduling: a valid schedule at once, for any size, and the first incumbent of all engines."""

from taccl.encoding.engines.greedy.engine import greedy

__all__ = ["greedy"]
