"""The MILP engine: routes by a mixed-integer program, and orders by list scheduling, after TACCL."""

from taccl.encoding.engines.milp.engine import milp, serves

__all__ = ["milp", "serves"]
