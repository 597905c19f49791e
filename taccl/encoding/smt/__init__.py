"""What z3 decides: SCCL's steps, rounds and chunks (Cai et al., PPoPP 2021), and the order of given sends.

A synchronous algorithm runs in *steps*. A step takes a number of *rounds*, and in each round a link
carries as many chunks as its bandwidth is larger than the slowest link's. Steps stand for latency,
rounds for bandwidth. `walk` goes from the fewest steps to the fewest rounds per chunk.

`smt` finds the best order of a schedule's sends, by difference logic, and proves that it is.
"""

from taccl.encoding.smt.engine import smt
from taccl.encoding.smt.points import Point, Undecided, walk
from taccl.encoding.smt.rounds import RoundBound, RoundNetwork, fewest_steps, round_bound, round_network
from taccl.encoding.smt.solve import Verdict, decide

__all__ = [
    "Point",
    "RoundBound",
    "RoundNetwork",
    "Undecided",
    "Verdict",
    "decide",
    "fewest_steps",
    "round_bound",
    "round_network",
    "smt",
    "walk",
]
