"""TACCL's encoding: routing, ordering, contiguity and exact times, by mixed-integer programming."""

from taccl.encoding.engines.milp.contiguity import rejoined
from taccl.encoding.engines.milp.engine import milp, regrouped, serves

__all__ = ["milp", "regrouped", "rejoined", "serves"]
