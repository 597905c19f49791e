"""One module for each format of dumps; none knows another."""
