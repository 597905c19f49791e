r"""The volume bound: how many transfers there must be, and how many all ports together have room for.

A copied chunk has to be received by every rank that wants it and lacks it: |D - U| transfers. A sum
of |U| contributions for |D| ranks takes at least (|U| - 1) + (|D| - 1): take the transfers in the order of
their ends, up to the first after which some rank has the whole sum. By then every other
contributor has sent, so these are at least |U| - 1; after it every other wanting rank still has to
receive. (Gossip by one-way messages takes 2n - 2; Harary and Schwenk 1974.)

With N transfers in all, and each link counted at one of its ports, T must satisfy

    N  <=  sum over ports of floor((T - alpha_p) / (s * beta_p)).

This is AllReduce's own bound: it sees that the same ports carry both the sums and the copies.
"""

from __future__ import annotations

import numpy as np

from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.capacity import least_time, rates_of_covers
from taccl.problem import Problem


def volume_bound(problem: Problem) -> Bound:
    """When all links together can have carried all transfers that the collective takes."""
    transfers = least_transfers(problem)
    if not transfers or not problem.topology.num_links:
        return Bound(0.0, "nothing has to move", "volume")
    covers = rates_of_covers(problem, np.arange(problem.topology.num_links))
    value_us, ports = max((least_time(transfers, rates.values()), len(rates)) for rates in covers)
    return Bound(value_us, f"{transfers} transfers over all {ports} ports", "volume")


def least_transfers(problem: Problem) -> int:
    """N: how many transfers of one chunk there must be."""
    collective = problem.collective
    copied = (collective.post & ~collective.pre).sum(axis=1)
    summed = collective.pre.sum(axis=1) + collective.post.sum(axis=1) - 2
    return int(np.where(collective.reduces, summed, copied).sum())
