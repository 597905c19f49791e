r"""The volume bound: how many transfers must cross between parts, and how many the ports there have room for.

`partitions` says why N transfers of one chunk must cross from part to part, for any partition of the ranks.
With each crossing link counted at one of its ports, T must satisfy

    N  <=  sum over ports of floor((T - alpha_p) / (s * beta_p)),

because what a port passes by T keeps it busy for s * beta_p each, and at least an alpha of some link is
left over: before the first or after the last, whichever end of a send its port is busy at.

For an AllReduce it sees that the same ports carry both the sums and the copies: 2(k - 1) crossings of each
chunk between k nodes, in both directions together, which no cut around one node can say.
"""

from __future__ import annotations

from collections.abc import Sequence

from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.capacity import least_time, rates_of_covers
from taccl.encoding.bounds.partitions import Partition, least_crossings
from taccl.problem import Problem


def volume_bound(problem: Problem, partitions: Sequence[Partition]) -> Bound:
    """The best over the given partitions: when their crossing links can have carried all that must cross."""
    nothing = Bound(0.0, "nothing has to move", "volume")
    # Rounded, so that of equal ones the first is taken.
    bounds = (_of(problem, partition) for partition in partitions)
    return max(bounds, key=lambda bound: float(f"{bound.value_us:.9g}"), default=nothing)


def _of(problem: Problem, partition: Partition) -> Bound:
    transfers, links = least_crossings(problem, partition), partition.crossing(problem)
    if not transfers or not len(links):
        return Bound(0.0, "nothing has to move", "volume")
    covers = rates_of_covers(problem, links)
    value_us, ports = max((least_time(transfers, rates.values()), len(rates)) for rates in covers)
    return Bound(value_us, f"{transfers} transfers between {partition.name} through {ports} ports", "volume")
