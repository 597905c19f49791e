"""Times become costs: what benchmarks and runs measured, as the alphas, betas and executors of machines."""
