"""Lowering: from a schedule to programs that runtimes execute."""

from taccl.backend.lower.dialects import Target
from taccl.backend.lower.lowering import Lowered, lower

__all__ = ["Lowered", "Target", "lower"]
