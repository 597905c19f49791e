"""Paths from a root along the tree of a fast Broadcast, for small parts.

Where alphas dominate, a Scatter should use the tree of a Broadcast: parts for all ranks below a link share
its send. The tree is that of a Broadcast of one chunk by list scheduling (`dissemination`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.encoding.core.distance import distances_us
from taccl.encoding.engines.streams.dissemination import Style, disseminated
from taccl.encoding.engines.streams.net import net_of
from taccl.encoding.engines.streams.tuning import HELP, LOOK, SOONEST
from taccl.model.problem import Problem
from taccl.support.budget import Budget


def soonest_paths(problem: Problem, budget: Budget) -> Iterator[dict[int, list[tuple[int, ...]]]]:
    """For several sizes of the broadcast chunk, the links from the root to each rank, as `paths.paths_of`.

    `problem` : a Scatter of equal parts.
    """
    topology, root = problem.topology, int(problem.collective.source[0])
    for parts in SOONEST:
        one = replace(problem, chunk_mb=problem.chunk_mb * problem.collective.chunks_per_rank * parts)
        took_us = topology.duration_us(np.arange(topology.num_links), one.chunk_mb)
        net = net_of(one, distances_us(topology, took_us), root)
        end_us, link = math.inf, np.zeros(0, np.int64)
        for part in (-math.inf, *HELP):
            style = Style(True, even=0.0, most=1, once=False, help_us=part * end_us, seed=0)
            _, links, start_us, _, looks = disseminated(net, 1, root, style, math.inf)
            budget.spend(LOOK * looks)
            last_us = float((start_us + took_us[links]).max())
            if last_us < end_us:
                end_us, link = last_us, links
        yield _along(problem, root, link.tolist())


def _along(problem: Problem, root: int, links: list[int]) -> dict[int, list[tuple[int, ...]]]:
    """The paths of a tree, whose links are given in the order of their starts."""
    topology, paths = problem.topology, {root: tuple[int, ...]()}
    for link in links:
        paths[int(topology.dst[link])] = (*paths[int(topology.src[link])], link)
    return {rank: [path] for rank, path in paths.items() if rank != root}
