"""Sequences for sums to begin the search with: rounds of textbook algorithms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.engines.combining.beginnings import orbit_of_links
from taccl.encoding.engines.combining.orbit_instance import OrbitInstance, SendGene
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology


def rounds(orbits: OrbitInstance) -> Iterator[list[SendGene]]:
    """Rounds in which every rank sends all that it has to one other.

    Inside nodes first, across nodes first, or with no regard to nodes.
    """
    orbit_of = orbit_of_links(orbits)
    for partners in _partners(orbits.problem.topology):
        genes: list[SendGene] = []
        for partner in partners:
            pairs = zip(range(len(partner)), partner.tolist(), strict=True)
            links = [orbits.problem.topology.link_index.get(pair, -1) for pair in pairs if pair[0] != pair[1]]
            if -1 in links:
                break
            genes += [SendGene(orbit) for orbit in dict.fromkeys(orbit_of[links].tolist())]
        else:
            yield genes


def _partners(topology: LogicalTopology) -> Iterator[list[IntArray]]:
    """For each round, whom each rank sends to, shape (num_ranks,)."""
    for flip in (True, False):
        yield _alone(topology.num_ranks, flip)
    table = topology.equal_nodes
    if table is None:
        return
    nodes, size = table.shape
    place = np.argsort(table.ravel())
    for flip in (True, False):
        inside = [table[:, partner] for partner in _alone(size, flip)]
        across = [table[partner] for partner in _alone(nodes, flip)]
        for both in (inside + across, across + inside):
            yield [images.ravel()[place] for images in both]


def _alone(count: int, flip: bool) -> list[IntArray]:
    """The rounds of `count` ranks on their own, shape (count,) each.

    With `flip`, and for a power of two, pairs exchange across one bit after the other. Otherwise after each
    round a rank has the contributions of a window of w others before it next to its own, and w grows to 2w
    or, with the sender's own, to 2w + 1, as the binary digits of count - 1 say.
    """
    ranks = np.arange(count)
    digits = f"{count - 1:b}" if count > 1 else ""
    if flip and count & (count - 1) == 0:
        return [ranks ^ 1 << bit for bit in range(len(digits))]
    partners, window = [], 0
    for digit in digits:
        partners.append((ranks + window + int(digit)) % count)
        window = 2 * window + int(digit)
    return partners
