"""List scheduling: a valid schedule at once, for any size, and the first incumbent of all engines."""

from taccl.encoding.engines.greedy.engine import beginning_with_greedy, greedy

__all__ = ["beginning_with_greedy", "greedy"]
