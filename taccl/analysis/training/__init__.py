"""A training step on a machine: layers, buckets of gradients, and how long it waits for its collectives."""
