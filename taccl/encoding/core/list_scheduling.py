"""List scheduling by a policy: whenever a link is free, send over it what helps most.

The pass walks through time. A chunk helps on a link if it gets nearer to a rank that still wants it;
among those, the one that saves the most distance, summed over the wanting ranks, goes first. Chunks
that wait together may share one send. A link may also *hold*: wait until enough chunks have come.
Every decision is taken for a whole orbit of the problem's symmetry at once. In spirit this is the
link-chunk matching of TACOS (Won et al. 2024), with sizes, ports, groups and symmetry.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.encoding.core.costs import Costs, costs_of
from taccl.encoding.core.list_scheduling_loop import LOOKS, ROWS, Choices, Net, State, run_pass
from taccl.encoding.core.sequence import of_columns
from taccl.encoding.core.timing import without_dead_ends
from taccl.encoding.core.tuning import (
    LIST_SCHEDULING_COMPILING_S,
    LIST_SCHEDULING_LOOKS_AT_ONCE,
    LIST_SCHEDULING_LOOKS_PER_UNIT,
)
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget
from taccl.support.jit import flat

#: Random numbers of a pass, used in turn; a prime, so that chunks and numbers get out of step.
_CHANCES = 1009


@dataclass(frozen=True)
class Policy:
    """How one pass decides.

    Parameters
    ----------
    group : the most chunks in one send on a link inside a node.
    internode_group : the same on a link between nodes.
    hold : a link inside a node waits until this many chunks are there, while others move.
    internode_hold : the same for a link between nodes.
    taper : a send between nodes takes at most this part of what its link still has to carry, so
        that the last sends are small and what follows them is short.
    defer : leave a chunk to another link that would deliver it sooner.
    noise : relative random change of what helps most; 0 for none.
    """

    group: int = 1
    internode_group: int = 1
    hold: int = 1
    internode_hold: int = 1
    taper: float = 1.0
    defer: bool = True
    noise: float = 0.0


@dataclass(frozen=True, eq=False)
class RoutingInstance:
    """What all passes over one problem share.

    Parameters
    ----------
    problem : chunks that are copied, none reduced.
    symmetry : the group whose orbits are decided together; only the identity for none.
    distance_us, distance_row : for each kind of limits the distances between ranks, and which of these
        each chunk has (`paths.distances_by_limits`).
    usable : shape (num_chunks, num_links), where each chunk may go.
    path_remaining_us : shape (num_chunks, num_ranks); for a chunk with a fixed path, the time that it
        still needs from each rank on that path; 0 for chunks whose paths the pass chooses.
    """

    problem: Problem
    symmetry: SymmetryGroup
    distance_us: FloatArray
    distance_row: IntArray
    usable: BoolArray
    path_remaining_us: FloatArray

    @cached_property
    def remaining_us(self) -> FloatArray:
        """The distance of each rank that wants a chunk from the nearest copy, else 0.

        Shape (num_chunks, num_ranks).
        """
        collective = self.problem.collective
        remaining = np.zeros((collective.num_chunks, collective.num_ranks))
        for chunk, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True)):
            wanting = post & ~pre
            distance = self.distance_us[self.distance_row[chunk]]
            remaining[chunk, wanting] = distance[pre][:, wanting].min(axis=0)
        return remaining

    @cached_property
    def net(self) -> Net:
        """The columns that a pass reads."""
        problem, topology, symmetry = self.problem, self.problem.topology, self.symmetry
        duration_us = topology.duration_us(np.arange(topology.num_links), problem.chunk_mb)
        decides = symmetry.link_representative == np.arange(topology.num_links)
        out = [[link for link in links if decides[link]] for links in topology.links_from]
        faster = [
            [other for other in topology.links_into[rank] if duration_us[other] < duration_us[link]]
            for link, rank in enumerate(topology.dst.tolist())
        ]
        own_first = problem.limits.own_first
        return Net(
            topology.src,
            topology.dst,
            topology.internode,
            *flat(out),
            *flat(faster),
            self.usable,
            self.distance_us,
            self.distance_row,
            self.path_remaining_us,
            symmetry.chunk_map,
            symmetry.link_map,
            problem.collective.owner,
            np.zeros(topology.num_links, dtype=np.bool_) if own_first is None else np.asarray(own_first),
            problem.chunk_mb,
        )

    @cached_property
    def costs(self) -> Costs:
        return costs_of(self.problem.topology)

    @cached_property
    def _saved(self) -> tuple[FloatArray, IntArray]:
        """What a copy at each rank saves all that want the chunk, and how many it helps."""
        saved_us = np.zeros(self.remaining_us.shape)
        helped = np.zeros(self.remaining_us.shape, dtype=np.int64)
        for chunk, remaining in enumerate(self.remaining_us):
            distance = self.distance_us[self.distance_row[chunk]]
            helps = distance < remaining
            saved_us[chunk] = np.where(helps, remaining - distance, 0.0).sum(axis=1)
            helped[chunk] = helps.sum(axis=1)
        return saved_us, helped

    def beginning(self) -> State:
        """What is where before a pass."""
        collective, topology = self.problem.collective, self.problem.topology
        num_chunks, num_links = len(collective.pre), topology.num_links
        num_rows, num_events = collective.pre.size, 2 * num_links + 1
        saved_us, helped = self._saved
        return State(
            arrives_us=np.where(collective.pre, 0.0, np.inf),
            remaining_us=self.remaining_us.copy(),
            gain_us=saved_us.copy(),
            helped=helped.copy(),
            lacking=np.count_nonzero(self.remaining_us, axis=1),
            waiting=np.zeros((num_links, num_chunks), dtype=np.int32),
            num_waiting=np.zeros(num_links, dtype=np.int64),
            wake_us=np.full(num_links, np.inf),
            held=np.zeros(num_links, dtype=np.bool_),
            free_us=np.zeros(topology.num_ports),
            event_us=np.zeros(num_events),
            event=np.zeros(num_events, dtype=np.int64),
            worth=np.zeros(num_chunks),
            here=np.zeros(num_chunks, dtype=np.int64),
            chosen=np.zeros(num_chunks, dtype=np.int64),
            chunk=np.zeros(num_rows, dtype=np.int64),
            link=np.zeros(num_rows, dtype=np.int64),
            start_us=np.zeros(num_rows),
            send=np.zeros(num_rows, dtype=np.int64),
            now_us=np.full(1, -1.0),
            count=np.zeros(5, dtype=np.int64),
        )


def schedule_by_policy(
    routing: RoutingInstance, policy: Policy, random: np.random.Generator, budget: Budget | None = None
) -> Schedule | None:
    """A schedule by one pass, or None where the policy leaves a demand unmet or the budget is over.

    Without a budget, the pass takes the time that it needs.
    """
    problem, state, is_over, looks = routing.problem, routing.beginning(), False, 0
    values = {"net": routing.net, "costs": routing.costs, "choices": _choices(problem, policy, random)}
    while not is_over:
        if budget is not None and not budget.remaining_s():
            return None
        rows = _rows(problem, budget)
        state, is_over = run_pass(rows, **values, state=state, most_looks=LIST_SCHEDULING_LOOKS_AT_ONCE)
        if budget is not None:
            budget.spend((state.count[LOOKS] - looks) / LIST_SCHEDULING_LOOKS_PER_UNIT)
        looks = state.count[LOOKS]
    return None if any(state.lacking) else without_dead_ends(_schedule(problem, state))


def _schedule(problem: Problem, state: State) -> Schedule:
    """What was sent."""
    rows = state.count[ROWS]
    # Where the loop runs as it stands these are lists, and an empty list has no type.
    chunk, link, send = (
        np.asarray(column[:rows], dtype=np.int64) for column in (state.chunk, state.link, state.send)
    )
    start_us = np.asarray(state.start_us[:rows], dtype=np.float64)
    starts_us = start_us[np.flatnonzero(np.diff(send, prepend=-1))]
    return of_columns(problem, chunk, link, starts_us, np.zeros(rows, dtype=np.bool_), send)


def _rows(problem: Problem, budget: Budget | None) -> int:
    """How many rows the loop counts; none without time to compile it, where it runs as it stands."""
    if budget is None or (not budget.counts_work and budget.remaining_s() < LIST_SCHEDULING_COMPILING_S):
        return 0
    return problem.num_chunks * problem.topology.num_links


def _choices(problem: Problem, policy: Policy, random: np.random.Generator) -> Choices:
    """The policy, link by link."""
    internode = problem.topology.internode
    most = np.where(internode, policy.internode_group, policy.group)
    return Choices(
        np.minimum(most, problem.max_group),
        np.where(internode, policy.internode_hold, policy.hold),
        policy.taper,
        policy.defer,
        policy.noise,
        random.random(_CHANCES if policy.noise else 1),
    )
