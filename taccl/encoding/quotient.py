r"""Quotients: a machine that looks the same from many ranks is scheduled once, for one of them.

Let G be a group of permutations of the ranks, each an automorphism of the problem, and let only the
identity keep a rank or a port in its place. Take schedules in which, whenever chunk c passes link l,
every g in G makes chunk g(c) pass link g(l) at the same time. The |G| images of a transfer then use |G|
different ports, and two orbits of transfers are in each other's way if and only if their links use
ports of one orbit. So

    the same ranks and links,  one chunk of each orbit,  one port for each orbit of ports

is again an ordinary problem, |G| times smaller. Any engine may answer it, and the images of its answer
are a schedule of the whole with the same times. Where every rank can be taken to every other (a torus, a
switch, nodes of such), one rank's chunks are left. The fastest of these schedules need not be the fastest of
all, so a bound on them says nothing of the whole; but where chunks are divisible nothing is lost, because
the average over G of any flow is as good as the flow.

Where costs are equal but for rounding (`taccl.model.automorphism`), the images keep who sends what in which
order, and their times are computed from the costs of the whole.

Without a symmetry in the problem, a group is sought among the permutations that machines are built by
(`candidates`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.core.timing import decisions_of, in_order
from taccl.encoding.symmetry.action import Action, Compositions
from taccl.encoding.symmetry.candidates import candidates_of
from taccl.encoding.symmetry.group import Growing, growing_from
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.schedule.blocks import blocks_between

#: Larger tables of images than this, in cells of 4 bytes, are not worth their memory.
_MOST_IMAGES = 160_000_000
#: Images of rows that are sorted at once.
_LIFTED_AT_ONCE = 1 << 17


@dataclass(frozen=True, eq=False)
class Quotient:
    """A problem, its part that decides the rest, and the images.

    Parameters
    ----------
    whole : what is requested.
    problem : one chunk of each orbit, one port for each orbit of ports; no symmetry left.
    chunk_map : shape (num_elements, chunks of `problem`); images, as chunks of `whole`, of 32 bits.
    link_map : shape (num_elements, num_links), of 32 bits.
    is_exact : whether all costs are to the last bit those of their images.
    """

    whole: Problem
    problem: Problem
    chunk_map: IntArray
    link_map: IntArray
    is_exact: bool = True

    @property
    def num_images(self) -> int:
        """How many images each row has."""
        return len(self.link_map)

    def lifted(self, schedule: Schedule) -> Schedule:
        """The schedule of the whole that a schedule of the quotient stands for."""
        part, images = schedule.sorted(), self.num_images
        length, groups = len(part) * images, 0
        columns: dict[str, np.ndarray] = {
            "chunk": np.empty(length, self.chunk_map.dtype),
            "link": np.empty(length, self.link_map.dtype),
            "start_us": np.empty(length),
            "end_us": np.empty(length),
            "reduce": np.empty(length, np.bool_),
            "group": np.empty(length, np.int64),
        }
        # What starts together is sorted together, so each row is written once, where it stays.
        for rows in blocks_between(part.start_us, max(1, _LIFTED_AT_ONCE // images)):
            block = self._images_of(part.take(np.arange(rows.start, rows.stop)))
            for name, column in columns.items():
                column[rows.start * images : rows.stop * images] = getattr(block, name)
            columns["group"][rows.start * images : rows.stop * images] += groups
            groups += int(block.group.max()) + 1
        lifted = Schedule(
            problem=self.whole,
            chunk=columns["chunk"],
            link=columns["link"],
            start_us=columns["start_us"],
            end_us=columns["end_us"],
            reduce=columns["reduce"],
            group=columns["group"],
        )
        return lifted if self.is_exact else in_order(self.whole, decisions_of(lifted))

    def _images_of(self, part: Schedule) -> Schedule:
        """The images of some rows, in order."""
        images = self.num_images
        first = np.arange(images) * (part.group.max(initial=0) + 1)
        return Schedule(
            problem=self.whole,
            chunk=self.chunk_map[:, part.chunk].T.ravel(),
            link=self.link_map[:, part.link].T.ravel(),
            start_us=np.repeat(part.start_us, images),
            end_us=np.repeat(part.end_us, images),
            reduce=np.repeat(part.reduce, images),
            group=np.add.outer(part.group, first).ravel(),
        ).sorted()


def quotient(problem: Problem, refused: set[bytes] | None = None) -> Quotient | None:
    """The quotient by the problem's own symmetry, if it has one, else by the largest group that is found.

    `refused` is what is known of the network, as in `Growing`, and learns what is found out. None if there is
    no such group but the identity's, or if its images would be too many for the memory.

    Raises
    ------
    SketchError : a symmetry of the problem is none.
    """
    if problem.limits.own_first is not None:
        return None  # which chunks wait for which is not the same question for one chunk of an orbit
    topology = problem.topology
    if not topology.num_links:
        return None

    def fits(generators: list[Action], elements: Compositions) -> bool:
        # Each chunk that is left has as many images as there are elements.
        cells = len(elements) * (topology.num_links + topology.num_ports) + problem.num_chunks
        return cells <= _MOST_IMAGES and moves_ports(topology, generators, elements)

    if problem.symmetry:
        growing = growing_from(problem)
        if not fits(growing.generators, growing.elements):
            return None
    else:
        growing = Growing(problem, fits, set() if refused is None else refused)
        growing.add_all(candidates_of(topology))
    return None if len(growing.elements) < 2 else _quotient(problem, growing)


def moves_ports(topology: LogicalTopology, generators: list[Action], elements: Compositions) -> bool:
    """Whether only the identity keeps a port, and no link has two ports of one orbit."""
    images = elements.images([generator.ports for generator in generators], topology.num_ports)
    link, port = topology.incidence
    used = np.unique(port)
    if any((image[used] == used).any() for image in images[1:]):
        return False
    orbit = images.min(axis=0)[port]
    return len(np.unique(link * topology.num_ports + orbit)) == len(link)


def _quotient(problem: Problem, growing: Growing) -> Quotient:
    topology = problem.topology
    orbits, port_of = np.unique(growing.ports.min(axis=0), return_inverse=True)
    of_port = port_of.tolist()
    merged = replace(
        topology,
        ports=tuple(tuple(of_port[port] for port in ports) for ports in topology.ports),
        port_names=tuple(topology.port_names[orbit] for orbit in orbits),
    )
    chosen = growing.is_least_chunk
    inputs, outputs = problem.collective.inputs.chunk, problem.collective.outputs.chunk
    part = replace(
        problem,
        topology=merged,
        collective=problem.collective.only(chosen, f"{problem.collective.name} of one orbit"),
        symmetry=(),
        sizes=None if problem.sizes is None else problem.sizes[chosen],
        ready_us=None if problem.ready_us is None else problem.ready_us[chosen[inputs]],
        tail_us=None if problem.tail_us is None else problem.tail_us[chosen[outputs]],
        sum_work_us=None if problem.sum_work_us is None else problem.sum_work_us[chosen],
    )
    images = growing.images_of_chunks(np.flatnonzero(chosen))
    return Quotient(problem, part, images, growing.images_of_links, growing.is_exact)
