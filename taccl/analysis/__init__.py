"""Questions about a problem, a machine or a file that need no new schedule."""
