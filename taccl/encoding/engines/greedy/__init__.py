"""List scheduling: a valid schedule at once, for any size, and the first incumbent of all engines."""

from taccl.encoding.engines.greedy.along_trees import along_trees
from taccl.encoding.engines.greedy.along_trees import serves as serves_along_trees
from taccl.encoding.engines.greedy.engine import greedy, is_quick

__all__ = ["along_trees", "greedy", "is_quick", "serves_along_trees"]
