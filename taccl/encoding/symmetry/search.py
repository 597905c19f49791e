"""Symmetries found, where no sketch states them: renamings of the ranks that leave the problem as it was.

An automorphism of a problem keeps nodes together, takes every link to one of the same cost, every port to a
port that is as fast, every rule of the sketch to itself, and every chunk to a chunk. What is looked for is a
group of them in which none but the identity leaves a rank in place, because only those shrink a model
(`symmetry`).

Tried first are renamings that machines are built with: ranks moved on in a ring, in equal groups or all
together, and ranks with bits of their numbers flipped (the hypercubes of NVLink). Then a search: ranks are
coloured by what they hold, want and are linked to, again and again (Weisfeiler and Leman), and rank 0 is
taken to each rank of its colour, the others after it one by one, as long as all links between them agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from taccl.collectives import IntArray
from taccl.encoding.core.budget import Budget
from taccl.encoding.symmetry.group import extended, link_map, symmetry_group
from taccl.problem import LogicalTopology, Problem

#: Machines with more ranks are left to their sketches.
_MOST_RANKS = 256


def with_symmetry_found(problem: Problem, time_limit_s: float = 2.0) -> tuple[Problem, str]:
    """The problem with as many symmetries more as are found, and a sentence about what was found."""
    generators = list(problem.symmetry)
    before = len(symmetry_group(problem))
    if problem.num_ranks > _MOST_RANKS:
        return problem, f"symmetry auto: more than {_MOST_RANKS} ranks are not searched"
    budget = Budget(time_limit_s)
    search = _Search(problem, budget)
    # The elements of such a group take rank 0 to different ranks.
    reached = set(symmetry_group(problem).rank_map[:, 0].tolist())
    for candidate in search.candidates():
        if not budget.remaining_s() or len(reached) == problem.num_ranks:
            break
        if int(candidate[0]) in reached or not is_automorphism(problem, candidate):
            continue
        if extended(generators, candidate) is not None:
            generators.append(candidate)
            reached = set(
                symmetry_group(replace(problem, symmetry=tuple(generators))).rank_map[:, 0].tolist()
            )
    found = replace(problem, symmetry=tuple(generators))
    return found, _note(len(reached), before, generators[len(problem.symmetry) :], budget)


def _note(size: int, before: int, found: list[IntArray], budget: Budget) -> str:
    end = "" if budget.remaining_s() else "; the search was cut short"
    if not found:
        return (
            f"symmetry auto: found none beyond the sketch's{end}"
            if before > 1
            else f"symmetry auto: found none{end}"
        )
    shown = ", ".join(_cycles(each) for each in found[:3]) + (", ..." if len(found) > 3 else "")
    return f"symmetry auto: {size} renamings of the ranks, made by {shown}{end}"


def _cycles(permutation: IntArray) -> str:
    """A permutation by its cycles: (0 2 4)(1 3 5); the first two of many."""
    left, cycles = set(range(len(permutation))), []
    while left:
        cycle = [min(left)]
        while (image := int(permutation[cycle[-1]])) != cycle[0]:
            cycle.append(image)
        left -= set(cycle)
        cycles.append(cycle)
    text = "".join(
        f"({' '.join(map(str, cycle[:8]))}{' ...' if len(cycle) > 8 else ''})" for cycle in cycles[:4]
    )
    return text + ("..." if len(cycles) > 4 else "")


def is_automorphism(problem: Problem, ranks: IntArray) -> bool:
    """Whether renaming every rank r to `ranks[r]` leaves topology, limits and collective as they were."""
    topology, limits = problem.topology, problem.limits
    links = link_map(problem, ranks)
    if links is None or not _keeps_nodes(topology.node_of, ranks):
        return False
    for cost in (topology.alpha_us, topology.beta_us_per_mb):
        if not np.allclose(cost, cost[links], rtol=1e-9, atol=0.0):
            return False
    for column in (limits.own_first, limits.link_preference):
        if column is not None and (column != column[links]).any():
            return False
    if limits.may_use is not None and (limits.may_use != limits.may_use[np.ix_(ranks, links)]).any():
        return False
    if _ports_moved(topology, links) != _ports_moved(topology, np.arange(topology.num_links)):
        return False
    return problem.collective.chunk_map(ranks) is not None


def _ports_moved(topology: LogicalTopology, links: IntArray) -> list[list[tuple[int, str]]]:
    """Each port as the images of its links, with the rates that it has for them; all in order."""
    link, beta = topology.incidence[0], topology.pair_betas
    return sorted(
        sorted((int(links[link[pair]]), f"{beta[pair]:.9g}") for pair in pairs.tolist())
        for pairs in topology.port_pairs
    )


def _keeps_nodes(node_of: IntArray, ranks: IntArray) -> bool:
    """Whether ranks of one node go to one node, and those of two to two."""
    pairs = np.unique(np.stack([node_of, node_of[ranks]]), axis=1)
    nodes = len(np.unique(node_of))
    return pairs.shape[1] == nodes and len(np.unique(pairs[1])) == nodes


class _Search:
    """Renamings worth a check, likely ones first."""

    def __init__(self, problem: Problem, budget: Budget) -> None:
        topology, collective = problem.topology, problem.collective
        home = np.bincount(collective.home, minlength=topology.num_ranks)
        self._role = list(zip(collective.pre.sum(axis=0), collective.post.sum(axis=0), home, strict=True))
        self._ranks, self._budget = topology.num_ranks, budget
        shares = [tuple(sorted(len(topology.port_links[p]) for p in ports)) for ports in topology.ports]
        kinds: dict[object, int] = {}
        same_node = topology.node_of[:, None] == topology.node_of[None, :]
        self._kind = np.where(same_node, -1, -2)
        columns = zip(
            topology.src.tolist(),
            topology.dst.tolist(),
            topology.alpha_us.tolist(),
            topology.beta_us_per_mb.tolist(),
            shares,
            topology.port_betas or ((),) * topology.num_links,
            strict=True,
        )
        for src, dst, alpha, beta, shared, betas in columns:
            rates = tuple(sorted(f"{each:.9g}" for each in betas))
            kind = (f"{alpha:.9g}", f"{beta:.9g}", shared, rates, bool(same_node[src, dst]))
            self._kind[src, dst] = kinds.setdefault(kind, len(kinds))

    def candidates(self) -> Iterator[IntArray]:
        colour = self._colours()
        if np.bincount(colour).min() == 1:
            return  # nothing is like that rank, so it stays in place
        yield from self._built_in()
        order = self._order()
        for image in np.flatnonzero(colour == colour[0])[1:].tolist():
            yield from self._placed(colour, order, image)

    def _built_in(self) -> Iterator[IntArray]:
        ranks = np.arange(self._ranks)
        for group in range(self._ranks, 1, -1):
            if self._ranks % group:
                continue
            base, within = ranks // group * group, ranks % group
            for step in range(1, group):
                yield base + (within + step) % group
                if group & (group - 1) == 0:
                    yield base + (within ^ step)

    def _colours(self) -> IntArray:
        """Ranks that may be images of each other have one colour, shape (num_ranks,)."""
        roles = {role: i for i, role in enumerate(dict.fromkeys(self._role))}
        colour = np.array([roles[role] for role in self._role])
        while True:
            seen = [
                (
                    int(colour[rank]),
                    tuple(sorted(zip(self._kind[rank].tolist(), colour.tolist(), strict=True))),
                    tuple(sorted(zip(self._kind[:, rank].tolist(), colour.tolist(), strict=True))),
                )
                for rank in range(self._ranks)
            ]
            number = {name: i for i, name in enumerate(sorted(set(seen)))}
            refined = np.array([number[name] for name in seen])
            if len(number) == len(set(colour.tolist())):
                return refined
            colour = refined

    def _order(self) -> list[int]:
        """Ranks so that each is linked to as many as can be of those before it."""
        linked = (self._kind >= 0) | (self._kind.T >= 0)
        order, left = [0], set(range(1, self._ranks))
        while left:
            nearest = max(left, key=lambda rank: (int(linked[rank, order].sum()), -rank))
            order.append(nearest)
            left.remove(nearest)
        return order

    def _placed(self, colour: IntArray, order: list[int], first: int) -> Iterator[IntArray]:
        """Renamings that take rank 0 to `first`, move every rank, and keep links between all pairs."""
        image = np.full(self._ranks, -1, dtype=np.int64)
        image[0] = first
        choices: list[Iterator[int]] = [iter(())]
        while choices:
            if not self._budget.remaining_s():
                return
            depth = len(choices)
            if depth == self._ranks:
                yield image.copy()
            else:
                choices.append(self._fitting(colour, order, image, depth))
            while choices:
                rank = order[len(choices) - 1]
                following = next(choices[-1], None)
                if following is not None:
                    image[rank] = following
                    break
                choices.pop()
                image[rank] = -1

    def _fitting(self, colour: IntArray, order: list[int], image: IntArray, depth: int) -> Iterator[int]:
        """Where the rank after the first `depth` of the order may go."""
        rank, before = order[depth], np.array(order[:depth])
        fits = (colour == colour[rank]) & (np.arange(self._ranks) != rank)
        fits[image[before]] = False
        fits &= (self._kind[:, image[before]] == self._kind[rank, before]).all(axis=1)
        fits &= (self._kind[image[before]] == self._kind[before, rank][:, None]).all(axis=0)
        return iter(np.flatnonzero(fits).tolist())
