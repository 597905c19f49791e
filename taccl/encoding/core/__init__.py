"""What `encoding` shares: timing, distances, paths, linear programs, phases, budget."""
