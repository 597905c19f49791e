"""Problems that every program of a problem solves too, so that their bounds hold for it.

A problem that only copies is bounded as it is. One with sums is bounded by what every program of it does,
however often and wherever it adds (a program that leaves at each output each contribution exactly once):

- It carries each contribution from its rank to every rank that wants the sum: distances, cuts, staged cuts.
- Its transfers cross between the parts of any partition so often (`partitions`): volume.
- It makes each sum at *one* of the ranks that want it, whichever one is looked at. Of a program that does
  only that, keep for each rank and chunk the last transfer from which there is still a way to the chunk's
  one rank, and let each rank add what came before. Then every rank passes its part on once, by a transfer
  of the program and at its time (`staged_cut` has the argument in full), in groups that are no larger. Read
  backwards that is a schedule of copies from the one rank on the reversed links. So bounds of those hold,
  if they are also true where a port is busy at the end of a send; it makes a difference where a machine
  does not read backwards (`LogicalTopology.reads_backwards`).
- It brings *one* contribution of each sum to every rank that wants the sum, whichever one is looked at. The
  rows that first bring to each rank something that it is part of are a schedule of copies. So bounds of
  those hold.

Chunks that go from one rank to one are bounded backwards, too, where they start at more ranks than they end
at, or at fewer. Of a program keep for each chunk the transfers on one way from its source to its end. Read
backwards, each follows on the one before it, in a group that is no larger: a schedule of what goes back, on
the reversed links. So a Gather is no faster than a Scatter is proved to be.

A problem with other features is looked at as it is, by the bounds that know them.

Where turning all links round leaves the network as it is, sums read backwards are these copies, and are not
looked at again.

Two such bounds are never added: the programs that they are about may run at the same time.

Before that a problem is *relaxed*: all inputs are there at 0, nothing follows the outputs, every chunk is
as small as the smallest, and every rank may sum and copy. Each of its schedules is one of the relaxed
problem, with sends that are no longer, so bounds of that hold. What a bound knows better it takes from the
problem as requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from taccl.encoding.core.backwards import turned_round
from taccl.encoding.instance import Instance
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem


class Moments(NamedTuple):
    """When each row of a collective's inputs is ready, and what follows each row of its outputs (us).

    None: all are there at 0, and nothing follows.
    """

    ready_us: FloatArray | None
    tail_us: FloatArray | None


#: Inputs are there at 0, and nothing follows the outputs.
AT_ONCE = Moments(None, None)


@dataclass(frozen=True, eq=False)
class View:
    """A problem whose bounds hold for the one in question.

    Parameters
    ----------
    instance : that problem, relaxed.
    backwards : ports are busy at the ends of its sends, as it is read backwards.
    is_turned : it is read backwards: what goes from rank to rank there goes the other way in question.
    requested : the problem in question as it is, for what is proved of that; only on the first view.
    units : shape (num_chunks,), or None for equal chunks; the size of each chunk of the problem in question,
        in chunks of the relaxed one.
    leaving : shape (num_ranks,); of how many chunks of the problem in question each rank has what all others
        have to hear of. None: not all others have to.
    repeats : the first view has the same chunks on the same ways, of the same loads and times.
    """

    instance: Instance
    backwards: bool = False
    requested: Instance | None = None
    units: FloatArray | None = None
    is_turned: bool = False
    leaving: IntArray | None = None
    repeats: bool = False

    @property
    def problem(self) -> Problem:
        return self.instance.problem

    @cached_property
    def helped(self) -> LogicalTopology:
        """The links of the view, with which ranks are helpers, and what these can do.

        Read backwards they can do anything: who passes on several parts of a sum, and may not sum, is taken
        there for one that sums.
        """
        topology, requested = self.problem.topology, self.requested
        if requested is None or not requested.problem.topology.num_helpers:
            return topology
        is_backwards = self.problem.collective.is_reduction != requested.problem.collective.is_reduction
        known = requested.problem.topology
        return replace(topology, is_helper=known.is_helper) if is_backwards else known

    @cached_property
    def moments(self) -> Moments:
        """When inputs of the view are ready and what follows its outputs, in the problem in question.

        Read backwards, a sum for one rank leaves that rank once its tail is over, and its contributions are
        there only before what is left of the time when they are ready.
        """
        if self.requested is None:
            return AT_ONCE
        problem = self.requested.problem
        if self.problem.collective.is_reduction != problem.collective.is_reduction:
            return Moments(problem.tail_us, problem.ready_us)
        return Moments(problem.ready_us, problem.tail_us)


def views(instance: Instance) -> tuple[View, ...]:
    """The problem; its sums, each for one of the ranks that want it; copies, each sum as one contribution."""
    return instance.once(_views)


def _views(requested: Instance) -> tuple[View, ...]:
    sizes = requested.problem.sizes
    units = None if sizes is None else sizes / sizes.min()
    first, *others = (
        replace(view, units=units, leaving=_leaving(requested.problem.collective, view.is_turned))
        for view in _each(requested.once(relaxed_of))
    )
    return (replace(first, requested=requested), *others)


def _leaving(collective: Collective, is_turned: bool) -> IntArray | None:
    """As `View` has it: read backwards, what leaves a rank is what comes to it."""
    begin = collective.outputs if is_turned else collective.inputs
    reached = collective.num_sources if is_turned else collective.num_wanted
    is_of_its_own = collective.reduces if is_turned else collective.reduces | (collective.num_sources == 1)
    if not (is_of_its_own & (reached == collective.num_ranks)).all():
        return None
    return np.bincount(begin.rank, minlength=collective.num_ranks)


def relaxed_of(instance: Instance) -> Instance:
    """The problem relaxed, which may be itself; `instance.once(relaxed_of)`."""
    problem = instance.problem
    if not problem.features - {"reductions"}:
        return instance
    smallest = 1.0 if problem.sizes is None else float(problem.sizes.min())
    return Instance(
        replace(
            problem,
            topology=problem.topology.with_equal_ranks(),
            collective=replace(problem.collective, num_helpers=0),
            chunk_mb=problem.chunk_mb * smallest,
            sizes=None,
            ready_us=None,
            tail_us=None,
            sum_work_us=None,
        )
    )


def _each(instance: Instance) -> Iterator[View]:
    problem = instance.problem
    collective = problem.collective
    backwards = not problem.topology.reads_backwards
    if not collective.is_reduction or not instance.features <= {"reductions"}:
        yield View(instance)
        if instance.demand.moves_pairwise and _has_more_ends(collective):
            yield View(_routed_back(problem), backwards, is_turned=True, repeats=True)
        return
    if collective.reduces.all() and (collective.num_wanted == 1).all():
        yield View(instance.reversed, backwards, is_turned=True)
        return
    yield View(instance)
    if not collective.num_wanted.all() or not collective.num_sources.all():
        return
    far = instance.distances_us
    to_all, from_all = (np.where(np.isfinite(each), each, 0.0).sum(axis=1) for each in (far, far.T))
    sums = instance.phases_at(_one_of(collective, collective.outputs, from_all)).reduce_phase
    copies = instance.phases_at(_one_of(collective, collective.inputs, to_all)).broadcast_phase
    assert sums is not None and copies is not None
    if backwards or not _are_equivalent(sums.problem, copies.problem):
        yield View(sums, backwards, is_turned=True)
    yield View(copies)


def _are_equivalent(sums: Problem, copies: Problem) -> bool:
    """Whether both copy the same chunks over equal links, so that a bound of one is a bound of the other."""
    if sums.limits.may_use is not None or sums.limits.own_first is not None:
        return False
    placements = [(each.collective.inputs, each.collective.outputs) for each in (sums, copies)]
    are_equal = (
        np.array_equal(
            np.sort(one.chunk * sums.num_ranks + one.rank), np.sort(other.chunk * sums.num_ranks + other.rank)
        )
        for one, other in zip(*placements, strict=True)
    )
    return all(are_equal) and _network_of(sums.topology) == _network_of(copies.topology)


def _network_of(topology: LogicalTopology) -> tuple[bytes, frozenset[bytes]]:
    """What is the same for networks that differ in the numbers of links and ports only."""
    order = np.lexsort((topology.dst, topology.src))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ends = np.stack([topology.src, topology.dst])[:, order]
    costs = np.stack([topology.alpha_us, topology.beta_us_per_mb])[:, order]
    link, port = topology.incidence
    at_port = np.lexsort((place[link], port))
    rows = np.stack([place[link].astype(np.float64), topology.pair_betas], axis=1)[at_port]
    ports = np.split(rows, np.flatnonzero(np.diff(port[at_port])) + 1)
    return ends.tobytes() + costs.tobytes(), frozenset(each.tobytes() for each in ports)


def _has_more_ends(collective: Collective) -> bool:
    """Whether chunks start at more ranks than they end at, or at fewer; else both directions say the same."""
    return len(np.unique(collective.inputs.rank)) != len(np.unique(collective.outputs.rank))


def _routed_back(problem: Problem) -> Instance:
    """Chunks from one rank to one, each from where it is wanted to where it starts, on links turned round."""
    limits = replace(problem.limits, own_first=None)
    return Instance(turned_round(replace(problem, limits=limits, symmetry=())))


def _one_of(collective: Collective, placement: Placement, far: FloatArray) -> IntArray:
    """Of each chunk's ranks in a placement the owner, or else the one that is farthest from all.

    The result has shape (num_chunks,), `far` has shape (num_ranks,).
    """
    owner = collective.owner
    order = np.lexsort((placement.rank, -far[placement.rank], placement.chunk))
    first = np.flatnonzero(np.diff(placement.chunk[order], prepend=-1))
    chosen = placement.rank[order][first]
    at_owner = placement.chunk[placement.rank == owner[placement.chunk]]
    chosen[at_owner] = owner[at_owner]
    return np.asarray(chosen)
