"""List scheduling: a valid schedule at once, for any size, and the first incumbent of all engines."""

from taccl.encoding.engines.greedy.along_trees import compile_trees, has_trees
from taccl.encoding.engines.greedy.engine import greedy, greedy_at_once, is_quick

__all__ = ["compile_trees", "greedy", "greedy_at_once", "has_trees", "is_quick"]
