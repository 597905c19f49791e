"""Which ranks, links and ports are alike: orbits under automorphisms that are exhibited, each one checked.

Wanted are automorphisms that keep some ranks where they are. Ranks are coloured by what they start with and
want, and by their links and ports, again and again (Weisfeiler and Leman 1968). For two ranks of a colour an
automorphism that takes one to the other is guessed from two colourings, in each of which one of them is
marked: who has a colour in both stays, and the others go to each other in order, colour by colour. That is
an exchange of two GPUs, of two nodes, or a reflection of a torus; where it is no automorphism, one more rank
is marked. Guesses are not trusted: `network_map` looks at every link and port of each.

Whatever is not found is two orbits in place of one. So what is said of orbits holds, with more of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from taccl.encoding.bounds.colours import numbered, sums
from taccl.encoding.bounds.kinds import Kinds
from taccl.encoding.bounds.tuning import ORBITS_IN_VAIN, ORBITS_MARKS
from taccl.model.automorphism import NetworkMap, network_map
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem


class Automorphisms:
    """Automorphisms of a problem, found where they are asked for.

    Parameters
    ----------
    problem : of equal chunks, all there at once, and of ranks that may all do the same.
    kinds : of its chunks; automorphisms take them to each other.
    """

    def __init__(self, problem: Problem, kinds: Kinds) -> None:
        self.problem, self._topology, self.kinds = problem, problem.topology, kinds
        self._roles = numbered(self.kinds.starts.sum(axis=0), self.kinds.wanted.sum(axis=0))
        self._kinds_of_links = _kinds_of_links(self._topology)
        self._found: dict[tuple[int, ...], list[NetworkMap]] = {}
        self._all: list[NetworkMap] = []

    def keeping(self, marked: tuple[int, ...]) -> list[NetworkMap]:
        """Automorphisms that leave these ranks in place."""
        if marked not in self._found:
            self._found[marked] = list(self._search(marked))
        return self._found[marked]

    def _search(self, marked: tuple[int, ...]) -> Iterator[NetworkMap]:
        known = [each for each in self._all if (each.ranks[list(marked)] == list(marked)).all()]
        yield from known
        colour = self._roles * (len(marked) + 1)
        colour[list(marked)] += np.arange(1, len(marked) + 1)
        (colour,) = refined(self._topology, self._kinds_of_links, colour[None])
        orbit, in_vain = orbits(self._topology.num_ranks, (each.ranks for each in known)), 0
        for one in range(self._topology.num_ranks):
            for other in np.flatnonzero(colour == colour[one]).tolist():
                if other <= one or orbit[other] == orbit[one]:
                    continue
                found = self._exchange(colour, one, other)
                in_vain += found is None
                if in_vain > ORBITS_IN_VAIN:
                    return
                if found is not None:
                    self._all.append(found)
                    yield found
                    orbit = joined(orbit, found.ranks)
            if (orbit == orbit[0]).all():
                return

    def _exchange(self, colour: IntArray, one: int, other: int) -> NetworkMap | None:
        """An automorphism that keeps colours and takes one rank to the other."""
        pair = np.stack([colour, colour])
        for _ in range(ORBITS_MARKS):
            pair[0, one] = pair[1, other] = pair.max() + 1
            found = self._checked(_in_order(*pair))
            if found is not None:
                return found
            pair = refined(self._topology, self._kinds_of_links, pair)
            found = self._checked(_in_order(*pair))
            if found is not None:
                return found
            many = np.bincount(pair[0])
            if (many <= 1).all() or not np.array_equal(many, np.bincount(pair[1])):
                return None
            next_colour = int(np.flatnonzero(many > 1)[0])
            one = int(np.flatnonzero(pair[0] == next_colour)[0])
            others = np.flatnonzero(pair[1] == next_colour)
            other = one if one in others else int(others[0])
        return None

    def _checked(self, ranks: IntArray | None) -> NetworkMap | None:
        if ranks is None:
            return None
        found = network_map(ranks, self._topology, self.problem.limits)
        if not isinstance(found, NetworkMap) or not found.is_exact or self.kinds.images(ranks) is None:
            return None
        return found


def refined(topology: LogicalTopology, kinds: IntArray, colours: IntArray) -> IntArray:
    """Colours of ranks that their links tell apart, of several colourings with the same names.

    `kinds` : shape (num_links,); of links. `colours` : shape (num_colourings, num_ranks), like the result.
    """
    copies, ranks = colours.shape
    colour, many = numbered(colours.ravel()), 0
    while many < int(colour.max()) + 1:
        many = int(colour.max()) + 1
        seen = []
        for each in colour.reshape(copies, ranks):
            ends = (topology.src, topology.dst), (topology.dst, topology.src)
            seen.append([sums(ranks, here, kinds * many + each[there]) for here, there in ends])
        into, out = (np.concatenate([each[side] for each in seen]) for side in (0, 1))
        colour = numbered(colour, into, out)
    return colour.reshape(copies, ranks)


def _kinds_of_links(topology: LogicalTopology) -> IntArray:
    """Links of one kind cost the same and share ports with as many others; shape (num_links,)."""
    link, port = topology.incidence
    users = np.bincount(port, minlength=topology.num_ports)[port]
    ports = sums(topology.num_links, link, numbered(users, topology.pair_betas))
    return numbered(topology.alpha_us, topology.beta_us_per_mb, ports, topology.internode)


def orbits(many: int, maps: Iterable[IntArray]) -> IntArray:
    """The least of each thing's images under some permutations of things and their compositions."""
    least = np.arange(many)
    for each in maps:
        least = joined(least, each)
    return least


def joined(least: IntArray, images: IntArray) -> IntArray:
    """Orbits, and one permutation more."""
    before = np.full(len(least), -1)
    while not np.array_equal(least, before):
        before = least
        nearer = np.minimum(least, least[images])
        nearer[images] = np.minimum(nearer[images], nearer)
        of_orbit = np.arange(len(least))
        np.minimum.at(of_orbit, before, nearer)
        least = of_orbit[before]
    return least


def _in_order(before: IntArray, after: IntArray) -> IntArray | None:
    """The permutation from colouring to colouring that moves as few as can be; None: colours differ."""
    image = np.arange(len(before))
    moved = np.flatnonzero(before != after)
    source, target = (moved[np.argsort(colour[moved], kind="stable")] for colour in (before, after))
    if not np.array_equal(before[source], after[target]):
        return None
    image[source] = target
    return image
