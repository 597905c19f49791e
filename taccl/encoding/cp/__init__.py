"""Constraint programming: routes, orders and groups decided at once, by OR-tools CP-SAT."""

from taccl.encoding.cp.engine import cp, has_few_ways, is_for_one_model, jointly

__all__ = ["cp", "has_few_ways", "is_for_one_model", "jointly"]
