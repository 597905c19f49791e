"""Lowering: from a schedule to programs that runtimes execute."""

from taccl.backend.lower.lowering import lower

__all__ = ["lower"]
