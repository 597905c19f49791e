"""Numbers of the search for rings and trees."""

#: More channels are in no file: a library that opens fewer leaves the last ones out.
MOST_CHANNELS = 32
#: More than this many per cent faster, and further channels are worth it: measured on cube meshes and full
#: meshes of 8 GPUs, where 4 to 8 are within this of any number.
WORTH = 0.01
#: Numbers of channels that are tried.
TRIED = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
#: Trials for each number of channels, and the most that are taken out at once.
TRIALS, AT_ONCE = 60, 3
#: How much dearer a port becomes with the share of its load in the largest load, and the noise of prices.
STEEP, NOISE = 8.0, 0.3
#: Children of a GPU in a tree: NCCL_MAX_TREE_ARITY.
MOST_CHILDREN = 3
#: The cheapest ring is found by all subsets of GPUs: 16 take 60 ms, each one more doubles that. RCCL's
#: largest machines, those of MI250X, have 16.
MOST_GPUS = 16
