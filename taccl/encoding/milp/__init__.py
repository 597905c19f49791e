"""TACCL's encoding: routing, ordering, contiguity and exact times, by mixed-integer programming."""

from taccl.encoding.milp.contiguity import rejoined
from taccl.encoding.milp.engine import milp

__all__ = ["milp", "rejoined"]
