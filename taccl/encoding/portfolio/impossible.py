"""Why a problem whose ranks may not all sum or copy has no schedule, in the words of the machine's file.

Each reason is a proof: it holds for every schedule. Where none applies, there may be a schedule that no
engine finds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.lists import few


def why_impossible(problem: Problem) -> tuple[str, str] | None:
    """Why there is no schedule, and what would help; None: no reason is known."""
    if problem.topology.may_sum is None and problem.topology.may_copy is None:
        return None  # all reasons are of limited ranks, and there may be thousands of chunks to go through
    return next(_reasons(problem), None)


def limited_ranks(topology: LogicalTopology) -> str:
    """The ranks that may not sum or not copy, with the word that their `can` lacks."""
    listed = [
        f"{topology.rank_name(rank)} cannot `{word}`"
        for word, may in (("reduce", topology.may_sum), ("copy", topology.may_copy))
        if may is not None
        for rank in np.flatnonzero(~may).tolist()
    ]
    return few(listed, 4)


def _reasons(problem: Problem) -> Iterator[tuple[str, str]]:
    collective, topology = problem.collective, problem.topology
    for chunk in range(collective.num_chunks):
        neighbours = _neighbours(problem, chunk)
        sources, wanted = (
            set(placement.rank[placement.chunk == chunk].tolist())
            for placement in (collective.inputs, collective.outputs)
        )
        which = collective.describe_chunk(chunk)
        if collective.reduces[chunk]:
            yield from _nobody_can_sum(topology, neighbours, which, sources, wanted)
        else:
            yield from _one_copy_is_not_enough(topology, neighbours, which, sources, wanted)


def _nobody_can_sum(
    topology: LogicalTopology, neighbours: list[list[int]], which: str, sources: set[int], wanted: set[int]
) -> Iterator[tuple[str, str]]:
    """The last two parts of a sum meet at a rank that may sum, that all contributions reach."""
    if topology.may_sum is None or len(sources) < 2:
        return
    meets = set(np.flatnonzero(topology.may_sum).tolist())
    for source in sources:
        meets &= _reached(neighbours, {source})
    for rank in sorted(wanted - _reached(neighbours, meets)):
        yield (
            f"{which} cannot be summed for {topology.rank_name(rank)}: no rank that may sum "
            f"is reached by all contributions and reaches it; {limited_ranks(topology)}",
            "let one of these sum, or link it to one that does",
        )


def _one_copy_is_not_enough(
    topology: LogicalTopology, neighbours: list[list[int]], which: str, sources: set[int], wanted: set[int]
) -> Iterator[tuple[str, str]]:
    """Who may not copy has a chunk once and passes it to one rank; who depends on it must be behind that."""
    limited = [] if topology.may_copy is None else np.flatnonzero(~topology.may_copy).tolist()
    for relay in limited:
        behind = wanted - sources - {relay} - _reached(neighbours, sources - {relay}, without=relay)
        keeps = relay in wanted
        if not behind:
            continue
        if not keeps and any(behind <= _reached(neighbours, {x}, relay) for x in neighbours[relay]):
            continue
        to = f"to {'itself and ' * keeps}ranks {few(sorted(behind))}"
        yield (
            f"{which} cannot come {to}: every way leads through {topology.rank_name(relay)}, which "
            "cannot `copy` and passes a chunk on to one rank, once",
            f"can: [copy] for {topology.rank_name(relay)}, or link these ranks in another way",
        )


def _neighbours(problem: Problem, chunk: int) -> list[list[int]]:
    """The ranks to which each rank may send a chunk."""
    topology = problem.topology
    neighbours: list[list[int]] = [[] for _ in range(topology.num_ranks)]
    for link in np.flatnonzero(problem.usable(chunk)).tolist():
        neighbours[int(topology.src[link])].append(int(topology.dst[link]))
    return neighbours


def _reached(neighbours: list[list[int]], begin: Collection[int], without: int = -1) -> set[int]:
    """The ranks to which some ranks have a way that does not pass `without`, with these."""
    reached = set(begin) - {without}
    look = list(reached)
    for rank in look:
        for other in neighbours[rank]:
            if other not in reached and other != without:
                reached.add(other)
                look.append(other)
    return reached
