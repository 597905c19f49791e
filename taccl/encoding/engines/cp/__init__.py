"""Constraint programming: routes, orders and groups decided at once, by OR-tools CP-SAT."""

from taccl.encoding.engines.cp.engine import cp, has_few_ways, is_for_one_model, jointly
from taccl.encoding.engines.cp.sums_engine import all_programs, is_for_all_programs

__all__ = ["all_programs", "cp", "has_few_ways", "is_for_all_programs", "is_for_one_model", "jointly"]
