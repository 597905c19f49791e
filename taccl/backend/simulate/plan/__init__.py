"""A plan, operation by operation, whose bytes share links and ports."""
