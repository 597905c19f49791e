"""Run files for real: on NumPy arrays, with real blocking, checked against NumPy."""

from taccl.backend.execute.one_sided.run import execute_plan
from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.two_sided.run import execute

__all__ = ["Execution", "execute", "execute_plan"]
