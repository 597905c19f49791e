"""A small AllReduce over nodes: sums go to a relay in each node, relays exchange them, and spread them.

Each chunk has a relay in every node, at the same place in all. What happens inside a node, sums to the relays
and copies from them, is searched once, on one node alone; between nodes relays exchange whole sums, across
one bit of the node's number after another or with all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from taccl.encoding.core.equivalent_nodes import EquivalentNodes, equivalent_nodes
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.ordering import list_schedule
from taccl.encoding.core.timing import Decision, decisions_of, in_order, predecessors
from taccl.encoding.engines.combining.engine import searched
from taccl.encoding.engines.combining.tuning import (
    RELAYS_BLOCKS,
    RELAYS_FOR_KNOWN,
    RELAYS_IN_ORDER_PER_S,
    RELAYS_MANY,
)
from taccl.encoding.engines.engine import Run
from taccl.encoding.instance import Instance
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


def by_relays(instance: Instance, known: Run, options: SearchOptions, budget: Budget) -> Iterator[Schedule]:
    """A schedule for each choice of relays; nothing where nodes differ, or links between relays are missing.

    At least the first choice is tried, and once the time is up no other.

    `known` : an engine that is requested first what happens inside a node.
    """
    problem = instance.problem
    nodes = equivalent_nodes(problem.topology)
    if nodes is None or _takes_too_long(problem, budget):
        return
    choices = list(_choices(problem, nodes))
    for number, (relay, moves) in enumerate(choices):
        if number and not budget.remaining_s():
            return
        share = budget.share(1 / (len(choices) - number))
        alone = _Alone(problem, nodes, relay, known, options)
        sums = alone.sends(share.share(0.5), backwards=True)
        copies = None if sums is None else alone.sends(share, backwards=False)
        if sums is not None and copies is not None:
            sends = _sends(problem, nodes, relay, sums, copies, moves)
            if not _are_allowed(problem, sends):
                continue
            before = predecessors(problem, sends)
            made = in_order(problem, sends, before), list_schedule(problem, sends, before=before)
            yield min(made, key=lambda each: each.makespan_us)


def _takes_too_long(problem: Problem, budget: Budget) -> bool:
    """Whether one schedule of very many transfers would be in order only after the time is up."""
    transfers = 2 * problem.num_chunks * problem.num_ranks
    return transfers > RELAYS_MANY and transfers / RELAYS_IN_ORDER_PER_S > budget.remaining_s()


def _are_allowed(problem: Problem, sends: list[Decision]) -> bool:
    may_use, owner = problem.limits.may_use, problem.collective.owner
    return may_use is None or all(may_use[owner[list(send.chunks)], send.link].all() for send in sends)


#: For each step, who sends to whom, by the numbers of nodes.
_Moves = list[list[tuple[int, int]]]


def _choices(problem: Problem, nodes: EquivalentNodes) -> Iterator[tuple[IntArray, _Moves]]:
    """The place of each chunk's relay, shape (num_chunks,), and exchanges that relays have links for."""
    many, size = nodes.ranks.shape
    place = np.empty(problem.num_ranks, dtype=np.int64)
    place[nodes.ranks] = np.arange(size)
    pairs = [[(a, b) for turn in range(1, many) for a in range(many) for b in [(a + turn) % many]]]
    exchanges: list[_Moves] = [pairs]
    if many > 2 and many & (many - 1) == 0:
        bits = [1 << bit for bit in range(many.bit_length() - 1)]
        exchanges.append([[(node, node ^ bit) for node in range(many)] for bit in bits])
    relays = [np.full(problem.num_chunks, at) for at in range(size)]
    for relay in (place[problem.collective.owner], *relays):
        for moves in exchanges:
            used = np.unique(relay)
            index = problem.topology.link_index
            if all(
                (int(nodes.ranks[a, at]), int(nodes.ranks[b, at])) in index
                for step in moves
                for a, b in step
                for at in used
            ):
                yield relay, moves


@dataclass(frozen=True, eq=False)
class _Alone:
    """What happens inside a node, by the first one alone; `relay` is the place of each chunk's relay."""

    problem: Problem
    nodes: EquivalentNodes
    relay: IntArray
    known: Run
    options: SearchOptions

    def sends(self, budget: Budget, backwards: bool) -> list[Decision] | None:
        """How relays spread their chunks, in order, over the node's own links; `backwards`: how they sum.

        The chunks of a relay travel in blocks, which alone are searched: one, two or four of them.
        """
        best_us, best = np.inf, None
        most = self.problem.max_group
        fitting = [
            blocks for many in RELAYS_BLOCKS if (blocks := _blocks(self.relay, many, most)) is not None
        ]
        for number, blocks in enumerate(fitting):
            if best is not None and not budget.remaining_s():
                break
            alone = _spread_alone(self.problem, self.nodes, self.relay, blocks, backwards)
            share = budget.share(1 / (len(fitting) - number))
            for schedule in _found(alone, self.known, self.options, share):
                if schedule.makespan_us < best_us:
                    best_us, best = schedule.makespan_us, (schedule, blocks)
        if best is None:
            return None
        schedule, blocks = best
        sends = decisions_of(schedule)
        return [
            Decision(tuple(chunk for block in each.chunks for chunk in blocks[block]), each.link)
            for each in (sends[::-1] if backwards else sends)
        ]


def _found(problem: Problem, known: Run, options: SearchOptions, budget: Budget) -> Iterator[Schedule]:
    """What `known` has, where it has anything, and what combining finds."""
    instance = Instance(problem)
    for update in known(instance, options, budget.share(RELAYS_FOR_KNOWN), None):
        if update.schedule is not None:
            yield update.schedule
    yield from searched(instance, options, budget, None)


def _blocks(relay: IntArray, many: int, most: int) -> list[list[int]] | None:
    """The chunks of each relay in this many equal blocks; None where they cannot be, or not be sent."""
    blocks: list[list[int]] = []
    for at in np.unique(relay):
        chunks = np.flatnonzero(relay == at)
        if len(chunks) % many:
            return None
        blocks += chunks.reshape(many, -1).tolist()
    sizes = {len(block) for block in blocks}
    return blocks if len(sizes) == 1 and max(sizes) <= most else None


def _spread_alone(
    problem: Problem, nodes: EquivalentNodes, relay: IntArray, blocks: list[list[int]], backwards: bool
) -> Problem:
    """A node's problem: every block from its relay to all; on the links turned round, if `backwards`."""
    topology = _one_node(problem.topology, nodes)
    size, many, each = topology.num_ranks, len(blocks), len(blocks[0])
    owner = relay[[block[0] for block in blocks]]
    block, rank = np.repeat(np.arange(many), size), np.tile(np.arange(size), many)
    spread = Collective(
        name="spread from relays",
        num_ranks=size,
        chunks_per_rank=1,
        chunks_per_size=many,
        inputs=Placement(np.arange(many), owner, np.arange(many)),
        outputs=Placement(block, rank, block),
        reduces=np.zeros(many, dtype=np.bool_),
        owner=owner,
        in_place_shift=np.zeros(size, dtype=np.int64),
    )
    return replace(
        problem,
        topology=topology.reversed() if backwards else topology,
        collective=spread,
        chunk_mb=problem.chunk_mb * each,
        max_group=problem.max_group // each,
        limits=RoutingLimits(),
        symmetry=(),
    )


def _one_node(topology: LogicalTopology, nodes: EquivalentNodes) -> LogicalTopology:
    """The first node alone."""
    links = nodes.links[0]
    number: dict[int, int] = {}
    ports = tuple(
        tuple(number.setdefault(port, len(number)) for port in topology.ports[link]) for link in links
    )
    place = np.full(topology.num_ranks, -1)
    place[nodes.ranks[0]] = np.arange(nodes.ranks.shape[1])
    betas = topology.port_betas
    return replace(
        topology,
        src=place[topology.src[links]],
        dst=place[topology.dst[links]],
        alpha_us=topology.alpha_us[links],
        beta_us_per_mb=topology.beta_us_per_mb[links],
        ports=ports,
        port_names=tuple(topology.port_names[port] for port in number),
        node_of=np.zeros(nodes.ranks.shape[1], dtype=np.int64),
        port_betas=None if betas is None else tuple(betas[link] for link in links),
    )


def _sends(
    problem: Problem,
    nodes: EquivalentNodes,
    relay: IntArray,
    sums: list[Decision],
    copies: list[Decision],
    moves: _Moves,
) -> list[Decision]:
    """All sends: sums to the relays of each node, what relays exchange, and copies from them."""
    topology, made = problem.topology, list[Decision]()
    cells = np.ndindex(problem.num_chunks, problem.num_ranks)
    holds = {(chunk, rank): 1 << rank for chunk, rank in cells}
    for links in nodes.links:
        for each in sums:
            link = int(links[each.link])
            src, dst = int(topology.src[link]), int(topology.dst[link])
            made.append(Decision(each.chunks, link, True, tuple(holds[chunk, src] for chunk in each.chunks)))
            for chunk in each.chunks:
                holds[chunk, dst] |= holds[chunk, src]
    for step in moves:
        now = dict(holds)
        for a, b in step:
            for at in np.unique(relay).tolist():
                src, dst = int(nodes.ranks[a, at]), int(nodes.ranks[b, at])
                chunks = np.flatnonzero(relay == at)
                for part in np.array_split(chunks, -(-len(chunks) // problem.max_group)):
                    named = tuple(holds[chunk, src] for chunk in part.tolist())
                    made.append(Decision(tuple(part.tolist()), topology.link_index[src, dst], True, named))
                    for chunk in part.tolist():
                        now[chunk, dst] |= holds[chunk, src]
        holds = now
    for links in nodes.links:
        made += [
            Decision(copy.chunks, int(links[copy.link]), False, (0,) * len(copy.chunks)) for copy in copies
        ]
    return made
