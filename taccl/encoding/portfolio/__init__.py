"""Which engine runs when, and for how long. It does not know how an engine works."""
