"""What is too large to be planned whole: one node's chunks are planned, and their images are the schedule.

It takes the place of the walk's first two steps where `formulate` says that a collective is too large and the
machine is a cluster of equal nodes. `taccl.model.template` says why that is enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from taccl.backend.targets.registry import find_target
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import ENGINES, engine_named
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.node_zero import solve_node_0
from taccl.errors import CollectiveError, NoScheduleInTime, ProgramLimitError, TooLargeError, TopologyError
from taccl.model import units
from taccl.model.collectives import EQUAL_PARTS, chunk_bytes, first_parts, plain_name, rounding_notes
from taccl.model.problem import Problem
from taccl.model.template import Template
from taccl.model.tolerance import TOLERANCE_US
from taccl.sketch.one_node import EqualNodes, equal_nodes
from taccl.support.size_limits import MAX_PLACES
from taccl.synthesis.autotune.tuning import TEMPLATES_LEAST_IMAGES, TEMPLATES_MOST_CHUNKS
from taccl.synthesis.inputs import choose_topology, size_bytes_of
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request
from taccl.synthesis.result import Result
from taccl.synthesis.search import Found, Observer, heard
from taccl.synthesis.template_files import files_of_template
from taccl.topologies.without import without_helpers

#: What a request that is planned by its template may not say, and what to leave out then.
_OF_WHOLE = ("sketch", "sizes", "root", "profile", "nic_sharing", "helpers", "windows")


def template_result(
    request: Request,
    options: SearchOptions,
    output: OutputOptions,
    began_s: float,
    on_progress: Observer | None = None,
    refusal: TooLargeError | None = None,
) -> Result:
    """The result that plans one node of a cluster: its schedule is the template's part.

    Parameters
    ----------
    began_s : when the call began, by `time.monotonic()`.
    refusal : why the collective is not planned whole, if that is why; raised where it has no template.

    Raises
    ------
    CollectiveError : the collective has no template, or the request has words for whole schedules.
    TopologyError : the machine has none.
    ProgramLimitError : a file is requested, which no reader has room for.
    NoScheduleInTime, SolverError : as `search`.
    """
    name = plain_name(str(request.collective))
    said = [word for word in _OF_WHOLE if getattr(request, word) is not None]
    if name not in EQUAL_PARTS or said or request.executor or request.symmetry != "sketch":
        raise refusal or CollectiveError(
            f"a template is of {', '.join(EQUAL_PARTS)} by links alone, without {', '.join(_OF_WHOLE)}"
        )
    try:
        requested = _requested(name, request)
    except TopologyError as fault:
        if refusal is None:
            raise
        raise TooLargeError(f"{refusal.message}; {fault.message}", hint=refusal.hint) from fault
    target = find_target(request.target)
    if output.file and target.of_ranks is None:
        raise ProgramLimitError(
            f"a template has no file of all ranks for {target.name}",
            hint="--target json; --no-file --schedule FILE keeps one node's chunks",
        )
    lowering = output.for_target(target, f"taccl-{name}-{requested.cluster.topology.name}")

    def refuse(problem: Problem) -> None:
        if output.file and target.refuse is not None:
            target.refuse(problem, lowering)

    template, found = _fastest(requested, options, began_s, on_progress, refuse)
    template.check()
    planned = "node 0" if template.block == template.gpus else f"the first {template.block} ranks"
    result = Result(
        found=found,
        options=options,
        topology=requested.cluster.topology.name,
        sketch=None,
        notes=(
            *requested.notes,
            f"planned are the chunks of {planned}; {template.images} images are the schedule",
        ),
        any_chunks=found.any_chunks,
        template=template,
    )
    if not output.file:
        return result
    return replace(result, **files_of_template(template, target, lowering))


@dataclass(frozen=True, eq=False)
class _Requested:
    """A collective with equal parts on a cluster, and notes on how the request was understood."""

    name: str
    cluster: EqualNodes
    pieces: int
    chunk_mb: float
    max_group: int
    notes: tuple[str, ...]

    def problem(self, together: int) -> Problem:
        """The chunks of this many nodes on what they use of the machine."""
        network, owners = self.cluster.network(together), self.cluster.gpus * together
        collective = first_parts(self.name, network.num_ranks, self.pieces, owners)
        return Problem(network, collective, self.chunk_mb, max_group=self.max_group)

    def together(self) -> Iterator[int]:
        """How many nodes may be planned as one, what promises most first: one, then many to few.

        Sends of several nodes' chunks pay fewer alphas. They are no larger than a send may be, and all
        transfers of the planned chunks are no more than any engine orders.
        """
        cluster, chunks = self.cluster, self.cluster.gpus * self.pieces
        yield 1
        powers = (1 << bit for bit in range(cluster.nodes.bit_length(), 0, -1))
        for many in powers if cluster.links_all else ():
            ranks = cluster.nodes * cluster.gpus
            if (
                cluster.nodes % many == 0
                and cluster.nodes // many >= TEMPLATES_LEAST_IMAGES
                and chunks * many <= min(self.max_group, MAX_PLACES // ranks, TEMPLATES_MOST_CHUNKS)
            ):
                yield many


def _fastest(
    requested: _Requested,
    options: SearchOptions,
    began_s: float,
    on_progress: Observer | None,
    refuse: Callable[[Problem], None],
) -> tuple[Template, Found]:
    """The fastest of schedules that plan one node or several together, each with its part of the time.

    Fewer together are tried as long as that is faster, and there is time for a network as for the last one.
    `refuse` raises for a problem that can have no file, before any search.
    """
    engines = ENGINES if options.engine == "auto" else (engine_named(options.engine),)
    best: tuple[Template, Found] | None = None
    counts = list(requested.together())
    for number, together in enumerate(counts):
        began_way_s = time.monotonic()
        try:
            problem, images = requested.problem(together), requested.cluster.nodes // together
            refuse(problem)
            stated_s = time.monotonic() - began_way_s
            left = options.since(began_s)
            if options.effort is None:
                left = replace(left, time_limit_s=left.limit_s / (len(counts) - number))
            journal, budget = Journal(), left.budget()
            updates = solve_node_0(problem, images, engines, journal, budget)
            found = heard(updates, left, journal, budget, on_progress)
        except (NoScheduleInTime, KeyboardInterrupt):
            if best is None:
                raise
            break
        if best is None or found.schedule.makespan_us < best[1].schedule.makespan_us - TOLERANCE_US:
            best = Template(requested.name, found.schedule, images), found
        elif together < max(counts):
            break
        left_s = options.limit_s - (time.monotonic() - began_s)
        if found.status in ("interrupted", "optimal", "gap reached") or (
            options.effort is None and left_s < 2 * stated_s
        ):
            break
    assert best is not None
    return best


def _requested(name: str, request: Request) -> _Requested:
    """What is requested, looked up.

    Raises
    ------
    TopologyError : the machine is no cluster of equal nodes.
    """
    target, pieces = find_target(request.target), request.first_chunks or 1
    machine = choose_topology(
        request.topology,
        nodes=request.nodes,
        occupancy="pipelined" if target.is_one_sided and request.occupancy is None else request.occupancy,
        without=request.without,
        executor=False,
    )
    notes = []
    plain = without_helpers(machine)
    if plain is not machine:
        notes.append("without the helpers of the machine, of which no template knows")
    cluster = equal_nodes(plain)
    collective = first_parts(name, plain.num_ranks, pieces, cluster.gpus)
    size_bytes = size_bytes_of(request.size, None, machine, collective, chunk_size_known=False)
    each = chunk_bytes(collective.chunks_per_size, size_bytes)
    notes += rounding_notes(size_bytes, each, collective.chunks_per_size)
    notes.append("used are links inside nodes and between equal GPUs of nodes; bounds are for these")
    return _Requested(name, cluster, pieces, each / units.MB, target.max_group, tuple(notes))
