"""A request with all its names looked up: the machine, the sketch, the collective, the size of a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from taccl.backend.targets.registry import find_target
from taccl.errors import CollectiveError, SketchError, TacclError, TopologyError
from taccl.model import units
from taccl.model.collective import Collective
from taccl.model.collectives import chunk_bytes, make_collective, plain_name, rounding_notes
from taccl.model.demand import Demand, alltoallv
from taccl.model.executor import RuntimeName
from taccl.model.network import OCCUPANCIES, Occupancy
from taccl.model.problem import NO_LIMIT
from taccl.model.windows import Windows
from taccl.sketch import Sketch, find_sketch, load_sketch
from taccl.sketch.model import NicSharing
from taccl.sketch.network import takes_all_links
from taccl.support.arguments import file_path, shown, word
from taccl.support.size_limits import check_cells, check_places
from taccl.synthesis.collective_file import is_collective_file, load_demand
from taccl.synthesis.request import AUTO, Request
from taccl.synthesis.size_matrix import size_matrix
from taccl.synthesis.windows_file import load_windows
from taccl.topologies import PhysicalTopology, load_topology
from taccl.topologies.executors.defaults import as_executed
from taccl.topologies.servers import with_servers
from taccl.topologies.without import as_used_by, without_helpers
from taccl.topologies.without import without as topology_without

#: Collectives whose parts may be unequal.
_WITH_SIZES = ("alltoall", "alltoallv")


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is requested, before the sketch is applied: a demand in chunks of `chunk_mb` MB on a machine.

    `max_group` is the most chunks that one send of the target carries; `notes` say how the request was
    understood.
    """

    demand: Demand
    topology: PhysicalTopology
    sketch: Sketch | None
    chunk_mb: float
    max_group: int = NO_LIMIT
    notes: tuple[str, ...] = ()

    @property
    def collective(self) -> Collective:
        return self.demand.collective

    @property
    def size_bytes(self) -> int:
        """What nccl-tests prints as `size`."""
        return round(self.chunk_mb * units.MB * self.demand.units_per_size)


def inputs_of(request: Request) -> Inputs:
    """The machine, collective and chunk size of a request, whether or not the sketch lets it be done.

    Raises
    ------
    TacclError : the subclass says what of the request is wrong.
    """
    inputs, windows = _without_windows(request), request.windows
    if windows is None:
        return inputs
    if not isinstance(windows, Windows):
        windows = load_windows(file_path(windows, CollectiveError))
    return replace(inputs, demand=windows.applied(inputs.demand, inputs.chunk_mb))


def _without_windows(request: Request) -> Inputs:
    target = find_target(request.target)
    sketch, chunks = request.sketch, request.chunks
    if isinstance(chunks, str):
        raise TacclError(
            f"only synthesize searches for the number of chunks; here it has to be one, not {AUTO}",
            hint="chunks 4",
        )
    if sketch is not None and not isinstance(sketch, Sketch):
        sketch = load_sketch(find_sketch(file_path(sketch, SketchError)))
    if request.nic_sharing is not None:
        sketch = _with_nic_sharing(sketch, request.nic_sharing)
    machine = choose_topology(
        request.topology,
        sketch,
        nodes=request.nodes,
        profile=request.profile,
        occupancy="pipelined" if target.is_one_sided and request.occupancy is None else request.occupancy,
        executor=request.executor,
        runtime=target.executed_by,
        without=request.without,
        helpers=request.helpers,
    )
    pieces = (1 if sketch is None else sketch.chunks_per_rank) if chunks is None else chunks
    demand = _demand_of_members(request, machine, pieces)
    if machine.num_helpers and demand.collective.num_ranks == machine.num_members:
        machine = as_used_by(machine, demand.collective)
        demand = replace(demand, collective=demand.collective.with_helpers(machine.num_helpers))
    collective = demand.collective
    check_cells(collective.name, collective.num_ranks, collective.chunks_per_rank, collective.num_chunks)
    if demand.chunk_bytes is not None:
        if request.size is not None:
            raise CollectiveError(
                f"{collective.name} says itself how large its chunks are", hint="leave --size out"
            )
        return Inputs(demand, machine, sketch, demand.chunk_bytes / units.MB, target.max_group)
    size_bytes = size_bytes_of(
        request.size, sketch, machine, collective, chunk_size_known=request.profile is not None
    )
    if demand.sizes is not None:
        chunk_mb = size_bytes / demand.units_per_size / units.MB
        return Inputs(demand, machine, sketch, chunk_mb, target.max_group)
    bytes_each = chunk_bytes(collective.chunks_per_size, size_bytes)
    return Inputs(
        demand,
        machine,
        sketch,
        bytes_each / units.MB,
        target.max_group,
        notes=tuple(rounding_notes(size_bytes, bytes_each, collective.chunks_per_size)),
    )


def _demand_of_members(request: Request, machine: PhysicalTopology, pieces: int) -> Demand:
    wanted, num_ranks = request.collective, machine.num_members
    if isinstance(wanted, Collective):
        _of_no_use(
            "a collective that is made already", chunks=request.chunks, root=request.root, sizes=request.sizes
        )
        return Demand(wanted)
    if not isinstance(wanted, str | Path):
        raise CollectiveError(f"a collective is a name, a file or a Collective, not {shown(wanted)}")
    if is_collective_file(wanted):
        _of_no_use("a collective from a file", root=request.root, sizes=request.sizes)
        return load_demand(wanted, num_ranks, pieces)
    if request.sizes is not None:
        if plain_name(str(wanted)) not in _WITH_SIZES:
            raise CollectiveError(f"sizes say how much ranks send in an alltoall, and not in {wanted}")
        _of_no_use("sizes for each two ranks", root=request.root, size=request.size)
        try:
            return alltoallv(size_matrix(request.sizes, num_ranks), pieces)
        except CollectiveError as fault:
            if isinstance(request.sizes, str | Path):
                fault.path = str(request.sizes)
            raise
    collective = make_collective(str(wanted), num_ranks, pieces, request.root)
    if machine.num_nodes == 1:
        check_places(collective.name, num_ranks, pieces)
    return Demand(collective)


def _with_nic_sharing(sketch: Sketch | None, nic_sharing: NicSharing) -> Sketch:
    if sketch is None:
        raise SketchError(
            "how links share a NIC is part of a sketch, and none is given", hint="--sketch NAME"
        )
    return replace(sketch, internode=replace(sketch.internode, nic_sharing=nic_sharing))


def choose_topology(
    topology: str | Path | PhysicalTopology | None,
    sketch: Sketch | None = None,
    *,
    nodes: int | None = None,
    profile: str | Path | None = None,
    occupancy: Occupancy | None = None,
    without: str | Sequence[str] | None = None,
    helpers: int | None = None,
    executor: bool | None = None,
    runtime: RuntimeName | None = None,
) -> PhysicalTopology:
    """The machine that is named, or else the one that the sketch is meant for, with as many nodes.

    `helpers` is the number of its servers, `without` what of it is left out then, and `runtime` who is to
    execute files on it; the other words are those of a `Request`.

    Raises
    ------
    TopologyError : neither names one, or it cannot be made so.
    """
    if topology is None:
        if sketch is None or sketch.topology is None:
            raise TopologyError(
                "no topology is given" + ("" if sketch is None else ", and the sketch names none"),
                hint="--topology NAME (see taccl topology list) or --topology FILE.yaml",
            )
        topology = sketch.topology
    if isinstance(topology, PhysicalTopology):
        _of_no_use("a topology that is made already", nodes=nodes, profile=profile)
    else:
        if nodes is None and sketch is not None:
            topology = _with_nodes_of(sketch, topology, profile)
        else:
            topology = load_topology(topology, nodes=nodes, profile=profile)
    if sketch is not None and not takes_all_links(sketch):
        topology = without_helpers(topology)  # a sketch that chooses links says nothing of helpers
    if helpers is not None:
        topology = with_servers(topology, helpers)
    if without is not None:
        topology = topology_without(topology, (without,) if isinstance(without, str) else without)
    topology = as_executed(topology, executor, runtime)
    if occupancy is None:
        return topology
    return topology.with_occupancy(word(occupancy, "occupancy", OCCUPANCIES, TopologyError))


def _with_nodes_of(sketch: Sketch, topology: str | Path, profile: str | Path | None) -> PhysicalTopology:
    """The machine with as many nodes as the sketch is for.

    Raises
    ------
    TopologyError : there is none, and the sketch is named where only its number of nodes is in the way.
    """
    try:
        return load_topology(topology, nodes=sketch.nodes, profile=profile)
    except TopologyError as fault:
        load_topology(topology, profile=profile)  # raises what is wrong with any number of nodes
        fault.message += f"; the sketch {sketch.name} is for {sketch.nodes}"
        raise


def _of_no_use(what: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise TacclError(f"{name} is of no use with {what}", hint=f"leave {name} out")


def size_bytes_of(
    size: str | int | None,
    sketch: Sketch | None,
    machine: PhysicalTopology,
    collective: Collective,
    *,
    chunk_size_known: bool,
) -> int:
    """What was requested; else a profile's costs hold for its chunk size; else the sketch's purpose.

    Raises
    ------
    CollectiveError : nothing says how large it is.
    """
    if size is not None:
        return units.parse_size(size)
    if machine.chunk_bytes is not None and (chunk_size_known or sketch is None or sketch.size is None):
        return machine.chunk_bytes * collective.chunks_per_size
    if sketch is not None and sketch.size is not None:
        return sketch.size
    raise CollectiveError("no size is given", hint="--size 16MB (as nccl-tests counts it)")
