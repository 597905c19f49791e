"""Why there is no schedule, or none by a target time: the lines that are to blame, and what would help."""

from taccl.explained.conflict import Conflict, Line
from taccl.explained.explanation import Explanation
from taccl.explained.reasons import explain

__all__ = ["Conflict", "Explanation", "Line", "explain"]
