"""Why there is no schedule, or none by a target time: the lines that are to blame, and what would help."""

from taccl.analysis.explained.conflict import Conflict, Line
from taccl.analysis.explained.explanation import Explanation
from taccl.analysis.explained.reasons import explain

__all__ = ["Conflict", "Explanation", "Line", "explain"]
