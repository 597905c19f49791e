"""Numbers of rounds that were chosen, each with the measurement that chose it."""

#: What it takes to start the messages of a round on a GPU, us: PyTorch's smallest calls of NCCL take 17 to 20
#: us on eight H200, and grouped sends and receives are such a call (sgl-project/sglang#22734).
LAUNCH_US = 17.0
#: The most messages that a page and a table list of one round.
SHOWN = 20
