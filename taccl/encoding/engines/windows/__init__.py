"""Local search between greedy and proof: windows of the best schedule, decided anew by CP-SAT."""

from taccl.encoding.engines.windows.engine import serves, windows

__all__ = ["serves", "windows"]
