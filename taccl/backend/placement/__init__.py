"""Where sums are made, as a file for servers that aggregate: which chunk meets where, who hands over what."""
