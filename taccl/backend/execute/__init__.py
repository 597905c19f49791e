"""Run programs for real: on NumPy arrays, with real blocking, checked against NumPy."""

from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.run import execute

__all__ = ["Execution", "execute"]
