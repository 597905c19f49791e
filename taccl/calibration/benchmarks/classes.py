"""Pairs of GPUs grouped by how fast they are, and those named that are slower than links of their class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

Pair = tuple[int, int]
#: A gap between classes is more than this many times the spread inside them, which is taken as 1% at least.
_GAP, _LEAST_SPREAD = 3.0, 0.01
#: A pair slower than this share of its class is a degraded link.
DEGRADED = 0.8


@dataclass(frozen=True)
class PairClass:
    """Pairs that are about as fast as each other.

    Parameters
    ----------
    pairs : (source, target), sorted.
    gbps : their median, GB/s each way; `low` and `high` are the slowest and the fastest of them.
    """

    pairs: tuple[Pair, ...]
    gbps: float
    low: float
    high: float


def class_of(pairs: Iterable[Pair], gbps: Mapping[Pair, float]) -> PairClass:
    """These pairs as one class."""
    members = tuple(sorted(pairs))
    values = [gbps[pair] for pair in members]
    return PairClass(members, float(np.median(values)), min(values), max(values))


def classes(gbps: Mapping[Pair, float]) -> list[PairClass]:
    """The pairs in classes, the fastest first.

    Sorted by bandwidth, they are cut at every gap of more than 3%; then neighbours whose gap is not more than
    three times the spread inside either of them are joined again. A pair alone with its way back tells no
    spread, and is one class unless one way is degraded.
    """
    if len({frozenset(pair) for pair in gbps}) == 1 and min(gbps.values()) >= DEGRADED * max(gbps.values()):
        return [class_of(gbps, gbps)]
    order = sorted(gbps, key=lambda pair: (gbps[pair], pair))
    groups: list[list[Pair]] = []
    for pair in order:
        if groups and _gap(groups[-1], [pair], gbps) <= _GAP * _LEAST_SPREAD:
            groups[-1].append(pair)
        else:
            groups.append([pair])
    at = 1
    while at < len(groups):
        before, after = groups[at - 1], groups[at]
        if _gap(before, after, gbps) <= _GAP * max(_spread(before, gbps), _spread(after, gbps)):
            groups[at - 1 : at + 1] = [before + after]
            at = max(1, at - 1)
        else:
            at += 1
    return [class_of(group, gbps) for group in reversed(groups)]


def _gap(slower: list[Pair], faster: list[Pair], gbps: Mapping[Pair, float]) -> float:
    return math.log(gbps[faster[0]] / gbps[slower[-1]])


def _spread(group: list[Pair], gbps: Mapping[Pair, float]) -> float:
    """The median distance from the median, as a ratio; 1% at least."""
    logs = np.log([gbps[pair] for pair in group])
    return max(_LEAST_SPREAD, float(np.median(np.abs(logs - np.median(logs)))))


def degraded(groups: Iterable[PairClass], gbps: Mapping[Pair, float]) -> list[str]:
    """A sentence for each pair that is slower than links of its kind are.

    A pair is degraded below 0.8 of its class, or of the way back. Among 4 GPUs and more, a class below 0.8 of
    the next faster one is no class of links if all its pairs have one GPU in common, or if it touches fewer
    than half of the GPUs: then its links are degraded.
    """
    found: dict[Pair, str] = {}
    everyone = {gpu for pair in gbps for gpu in pair}
    faster: PairClass | None = None
    for group in groups:
        for pair in group.pairs:
            if gbps[pair] < DEGRADED * group.gbps:
                found[pair] = f"its class has {group.gbps:.4g}"
        touched = {gpu for pair in group.pairs for gpu in pair}
        is_few = 2 * len(touched) < len(everyone) or set.intersection(*map(set, group.pairs))
        if faster is not None and len(everyone) >= 4 and is_few and group.gbps < DEGRADED * faster.gbps:
            found |= dict.fromkeys(group.pairs, f"the next class has {faster.gbps:.4g}")
        else:
            faster = group
    for (a, b), value in gbps.items():
        back = gbps.get((b, a))
        if back is not None and value < DEGRADED * back:
            found.setdefault((a, b), f"the way back has {back:.4g}")
    return [
        f"GPU {a} -> GPU {b} moves {gbps[a, b]:.4g} GB/s, but {why}: a degraded link?"
        for (a, b), why in sorted(found.items())
    ]
