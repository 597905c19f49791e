"""From schedules and from two-sided programs to one-sided plans."""

from taccl.backend.lower_plan.lowering import PlanLowering, lower_to_plan, translate

__all__ = ["PlanLowering", "lower_to_plan", "translate"]
