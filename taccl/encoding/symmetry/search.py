"""Symmetries found, where no sketch states them.

What is looked for is a group of automorphisms in which none but the identity leaves a rank in place, because
only those shrink a model (`group`). Tried first are permutations that machines are built by (`candidates`).
Then a search: ranks are coloured by what they hold, want and are linked to, again and again (Weisfeiler and
Leman), and rank 0 is taken to each rank of its colour, the others after it one by one, as long as all links
between them agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from taccl.encoding.symmetry.action import Action, action_of
from taccl.encoding.symmetry.candidates import candidates_of
from taccl.encoding.symmetry.group import Growing, SymmetryGroup, growing_from
from taccl.model.automorphism import differences
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.tolerance import SAME_COST
from taccl.support.budget import Budget

#: Machines with more ranks are left to their sketches.
_MOST_RANKS = 256
#: Units of work for a search, and how many links, pairs and chunks a permutation takes somewhere in one.
_WORK, _CELLS_PER_UNIT = 4000, 10_000
#: Links and pairs, for all permutations together, that a note about costs may look at: 1 s on a busy core. On
#: 32 boxes of L40S it took 15 s of a core for each number of chunks.
_MOST_CELLS_FOR_NOTE = 2_000_000
#: Costs that differ by no more than this part of them may be meant to be equal.
_NEARLY = 0.1


def assumed_group(
    problem: Problem, exchanges_first: bool = False, refused: set[bytes] | None = None
) -> SymmetryGroup:
    """The symmetries among those that machines are built by, of a problem that states none.

    A search over orbits is so much faster that it pays to look for some that nobody requested. `refused` is
    what is known of the network, as in `Growing`, and learns what is found out.
    """
    growing = Growing(problem, refused=set() if refused is None else refused)
    growing.add_all(candidates_of(problem.topology, exchanges_first))
    return growing.group()


def with_symmetry_found(problem: Problem, budget: Budget | None = None) -> tuple[Problem, str]:
    """The problem with as many symmetries more as are found, and a sentence about what was found.

    The budget is one of work by default, so that the same problem always has the same symmetries.
    """
    if problem.num_ranks > _MOST_RANKS:
        return problem, f"symmetry auto: more than {_MOST_RANKS} ranks are not searched"
    growing, budget = growing_from(problem), budget or Budget.of_work(_WORK)
    before, stated = len(growing.elements), len(growing.generators)
    _search(growing, budget)
    found = [generator.ranks for generator in growing.generators[stated:]]
    note = _note(len(growing.elements), before, found, budget)
    lost = None if len(growing.elements) > 1 else lost_by_costs(problem)
    return replace(problem, symmetry=(*problem.symmetry, *found)), note + (f"; {lost}" if lost else "")


def _search(growing: Growing, budget: Budget) -> None:
    """Let a group grow by all that a search finds within the budget."""
    problem = growing.problem
    cells = problem.topology.num_links + problem.topology.num_pairs + problem.num_chunks
    # The elements of such a group take rank 0 to different ranks.
    for candidate in _Search(problem, budget).candidates():
        if not budget.remaining_s() or growing.is_largest:
            break
        if candidate[0] not in growing.elements.ranks[:, 0]:
            budget.spend(cells / _CELLS_PER_UNIT)
            growing.add(candidate)


def lost_by_costs(problem: Problem) -> str | None:
    """A sentence, if costs that are nearly equal keep a machine from looking the same from its ranks.

    So it may be with measured costs, each with its own decimals. None if it looks the same from several ranks
    as it is, or would not with equal costs either, or to find out would take seconds.
    """
    topology = problem.topology
    if problem.symmetry or problem.num_ranks > _MOST_RANKS:
        return None
    columns = (topology.alpha_us, topology.beta_us_per_mb, topology.pair_betas)
    if not any(map(_has_near_values, columns)):
        return None
    most = _MOST_CELLS_FOR_NOTE // max(1, topology.num_links + topology.num_pairs)
    candidates = list(islice(candidates_of(topology), most + 1))
    if len(candidates) > most:
        return None  # a sentence is not worth seconds
    # The data of one rank look the same from no other, whatever the machine does.
    candidates = [ranks for ranks in candidates if problem.chunk_map(ranks) is not None]
    growing = Growing(problem)
    growing.add_all(candidates)
    if len(growing.elements) > 1:
        return None
    ones = np.ones(topology.num_links)
    blind = replace(problem, topology=replace(topology, alpha_us=ones, beta_us_per_mb=ones, port_betas=None))
    growing, furthest = Growing(blind), 0.0
    for ranks in candidates:
        if growing.is_largest:
            break
        action = action_of(blind, ranks)
        if isinstance(action, Action):
            apart = max(
                float(differences(cost, cost[image]).max(initial=0.0))
                for cost, image in zip(columns, (action.links, action.links, action.pairs), strict=True)
            )
            before = len(growing.elements)
            if apart <= _NEARLY:
                growing.add(ranks)
            if len(growing.elements) > before:
                furthest = max(furthest, apart)
    if len(growing.elements) == 1:
        return None
    return (
        f"the machine would look the same from {len(growing.elements)} ranks, and be decided once for them, "
        f"but for costs that differ by up to {100 * furthest:.2g}%"
    )


def _has_near_values(costs: FloatArray) -> bool:
    """Whether two costs are nearly equal and not equal."""
    values = np.unique(costs)
    apart = differences(values[1:], values[:-1])
    return bool(((apart > SAME_COST) & (apart <= _NEARLY)).any())


def _note(size: int, before: int, found: list[IntArray], budget: Budget) -> str:
    end = "" if budget.remaining_s() else "; the search was cut short"
    if not found:
        return (
            f"symmetry auto: found none beyond the sketch's{end}"
            if before > 1
            else f"symmetry auto: found none{end}"
        )
    shown = ", ".join(_cycles(each) for each in found[:3]) + (", ..." if len(found) > 3 else "")
    return f"symmetry auto: {size} permutations of the ranks, made by {shown}{end}"


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


class _Search:
    """Permutations worth a check, likely ones first."""

    def __init__(self, problem: Problem, budget: Budget) -> None:
        topology, collective = problem.topology, problem.collective
        self._role = np.stack(
            [
                np.bincount(each, minlength=topology.num_ranks)
                for each in (collective.inputs.rank, collective.outputs.rank, collective.owner)
            ],
            axis=1,
        )
        self._topology, self._ranks, self._budget = topology, topology.num_ranks, budget
        same_node = topology.node_of[:, None] == topology.node_of[None, :]
        self._kind = np.where(same_node, -1, -2)
        self._kind[topology.src, topology.dst] = _kinds_of_links(problem)

    def candidates(self) -> Iterator[IntArray]:
        colour = self._colours()
        if np.bincount(colour)[colour[: self._topology.num_members]].min() == 1:
            return  # nothing is like that rank, so it stays in place
        yield from candidates_of(self._topology)
        if self._topology.num_helpers:
            return  # they may stay, which is not what is searched for
        order = self._order()
        for image in np.flatnonzero(colour == colour[0])[1:].tolist():
            yield from self._placed(colour, order, image)

    def _colours(self) -> IntArray:
        """Ranks that may be images of each other have one colour, shape (num_ranks,)."""
        colour = np.unique(self._role, axis=0, return_inverse=True)[1].ravel()
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
        """Permutations that take rank 0 to `first`, move every rank, and keep links between all pairs."""
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


def _kinds_of_links(problem: Problem) -> IntArray:
    """Links of one kind cost the same, share ports with as many, and stay or do not stay inside a node."""
    topology = problem.topology
    link, port = topology.incidence
    users, rate = np.bincount(port, minlength=topology.num_ports)[port], _numbered(topology.pair_betas)
    order = np.lexsort((rate, users, link))
    shared: dict[bytes, int] = {}
    ports = [
        shared.setdefault(np.stack([users[pairs], rate[pairs]]).tobytes(), len(shared))
        for pairs in np.split(order, topology.first_pair[1:-1])[: topology.num_links]
    ]
    columns = (_numbered(topology.alpha_us), _numbered(topology.beta_us_per_mb), topology.internode)
    return np.asarray(
        np.unique(np.stack([*columns, np.array(ports)], axis=1), axis=0, return_inverse=True)[1].ravel()
    )


def _numbered(costs: FloatArray) -> IntArray:
    """The same number for costs that count as equal."""
    values, which = np.unique(costs, return_inverse=True)
    return np.asarray(np.cumsum(differences(values, np.roll(values, 1)) > SAME_COST)[which])
