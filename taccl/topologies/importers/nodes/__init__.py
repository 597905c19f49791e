"""What tools print about a machine, as facts with the lines that tell them, and as a machine."""
