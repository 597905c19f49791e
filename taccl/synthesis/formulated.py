"""A request formulated as the problem that engines see, with the notes on how it was understood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from taccl.encoding.core.distance import least_transfers
from taccl.encoding.symmetry.search import lost_by_costs, with_symmetry_found
from taccl.model.engine_costs import LINKS_ONLY, Served
from taccl.model.problem import Problem
from taccl.sketch import Sketch, SketchedNetwork, check_ranks, sketched
from taccl.support.size_limits import MANY_CHUNKS, MAX_TRANSFERS, check_transfers
from taccl.synthesis.inputs import Inputs
from taccl.synthesis.request import Symmetry
from taccl.topologies import PhysicalTopology


@dataclass(frozen=True, eq=False)
class Formulated:
    """A problem, and how the request for it was understood."""

    problem: Problem
    topology: PhysicalTopology
    sketch: Sketch | None
    notes: tuple[str, ...] = ()


def network_of(inputs: Inputs) -> SketchedNetwork:
    """What the sketch makes of the machine."""
    check_ranks(inputs.collective, inputs.topology)
    return sketched(inputs.sketch, inputs.topology)


def problem_of(
    inputs: Inputs,
    symmetry: Symmetry,
    network: SketchedNetwork | None = None,
    served: Served | None = None,
    lost: Callable[[Problem], str | None] = lost_by_costs,
) -> Formulated:
    """The problem that the sketch leaves, with the symmetries that are requested.

    `network` : what the sketch makes of the machine, where that is known. `served` : by what its links are
    served, where the machine has an executor; None: by links' costs alone. `lost` : the note on
    symmetries that unequal costs break.
    """
    network = network_of(inputs) if network is None else network
    applied = network.applied(inputs.collective, inputs.chunk_mb, inputs.max_group)
    problem, notes = inputs.demand.stated(applied.problem), (*inputs.notes, *applied.notes)
    if served is not None and problem.topology.executor is not None:
        notes = (*notes, served.note(problem.topology.executor))
        problem = replace(problem, topology=network.effective(served))
    elif problem.topology.executor is not None:
        notes = (*notes, LINKS_ONLY)
    executor = inputs.topology.executor
    if served is not None and executor is not None and executor.origin is not None:
        notes = (*notes, executor.origin.note((inputs.size_bytes,)))
    if problem.num_chunks > MANY_CHUNKS:
        check_transfers(problem.collective.name, least_transfers(problem, MAX_TRANSFERS + 1))
    if symmetry == "auto":
        problem, note = with_symmetry_found(problem)
        notes = (*notes, note)
    elif broken := lost(problem):
        notes = (*notes, broken)
    return Formulated(problem, inputs.topology, inputs.sketch, notes)
