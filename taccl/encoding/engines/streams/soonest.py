"""Ways from a root along which one small message would be everywhere soonest.

Where alphas are most of the time, each rank's part should go the way of a Broadcast: whoever has something
sends, and NICs that have nothing better to do help other nodes at the end. Parts for all behind a link share
its send.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.core.distance import distances_us
from taccl.encoding.engines.streams.dissemination import Style, disseminated, net_of
from taccl.encoding.engines.streams.tuning import HELP, LOOK, SOONEST
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def soonest_paths(problem: Problem, budget: Budget) -> Iterator[dict[int, list[tuple[int, ...]]]]:
    """The links from the root to each rank, in order, by messages of several sizes; as `paths.paths_of`.

    `problem` : all chunks start at one rank, and each is wanted by one, as many by each.
    """
    topology, root = problem.topology, int(problem.collective.source[0])
    for parts in SOONEST:
        one = replace(problem, chunk_mb=problem.chunk_mb * problem.collective.chunks_per_rank * parts)
        took_us = topology.duration_us(np.arange(topology.num_links), one.chunk_mb)
        net = net_of(one, distances_us(topology, took_us))
        end_us, link = math.inf, np.zeros(0, np.int64)
        for part in (-math.inf, *HELP):
            style = Style(counts_root=True, even=0.0, most=1, help_us=part * end_us, seed=0)
            _, links, start_us, _, looks = disseminated(net, 1, root, style)
            budget.spend(LOOK * looks)
            last_us = float((start_us + took_us[links]).max())
            if last_us < end_us:
                end_us, link = last_us, links
        yield _along(problem, root, link.tolist())


def _along(problem: Problem, root: int, links: list[int]) -> dict[int, list[tuple[int, ...]]]:
    """The paths of a tree, whose links come in the order in which they are used."""
    topology, paths = problem.topology, {root: tuple[int, ...]()}
    for link in links:
        paths[int(topology.dst[link])] = (*paths[int(topology.src[link])], link)
    return {rank: [path] for rank, path in paths.items() if rank != root}
