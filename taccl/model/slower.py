"""Networks of the same links at other costs: what no schedule beats on one, none beats on a slower one."""

from __future__ import annotations

import numpy as np

from taccl.model.network import LogicalTopology


def is_no_faster(network: LogicalTopology, other: LogicalTopology) -> bool:
    """Whether each transfer on `network` lasts as long as on `other`, and keeps the same ports as busy.

    Then each schedule on `network`, with its sends begun when they are, is one on `other` as well, so a bound
    for `other` holds on `network`. Ports that `network` has in addition only make it slower.
    """
    if network is other:
        return True
    same_ends = np.array_equal(network.src, other.src) and np.array_equal(network.dst, other.dst)
    if not same_ends or network.port_names[: other.num_ports] != other.port_names:
        return False
    if not all(_is_same(network, other, name) for name in ("is_helper", "may_sum", "may_copy", "memory_mb")):
        return False
    if network.occupancy != other.occupancy and other.occupancy == "serial":
        return False
    if (network.alpha_us < other.alpha_us).any() or (network.beta_us_per_mb < other.beta_us_per_mb).any():
        return False
    of_pair = dict(zip(_pairs(network), network.pair_betas.tolist(), strict=True))
    theirs = zip(_pairs(other), other.pair_betas.tolist(), strict=True)
    return all(of_pair.get(pair, -1.0) >= beta for pair, beta in theirs)


def _is_same(network: LogicalTopology, other: LogicalTopology, name: str) -> bool:
    mine, theirs = getattr(network, name), getattr(other, name)
    return (mine is None) == (theirs is None) and (mine is None or np.array_equal(mine, theirs))


def _pairs(network: LogicalTopology) -> list[tuple[int, int]]:
    link, port = network.incidence
    return list(zip(link.tolist(), port.tolist(), strict=True))
