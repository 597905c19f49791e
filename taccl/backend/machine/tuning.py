"""Numbers of the machine that bound memory, not results."""

#: Entries of one table of clocks (4 bytes each): 128 MiB, 8 blocks of 2.1 million steps in a pass.
CLOCK_ENTRIES = 2**25
#: Bits of one pass of reachability; Python's integers are as long as this.
REACH_BITS = 2**12
