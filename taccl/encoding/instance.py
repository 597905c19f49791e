"""A problem and all that is derived from it, each thing at most once and only when somebody asks.

Engines, bounds and the portfolio are given the same instance. It has what follows from a problem alone: who
wants what, distances, short paths, symmetries, the quotient, the members alone, the two phases of a
reduction, and the best bound that anybody proved.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import numpy as np

from taccl.encoding.core.demand import Demand
from taccl.encoding.core.distance import distances_us
from taccl.encoding.core.earliest import (
    ChunkKinds,
    chunk_kinds,
    distances_by_limits,
    earliest_us,
    shortest_path_sets,
)
from taccl.encoding.core.phases import Phases, default_owners, phases
from taccl.encoding.members import Members, members
from taccl.encoding.quotient import Quotient, quotient
from taccl.encoding.symmetry.group import SymmetryGroup, symmetry_group
from taccl.encoding.symmetry.search import assumed_group
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.support.deriving import Deriving

#: What an instance is of the problem that is requested: all of it, all of it without the machine's helpers,
#: its sums, or the copies that follow them.
Part = Literal["whole", "members", "reduce phase", "broadcast phase"]

#: A quotient is looked for at about this many pairs of a rank and a link a second.
_QUOTIENT_CELLS_PER_S = 5_000_000


class Instance(Deriving):
    """A problem, and what is derived from it as it is requested.

    Whoever has the same instance shares what was derived, so it must not be changed.

    Parameters
    ----------
    problem : what engines and bounds answer.
    part : what it is of the problem that is requested.
    is_quotient : whether it asks for schedules with a symmetry only, so its bounds say nothing of others.
    """

    def __init__(self, problem: Problem, part: Part = "whole", *, is_quotient: bool = False) -> None:
        self.problem, self.part, self.is_quotient = problem, part, is_quotient
        #: Permutations of the ranks that change the network: a problem's phases need not look at them again.
        self._refused: set[bytes] = set()
        #: An instance with the same links and chunks of the same size.
        self._equivalent: Instance | None = None
        #: The same over links turned round.
        self._turned: Instance | None = None
        #: The best lower bound that is proved of the problem so far, microseconds; 0: none.
        self.bound_us = 0.0
        #: The same of what holds for any number of equal chunks.
        self.any_chunks_us = 0.0

    def __repr__(self) -> str:
        return f"Instance({self.problem!r})"

    @property
    def features(self) -> frozenset[str]:
        """What the problem uses that not every engine and bound knows."""
        return self.problem.features

    @cached_property
    def demand(self) -> Demand:
        """Who has and who wants what."""
        return Demand(self.problem.collective)

    @cached_property
    def durations_us(self) -> FloatArray:
        """How long one chunk takes alone on each link, shape (num_links,)."""
        topology = self.problem.topology
        return topology.duration_us(np.arange(topology.num_links), self.problem.chunk_mb)

    @cached_property
    def distances_us(self) -> FloatArray:
        """Least times of a chunk between all ranks over any links, shape (num_ranks, num_ranks)."""
        if self._equivalent is not None:
            return self._equivalent.distances_us
        if self._turned is not None:  # from there to here over links turned round
            return np.ascontiguousarray(self._turned.distances_us.T)
        return distances_us(self.problem.topology, self.durations_us)

    @cached_property
    def distances_by_limits(self) -> tuple[FloatArray, IntArray]:
        """The same over the links that each kind of chunks may use, and the kind of each chunk.

        Shapes (num_kinds, num_ranks, num_ranks) and (num_chunks,).
        """
        if self.problem.limits.may_use is None:
            return self.distances_us[None], np.zeros(self.problem.num_chunks, dtype=np.int64)
        return distances_by_limits(self.problem)

    @cached_property
    def chunk_kinds(self) -> ChunkKinds:
        """The same for chunks of all sizes."""
        if self.problem.sizes is not None:
            return chunk_kinds(self.problem)
        distances, kind = self.distances_by_limits
        shape = len(distances), len(self.durations_us)
        return ChunkKinds(distances, kind, np.broadcast_to(self.durations_us, shape))

    @cached_property
    def earliest_us(self) -> FloatArray:
        """When each output can be there at best, with what follows it, shape (len(outputs),)."""
        return earliest_us(self.problem, self.chunk_kinds)

    def path_sets(self, slack: float) -> BoolArray:
        """The links on paths that are short enough for each chunk, shape (num_chunks, num_links)."""
        return self._once(
            ("path sets", slack),
            lambda: shortest_path_sets(self.problem, self.chunk_kinds, slack),
        )

    @cached_property
    def latency_fraction(self) -> float:
        """The largest part that alpha has in one chunk's time on a link, from 0 to 1."""
        alone = np.maximum(self.durations_us, np.finfo(float).tiny)
        return float((self.problem.topology.alpha_us / alone).max(initial=0.0))

    @cached_property
    def group(self) -> SymmetryGroup:
        """All compositions of the problem's symmetries."""
        return symmetry_group(self.problem)

    def assumed_group(self, exchanges_first: bool = False) -> SymmetryGroup:
        """The same, or, where the problem states no symmetry, of those that machines are built by.

        `exchanges_first` says which of those count where two do not go together (`symmetry.candidates`).
        """
        if self.problem.symmetry:
            return self.group
        return self._once(
            ("assumed group", exchanges_first),
            lambda: assumed_group(self.problem, exchanges_first, self._refused),
        )

    @cached_property
    def quotient(self) -> Quotient | None:
        """The part that decides the rest where ranks look the same, with its images."""
        return quotient(self.problem, self._refused)

    @property
    def quotient_takes_s(self) -> float:
        """About how long it will take to find the quotient; 0 where that is done."""
        if "quotient" in self.__dict__:
            return 0.0
        return self.problem.num_ranks * self.problem.topology.num_links / _QUOTIENT_CELLS_PER_S

    @cached_property
    def quotient_instance(self) -> Instance | None:
        """That part as an instance."""
        return None if self.quotient is None else Instance(self.quotient.problem, self.part, is_quotient=True)

    @cached_property
    def members(self) -> Members | None:
        """The problem without helpers, if there are helpers and it can be answered without them."""
        return members(self.problem)

    @cached_property
    def members_instance(self) -> Instance | None:
        """That problem as an instance."""
        return None if self.members is None else Instance(self.members.problem, "members")

    @cached_property
    def phases(self) -> Phases[Instance]:
        """What has to be summed, as copies on the reversed links, and what has to be copied then."""
        return self._in_phases(None)

    def phases_at(self, owners: IntArray) -> Phases[Instance]:
        """The same with the sum of each chunk made at its rank in `owners`, shape (num_chunks,)."""
        if np.array_equal(owners, default_owners(self.problem.collective)):
            return self.phases
        return self._once(("phases", owners.tobytes()), lambda: self._in_phases(owners))

    def _in_phases(self, owners: IntArray | None) -> Phases[Instance]:
        parts = phases(self.problem, owners, lambda: self.group)
        if parts.reduce_phase is None:
            return Phases(None, self)  # nothing is summed, so the copies are the whole
        sums, copies = parts.reduce_phase, parts.broadcast_phase
        return Phases(
            self._on_the_same_network(sums, "reduce phase"),
            None if copies is None else self._on_the_same_network(copies, "broadcast phase", forwards=True),
        )

    def _on_the_same_network(self, problem: Problem, part: Part, forwards: bool = False) -> Instance:
        """An instance of a phase: the same links (`forwards`) or the reversed ones, with the same limits."""
        phase = Instance(problem, part, is_quotient=self.is_quotient)
        phase._equivalent = self if forwards else None
        phase._turned = None if forwards else self
        if self.problem.limits.own_first is None:  # of the reversed problem that is not requested
            phase._refused = self._refused
        return phase

    @cached_property
    def reversed(self) -> Instance:
        """The problem backwards in time.

        Raises
        ------
        CollectiveError : it has no mirror image.
        """
        if self.phases.reduce_phase is not None and self.phases.broadcast_phase is None:
            return self.phases.reduce_phase
        return self._on_the_same_network(self.problem.reversed(), self.part)

    @property
    def copying(self) -> Instance:
        """The problem, or the reversed one where all chunks are sums for one rank: either only copies."""
        return self.reversed if self.demand.reduces.all() and self.demand.to_one else self

    @property
    def is_of_one_root(self) -> bool:
        """Whether all chunks go from one rank to all, or are sums for one: many can follow each other."""
        source = self.copying.problem.collective.source
        return self.copying.demand.broadcasts and bool((source == source[0]).all())

    def proves(self, bound_us: float, any_chunks: bool = False) -> None:
        """Keep a bound that somebody proved, if it is the best so far."""
        self.bound_us = max(self.bound_us, bound_us)
        self.any_chunks_us = max(self.any_chunks_us, bound_us if any_chunks else 0.0)
