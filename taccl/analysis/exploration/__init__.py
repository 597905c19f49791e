"""Which algorithm at which size: one command for a machine, its collectives and a range of sizes."""
