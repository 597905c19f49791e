"""Through a switch that sums and copies, as NVLS does: built where the machine has one, not searched."""

from taccl.encoding.engines.in_switch.engine import across_chunks, in_switch, named, serves

__all__ = ["across_chunks", "in_switch", "named", "serves"]
