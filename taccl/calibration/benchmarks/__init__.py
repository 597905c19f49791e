"""What benchmarks print, and the costs that fit it."""
