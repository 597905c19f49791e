"""What benchmarks print, and the costs that fit it; it knows no machine."""
