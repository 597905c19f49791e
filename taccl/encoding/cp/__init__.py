"""Constraint programming: routes, orders and groups decided at once, by OR-tools CP-SAT."""

from taccl.encoding.cp.engine import cp

__all__ = ["cp"]
