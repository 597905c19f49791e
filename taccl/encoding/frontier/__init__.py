"""SCCL's steps, rounds and chunks (Cai et al., PPoPP 2021), by z3. It does not know the portfolio.

A synchronous algorithm runs in *steps*. A step takes a number of *rounds*, and in each round a link
carries as many chunks as its bandwidth is larger than the slowest link's. Steps stand for latency,
rounds for bandwidth. `walk` goes from the fewest steps to the fewest rounds per chunk.
"""

from taccl.encoding.frontier.points import Point, Undecided, walk
from taccl.encoding.frontier.rounds import RoundBound, RoundNetwork, fewest_steps, round_bound, round_network
from taccl.encoding.frontier.solve import ModelVerdict, decide

__all__ = [
    "ModelVerdict",
    "Point",
    "RoundBound",
    "RoundNetwork",
    "Undecided",
    "decide",
    "fewest_steps",
    "round_bound",
    "round_network",
    "walk",
]
