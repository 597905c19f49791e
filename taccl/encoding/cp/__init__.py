"""Constraint programming: routes, orders and groups decided at once, by OR-tools CP-SAT."""

from taccl.encoding.cp.engine import cp, jointly

__all__ = ["cp", "jointly"]
