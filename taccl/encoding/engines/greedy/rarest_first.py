"""Synchronous rounds, rarest chunk first, for machines whose links are all the same.

Where all links cost the same and none shares a port, all sends can start together, and a round is a few
operations on whole matrices: a thousand ranks take seconds. In each round every rank takes, over each of
its links, a chunk that it lacks: of those that the other end held when the round began, one that the
fewest ranks hold. So what is rare spreads first, and no link starves at the end. TACOS (Won et al. 2024)
matches links and chunks in rounds too, by chance; taking the rarest is BitTorrent's rule (Cohen 2003).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from taccl.encoding.engines.greedy.tuning import RAREST_FIRST_CHANCE, RAREST_FIRST_PAIRS_PER_UNIT
from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import UNITS_PER_S, Budget


def is_synchronous(problem: Problem) -> bool:
    """Whether every rank wants every chunk, and all links cost the same, each with a port of its own."""
    topology, collective, limits = problem.topology, problem.collective, problem.limits
    if problem.symmetry or limits.may_use is not None or limits.own_first is not None:
        return False
    if not topology.num_links or collective.is_reduction or not problem.num_chunks:
        return False
    link, port = topology.incidence
    own_ports = len(link) == topology.num_links == len(np.unique(port))
    same_cost = np.ptp(topology.alpha_us) == 0 and np.ptp(topology.beta_us_per_mb) == 0
    return bool(own_ports and same_cost and len(collective.outputs) == problem.num_chunks * problem.num_ranks)


def rounds_take_s(problem: Problem) -> float:
    """About how long `rarest_first` takes; infinite where it is no answer."""
    if not is_synchronous(problem):
        return math.inf
    pairs, num_links = problem.num_chunks * problem.num_ranks, problem.topology.num_links
    degree = int(np.bincount(problem.topology.dst).max())
    return degree * pairs / RAREST_FIRST_PAIRS_PER_UNIT * math.ceil(pairs / num_links) / UNITS_PER_S


def rarest_first(
    problem: Problem, random: np.random.Generator, budget: Budget | None = None
) -> Schedule | None:
    """A schedule of a problem that `is_synchronous`; None if some rank is never reached, or the time is up.

    Without a budget, it takes the time that it needs.
    """
    topology = problem.topology
    turns = list(_turns(problem))
    held = problem.collective.pre.T.copy()  # [rank, chunk]
    chunks: list[IntArray] = []
    links: list[IntArray] = []
    rounds: list[IntArray] = []
    number = 0
    while not held.all():
        if budget is not None:
            budget.spend(len(turns) * held.size / RAREST_FIRST_PAIRS_PER_UNIT)
            if not budget.remaining_s():
                return None
        before = held.copy()
        commonness = held.sum(axis=0)
        moved = False
        for turn in random.permutation(len(turns)):
            link = turns[turn]
            rarity = (1 + RAREST_FIRST_CHANCE * random.random(len(commonness))) / commonness
            chunk, found = _rarest_new(before[topology.src[link]] & ~held[topology.dst[link]], rarity)
            link, chunk = link[found], chunk[found]
            held[topology.dst[link], chunk] = True
            chunks.append(chunk)
            links.append(link)
            rounds.append(np.full(len(chunk), number))
            moved |= bool(len(chunk))
        if not moved:
            return None
        number += 1
    return _scheduled(problem, chunks, links, rounds)


def _turns(problem: Problem) -> Iterator[IntArray]:
    """The first link into each rank, then the second into each, and so on."""
    links = np.argsort(problem.topology.dst, kind="stable")
    into = problem.topology.dst[links]
    turn = np.arange(len(links)) - np.searchsorted(into, into)
    for each in range(int(turn.max()) + 1):
        yield links[turn == each]


def _rarest_new(new: BoolArray, rarity: np.ndarray) -> tuple[IntArray, BoolArray]:
    """For each link, the rarest chunk that it could bring, and whether there is one."""
    chunk = (new * rarity.astype(np.float32)).argmax(axis=1)
    return chunk, new[np.arange(len(new)), chunk]


def _scheduled(
    problem: Problem, chunks: list[IntArray], links: list[IntArray], rounds: list[IntArray]
) -> Schedule:
    none = np.zeros(0, dtype=np.int64)
    chunk, link, number = (np.concatenate([none, *column]) for column in (chunks, links, rounds))
    duration = problem.topology.duration_us(link, problem.chunk_mb)
    return Schedule(
        problem=problem,
        chunk=chunk,
        link=link,
        start_us=number * duration,
        end_us=number * duration + duration,
        reduce=np.zeros(len(chunk), dtype=np.bool_),
        group=np.arange(len(chunk)),
    ).sorted()
