"""A request becomes a checked schedule and its files."""
