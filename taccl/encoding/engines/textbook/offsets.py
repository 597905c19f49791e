r"""An AlltoAll in so many steps of any offsets: each block moves by some of them, by each at most once.

With offsets o_1, .., o_k a block that has d of n positions to go moves by a subset of them whose sum is d
modulo n, in step i all blocks whose subset has o_i. Each rank then pays k alphas, and sends as many blocks as
the subsets of all d have members together. Powers of two are Bruck's offsets, the digits of two radices those
of a grid of two axes, and 1, .., n - 1 the pairwise exchange. Between those, others send less: 72 ranks in 8
steps send 171 blocks each, and by radices 186. No k offsets do with less than *fewest*, as only C(k, m)
distances have a subset of m.

Which offsets is found by descent: one of them at a time becomes what sends least with the others as they are.

Source of the special case: Bruck et al., IEEE TPDS 8 (1997), section 3 (radices).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import comb

import numpy as np

from taccl.encoding.engines.textbook.all_pairs import ALL_PAIRS
from taccl.encoding.engines.textbook.line import Hops, LineAlgorithm, hops, joined
from taccl.encoding.engines.textbook.parts import Parts
from taccl.encoding.engines.textbook.tuning import OFFSETS_MOST_RANKS, OFFSETS_SWEEPS, OFFSETS_TRIED
from taccl.model.collective import IntArray
from taccl.model.problem import Problem


def by_offsets(problem: Problem, parts: Parts) -> Iterator[LineAlgorithm]:
    """For ranks in a line and some numbers of steps, where an alpha is time of a port: what promises most."""
    n, topology = problem.num_ranks, problem.topology
    is_all = parts.kind == "routed" and parts.is_between_all(n)
    if not is_all or not topology.is_serial or not 3 < n <= OFFSETS_MOST_RANKS:
        return
    alpha_us = float(np.median(topology.alpha_us))
    block_us = problem.chunk_mb * parts.most_pieces * float(np.median(topology.beta_us_per_mb))
    counts = range((n - 1).bit_length(), n - 1)
    for steps in sorted(counts, key=lambda k: k * alpha_us + fewest(n, k) * block_us)[:OFFSETS_TRIED]:
        yield in_steps(n, steps)


def fewest(n: int, steps: int) -> int:
    """So many blocks each rank sends at least, in this many steps."""
    left, sent = n - 1, 0
    for members in range(1, steps + 1):
        some = min(left, comb(steps, members))
        left, sent = left - some, sent + some * members
    return sent


@lru_cache(maxsize=64)
def in_steps(n: int, steps: int) -> LineAlgorithm:
    """The algorithm for n positions in so many steps, at least log2(n); it fits no other n.

    >>> in_steps(72, 8).name
    '8 offsets'
    """
    offsets = offsets_of(n, steps)
    subset = subsets(n, offsets)
    moved = np.cumsum(offsets[:, None] * subset, axis=0)

    def route(_: int, begin: IntArray, end: IntArray) -> Hops:
        distance = (end - begin) % n

        def across(step: int) -> Hops:
            block = np.flatnonzero(subset[step, distance])
            to = begin[block] + moved[step, distance[block]]
            return hops(step, (to - offsets[step]) % n, to % n, block)

        return joined(*map(across, range(steps)))

    return LineAlgorithm(
        f"{steps} offsets",
        ALL_PAIRS.spread,
        sends=lambda _: steps,
        route=route,
        mean_hops=lambda _: float(subset.sum()) / n,
        fits=lambda many: many == n,
        of_libraries=False,
    )


def offsets_of(n: int, steps: int) -> IntArray:
    """Offsets of which subsets reach all distances, shape (steps,); `steps` is at least log2(n)."""
    powers = [1 << bit for bit in range((n - 1).bit_length())]
    offsets = np.array(powers + [1] * (steps - len(powers)), dtype=np.int64)
    back = (np.arange(n)[None] - np.arange(n)[:, None]) % n
    least = _members(n, offsets).sum()
    for _ in range(OFFSETS_SWEEPS):
        before = least
        for place in range(steps):
            others = _members(n, np.delete(offsets, place))
            sent = np.minimum(others, 1 + others[back]).sum(axis=1)
            if sent.min() < least:
                least, offsets[place] = sent.min(), int(np.argmin(sent))
        if least == before:
            break
    return offsets


def _members(n: int, offsets: IntArray) -> IntArray:
    """For each distance the fewest offsets that make it, each once at most; n * n: none do."""
    members = _none(n)
    for offset in offsets.tolist():
        members = np.minimum(members, 1 + np.roll(members, offset))
    return members


def subsets(n: int, offsets: IntArray) -> IntArray:
    """1 for each offset and distance if it is in the smallest subset for that, shape (steps, n)."""
    taken, members = np.zeros((len(offsets), n), dtype=np.int64), _none(n)
    for step, offset in enumerate(offsets.tolist()):
        by_it = 1 + np.roll(members, offset)
        better = by_it < members
        taken[:, better] = np.roll(taken, offset, axis=1)[:, better]
        taken[step, better] = 1
        members = np.minimum(members, by_it)
    return taken


def _none(n: int) -> IntArray:
    """Before any offset only the distance 0 is reached."""
    return np.where(np.arange(n) == 0, 0, n * n)
