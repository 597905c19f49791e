"""Constraint programming: routes, orders and groups decided at once, by OR-tools CP-SAT."""

from taccl.encoding.engines.cp.engine import is_small, jointly, serves, serves_jointly
from taccl.encoding.engines.cp.sums_engine import all_programs, serves_all_programs

__all__ = ["all_programs", "is_small", "jointly", "serves", "serves_all_programs", "serves_jointly"]
