"""What is of one-sided plans alone: their calls, memory, operations and ports."""

from taccl.backend.execute.one_sided.run import execute_plan

__all__ = ["execute_plan"]
