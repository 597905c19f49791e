"""Which lines of a sketch contradict each other, as minimal cores by z3."""
