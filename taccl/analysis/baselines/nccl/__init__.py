"""NCCL's own choice of an algorithm and a protocol, and the time that it expects, as pure functions."""

from taccl.analysis.baselines.nccl.communicator import (
    Algorithm,
    Communicator,
    Generation,
    Graph,
    Protocol,
)
from taccl.analysis.baselines.nccl.graphs import communicator_of
from taccl.analysis.baselines.nccl.model import Choice, Estimate, choice, estimates, time_us
from taccl.analysis.baselines.nccl.releases import RELEASES, Release, release_named

__all__ = [
    "RELEASES",
    "Algorithm",
    "Choice",
    "Communicator",
    "Estimate",
    "Generation",
    "Graph",
    "Protocol",
    "Release",
    "choice",
    "communicator_of",
    "estimates",
    "release_named",
    "time_us",
]
