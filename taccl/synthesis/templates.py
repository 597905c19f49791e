"""What is too large to be planned whole: one node's chunks are planned, and their images are the schedule.

It takes the place of the walk's first two steps where `formulate` says that a collective is too large and the
machine is a cluster of equal nodes. `taccl.model.template` says why that is enough.
"""

from __future__ import annotations

from dataclasses import replace

from taccl.backend.targets.registry import find_target
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import ENGINES, engine_named
from taccl.encoding.portfolio.journal import Journal
from taccl.encoding.portfolio.node_zero import solve_node_0
from taccl.errors import CollectiveError, ProgramLimitError, TooLargeError, TopologyError
from taccl.model import units
from taccl.model.collectives import EQUAL_PARTS, chunk_bytes, first_parts, plain_name, rounding_notes
from taccl.model.problem import Problem
from taccl.model.template import Template
from taccl.sketch.one_node import network_of_node_0
from taccl.synthesis.inputs import choose_topology, size_bytes_of
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request
from taccl.synthesis.result import Result
from taccl.synthesis.search import Observer, heard
from taccl.synthesis.template_files import files_of_template
from taccl.topologies.without import without_helpers

#: What a request that is planned by its template may not say, and what to leave out then.
_OF_WHOLE = ("sketch", "sizes", "root", "profile", "nic_sharing", "helpers")


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
    target = find_target(request.target)
    if output.file and target.of_ranks is None:
        raise ProgramLimitError(
            f"a template has no file of all ranks for {target.name}",
            hint="--target json; --no-file --schedule FILE keeps one node's chunks",
        )
    try:
        problem, notes = _problem(name, request)
    except TopologyError as fault:
        if refusal is None:
            raise
        raise TooLargeError(f"{refusal.message}; {fault.message}", hint=refusal.hint) from fault
    options = options.since(began_s)
    engines = ENGINES if options.engine == "auto" else (engine_named(options.engine),)
    journal, budget = Journal(), options.budget()
    found = heard(solve_node_0(problem, engines, journal, budget), options, journal, budget, on_progress)
    template = Template(name, found.schedule)
    template.check()
    result = Result(
        found=found,
        options=options,
        topology=problem.topology.name,
        sketch=None,
        notes=(*notes, f"planned are the chunks of node 0; {template.num_nodes} images are the schedule"),
        any_chunks=found.any_chunks,
        template=template,
    )
    if not output.file:
        return result
    lowering = output.for_target(target, f"taccl-{name}-{problem.topology.name}"[:63])
    return replace(result, **files_of_template(template, target, lowering))


def _problem(name: str, request: Request) -> tuple[Problem, tuple[str, ...]]:
    """The chunks of node 0 on what they use of the machine, and notes on how that was understood."""
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
    network = network_of_node_0(plain)
    collective = first_parts(name, network.num_ranks, pieces, network.num_ranks // network.num_nodes)
    size_bytes = size_bytes_of(request.size, None, machine, collective, chunk_size_known=False)
    each = chunk_bytes(collective.chunks_per_size, size_bytes)
    notes += rounding_notes(size_bytes, each, collective.chunks_per_size)
    notes.append("used are links inside nodes and between equal GPUs of nodes; bounds are for these")
    return Problem(network, collective, each / units.MB, max_group=target.max_group), tuple(notes)
