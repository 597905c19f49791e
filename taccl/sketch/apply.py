"""Sketch + machine + collective -> the problem that engines solve, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from taccl.errors import CollectiveError, InfeasibleError, SketchError
from taccl.model.collective import Collective, IntArray
from taccl.model.engine_costs import Served, effective_network
from taccl.model.network import LogicalTopology
from taccl.model.problem import NO_LIMIT, Problem, RoutingLimits
from taccl.sketch.demands import SketchDemand, can_go, first_gap, what_moves
from taccl.sketch.layout import SketchLayout, check_gpu_numbers, layout_of
from taccl.sketch.limits import check_senders, routing_limits
from taccl.sketch.model import Internode, Intranode, Sketch
from taccl.sketch.network import few_links_note, has_too_many_links, logical_topology
from taccl.sketch.symmetry import check_rotation, keeps_collective, rank_map
from taccl.support.size_limits import check_members
from taccl.topologies.model import PhysicalTopology

#: What no sketch means: every link of the machine, as it is.
ALL_LINKS = Sketch(name="all links")


@dataclass(frozen=True)
class Applied:
    """A problem, and what its caller should tell the user: one sentence each."""

    problem: Problem
    notes: tuple[str, ...] = ()


def apply_sketch(
    sketch: Sketch | None,
    topology: PhysicalTopology,
    collective: Collective,
    chunk_mb: float,
    max_group: int = NO_LIMIT,
) -> Applied:
    """The problem that a sketch makes of a machine and a collective, with chunks of `chunk_mb` MB.

    At most `max_group` of them may travel as one send.

    Without a sketch, every link of the machine may be used as it is. A symmetry of the network that
    the collective does not share (as with a root) is left out, and a note says so: one sketch
    serves many collectives.

    Raises
    ------
    SketchError : the sketch does not fit the machine, or a symmetry is none of the network.
    InfeasibleError : a chunk cannot reach a rank: names both, and the line that forbids it.
    CollectiveError : the collective is for another number of ranks.
    """
    check_ranks(collective, topology)
    return sketched(sketch, topology).applied(collective, chunk_mb, max_group)


@dataclass(frozen=True, eq=False)
class SketchedNetwork:
    """What a sketch makes of a machine, for any collective: it is made once for all numbers of chunks."""

    sketch: Sketch
    machine: PhysicalTopology
    layout: SketchLayout
    topology: LogicalTopology
    limits: RoutingLimits
    notes: tuple[str, ...] = ()

    @cached_property
    def effective(self) -> Callable[[Served], LogicalTopology]:
        """The network under the costs of what serves its links, as engines see it.

        The last one is kept: to make one of 261,632 links takes a second.
        """
        topology = self.topology

        @lru_cache(maxsize=1)
        def made(served: Served) -> LogicalTopology:
            return effective_network(topology, served.protocol, served.blocks, served.pace)

        return made

    def applied(self, collective: Collective, chunk_mb: float, max_group: int = NO_LIMIT) -> Applied:
        """The problem of a collective, as `apply_sketch` makes it, which says what it raises."""
        check_ranks(collective, self.machine)
        symmetry, notes = _symmetry(self.sketch, self.layout, self.topology, self.limits, collective)
        gap = first_gap(collective, self.topology, self.limits)
        if gap is not None:
            raise _infeasible(gap, self.sketch, self.machine, self.layout, collective)
        problem = Problem(self.topology, collective, chunk_mb, symmetry, self.limits, max_group)
        return Applied(problem, (*self.notes, *notes))


def sketched(sketch: Sketch | None, topology: PhysicalTopology) -> SketchedNetwork:
    """The network that a sketch leaves of a machine; without one, every link as it is.

    Raises
    ------
    SketchError : the sketch does not fit the machine.
    TopologyError : there are too many GPUs or links.
    """
    check_members(topology.name, topology.num_members)
    sketch = ALL_LINKS if sketch is None else sketch
    layout = layout_of(topology)
    check_gpu_numbers(sketch, layout, topology.name)
    check_senders(sketch)
    logical, limits = _network(sketch, topology, layout)
    notes = (few_links_note(logical, layout),) if has_too_many_links(sketch, topology, layout) else ()
    return SketchedNetwork(sketch, topology, layout, logical, limits, notes)


def check_ranks(collective: Collective, topology: PhysicalTopology) -> None:
    """Raise CollectiveError for a collective of another number of ranks than the machine has."""
    if collective.num_ranks != topology.num_ranks:
        raise CollectiveError(
            f"the collective is for {collective.num_ranks} ranks, but {topology.name} has "
            f"{topology.num_ranks}",
            hint=f"a machine of {collective.num_ranks}: --nodes, or another --topology",
        )


def _network(
    sketch: Sketch, topology: PhysicalTopology, layout: SketchLayout
) -> tuple[LogicalTopology, RoutingLimits]:
    logical = logical_topology(sketch, topology, layout)
    return logical, routing_limits(sketch, logical, layout)


def _symmetry(
    sketch: Sketch,
    layout: SketchLayout,
    logical: LogicalTopology,
    limits: RoutingLimits,
    collective: Collective,
) -> tuple[tuple[IntArray, ...], tuple[str, ...]]:
    """The sketch's symmetries that the collective shares, and notes about the others."""
    kept, notes = [], []
    for rotation in sketch.symmetry:
        ranks = rank_map(sketch, rotation, layout)
        if np.array_equal(ranks, np.arange(layout.num_ranks)):
            continue
        check_rotation(sketch, rotation, ranks, logical, limits)
        if keeps_collective(ranks, collective):
            kept.append(ranks)
        else:
            notes.append(f"symmetry {rotation} is not used: it would change the {collective.name}")
    return tuple(kept), tuple(notes)


def _infeasible(
    gap: SketchDemand,
    sketch: Sketch,
    topology: PhysicalTopology,
    layout: SketchLayout,
    collective: Collective,
) -> InfeasibleError:
    """The error for a demand that cannot be met: the first term whose absence would let it, and its line."""
    message = f"{what_moves(gap, collective)} cannot go from rank {gap.src} to rank {gap.dst}"
    for term in () if sketch is ALL_LINKS else _terms(sketch, layout, gap.owner):
        if _lets(gap, term.without, topology, layout):
            return InfeasibleError(
                f"{message}: {term.reason}", path=sketch.path, line=term.line, hint=term.hint
            )
    return InfeasibleError(
        f"{message}: {topology.name} has no links that lead there",
        hint="check the links of the topology, in both directions",
    )


@dataclass(frozen=True)
class _Term:
    """Something that a sketch forbids: the sketch without it, and what to say of it."""

    without: Sketch
    reason: str
    line: int | None
    hint: str


def _terms(sketch: Sketch, layout: SketchLayout, owner: int) -> Iterator[_Term]:
    """What a sketch forbids to chunks of an owner; each sketch without it allows all that the last did."""
    local = int(layout.local_of[owner])
    entries = [entry for entry in sketch.internode.sender_for if local in entry.owners]
    senders = ", ".join(str(entry.sender) for entry in entries)
    yield _Term(
        replace(sketch, internode=replace(sketch.internode, sender_for=())),
        f"`sender_for` lets the chunks of GPU {local} leave a node only through GPU {senders}",
        entries[0].line if entries else None,
        f"name a sender for GPU {local} that leads there, or leave `sender_for` out",
    )
    relays = sketch.internode.relays
    for between in (Internode("fully-connected"), Internode("none")):
        yield _Term(
            replace(sketch, internode=between),
            f"the inter-node strategy {sketch.internode.strategy!r} has no link that leads there",
            relays[0].line if relays else sketch.internode.line,
            "add a relay entry that leads there, or use the inter-node strategy fully-connected",
        )
        yield _Term(
            replace(sketch, internode=between, intranode=Intranode()),
            f"the intra-node strategy {sketch.intranode.strategy!r} leaves no link that leads there",
            sketch.intranode.line,
            "list more GPUs under `switches`, or use the intra-node strategy none",
        )


def _lets(gap: SketchDemand, sketch: Sketch, topology: PhysicalTopology, layout: SketchLayout) -> bool:
    """Whether a demand can be met with another sketch."""
    try:
        return can_go(gap, *_network(sketch, topology, layout))
    except SketchError:  # for example, a fully connected fabric on a machine without NICs
        return False
