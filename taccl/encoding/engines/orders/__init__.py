"""The best order of a schedule's own sends, by difference logic in z3, and the proof that it is."""

from taccl.encoding.engines.orders.engine import smt

__all__ = ["smt"]
