"""What tells how nodes are joined, and the fabric with levels that it makes; it knows no GPU."""
