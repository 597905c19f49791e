"""Run plans for real: on NumPy arrays, with asynchronous ports, call after call, checked against NumPy."""

from taccl.backend.execute_plan.run import execute_plan

__all__ = ["execute_plan"]
