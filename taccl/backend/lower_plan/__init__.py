"""From schedules and from two-sided programs to one-sided plans."""

from taccl.backend.lower_plan.lowering import lower_to_plan
from taccl.backend.lower_plan.translate import translate

__all__ = ["lower_to_plan", "translate"]
