"""What is of programs of sends and receives alone: their calls, memory, connections and steps."""

from taccl.backend.execute.two_sided.run import execute

__all__ = ["execute"]
