"""What pairs share, reported from runs of several pairs at once: independent ports, and PCIe switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

Pair = tuple[int, int]
#: A number of ports must be this near to a whole one.
_WHOLE = 0.10
#: Pairs below this share of the median have one way up in common.
_SHARES = 0.75


@dataclass(frozen=True)
class Ports:
    """How many independent ports several pairs have between them.

    Parameters
    ----------
    pairs : how many were busy at once.
    alone_gbps, together_gbps : one pair, and the sum of all, GB/s.
    ports : how many there are; None where one pair does not fill a port.
    port_gbps : of one of them; None likewise.
    is_full : more pairs than these moved no more.
    """

    pairs: int
    alone_gbps: float
    together_gbps: float
    ports: int | None
    port_gbps: float | None
    is_full: bool


def ports_of(sums_gbps: Mapping[int, float]) -> Ports | None:
    """Ports from the sum of the bandwidths of k pairs at once, by k.

    The sum of k pairs over that of one, if within 10% of a whole number, is the number of ports; the sum over
    it is the speed of one. None where one pair alone, or several, were not measured.
    """
    if 1 not in sums_gbps or len(sums_gbps) < 2:
        return None
    most = max(sums_gbps)
    alone = sums_gbps[1]
    best = max(sums_gbps, key=lambda pairs: (round(sums_gbps[pairs] / alone, 2), -pairs))
    together = sums_gbps[best]
    ratio = together / alone
    whole = max(1, round(ratio))
    is_whole = abs(ratio - whole) <= _WHOLE * whole
    is_full = any(
        sums_gbps[pairs] < 1.05 * sums_gbps[fewer]
        for pairs in sums_gbps
        for fewer in sums_gbps
        if 1 <= fewer < pairs
    )
    return Ports(
        most, alone, together, whole if is_whole else None, together / whole if is_whole else None, is_full
    )


def pcie_switches(gbps: Mapping[Pair, float]) -> list[tuple[int, ...]]:
    """GPUs under one PCIe switch, from copies through the host both directions at once (P2P disabled).

    Two GPUs under one switch share its way up, so their pair gets half: below 0.75 of the median of all.
    """
    if not gbps:
        return []
    median = float(np.median(list(gbps.values())))
    group_of: dict[int, set[int]] = {}
    for (a, b), value in sorted(gbps.items()):
        if value < _SHARES * median:
            joined = group_of.get(a, {a}) | group_of.get(b, {b})
            group_of |= dict.fromkeys(joined, joined)
    return sorted({tuple(sorted(group)) for group in group_of.values()})
