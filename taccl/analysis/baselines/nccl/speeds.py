"""The speeds that NCCL's search tries for a channel, 10**9 bytes per second, and which it halves.

Source: NVIDIA/nccl 2.30.7, src/graph/search.cc.
"""

from __future__ import annotations

from taccl.analysis.baselines.nccl.communicator import Generation

#: Inside one node.
INSIDE: dict[Generation, tuple[float, ...]] = {
    "Volta": (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    "Ampere": (40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3),
    "Hopper": (60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3),
    "Blackwell": (90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18),
}
_BETWEEN_OF_AMPERE = (48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12)
#: Of nodes with a network.
BETWEEN: dict[Generation, tuple[float, ...]] = {
    "Volta": _BETWEEN_OF_AMPERE,
    "Ampere": _BETWEEN_OF_AMPERE,
    "Hopper": (48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12),
    "Blackwell": (
        *(96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3),
        *(2.4, 1.2, 0.24, 0.12),
    ),
}
#: Channels of rings and trees, and heads of NVLS, at most.
MOST_CHANNELS, MOST_HEADS = 32, 32
#: The search ends below this share of the speed of the best graph so far.
LEAST_SHARE = 0.49
#: Channels of less are not doubled; nor, on GPUs newer than Ampere, more than `_MANY` of less than the other.
_DOUBLED_FROM, _DOUBLED_FROM_SINCE_HOPPER, _MANY = 25.0, 50.0, 4


def is_doubled(generation: Generation, channels: int, gbps: float) -> bool:
    """Whether the channels of a ring become twice as many of half the speed."""
    is_new = generation in ("Hopper", "Blackwell")
    return gbps >= _DOUBLED_FROM and not (is_new and gbps < _DOUBLED_FROM_SINCE_HOPPER and channels > _MANY)
