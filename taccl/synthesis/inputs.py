"""A request with all its names looked up: the machine, the sketch, the collective, the size of a chunk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from taccl.backend.targets.registry import find_target
from taccl.errors import CollectiveError, SketchError, TacclError, TopologyError
from taccl.model import units
from taccl.model.collective import Collective
from taccl.model.collectives import COLLECTIVES, chunk_bytes, make_collective, rounding_notes
from taccl.model.network import OCCUPANCIES, Occupancy
from taccl.model.problem import NO_LIMIT
from taccl.sketch import Sketch, find_sketch, load_sketch
from taccl.sketch.model import NicSharing
from taccl.support.arguments import file_path, shown, word
from taccl.support.size_limits import check_cells, check_places
from taccl.synthesis.collective_file import is_collective_file, load_collective
from taccl.synthesis.request import AUTO, Request
from taccl.topologies import PhysicalTopology, load_topology


@dataclass(frozen=True, eq=False)
class Inputs:
    """What is requested, before the sketch is applied: chunks of `chunk_mb` MB of a collective on a machine.

    `max_group` is the most chunks that one send of the target carries; `notes` say how the request was
    understood.
    """

    collective: Collective
    topology: PhysicalTopology
    sketch: Sketch | None
    chunk_mb: float
    max_group: int = NO_LIMIT
    notes: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """What nccl-tests prints as `size`."""
        return round(self.chunk_mb * units.MB * self.collective.chunks_per_size)


def inputs_of(request: Request) -> Inputs:
    """The machine, collective and chunk size of a request, whether or not the sketch lets it be done.

    Raises
    ------
    TacclError : the subclass says what of the request is wrong.
    """
    max_group = find_target(request.target).max_group
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
        occupancy=request.occupancy,
    )
    collective = request.collective
    if isinstance(collective, Collective):
        _of_no_use("a collective that is made already", chunks=chunks, root=request.root)
    else:
        pieces = (1 if sketch is None else sketch.chunks_per_rank) if chunks is None else chunks
        collective = _collective(collective, machine.num_ranks, pieces, request.root)
        if machine.num_nodes == 1 and collective.name in COLLECTIVES:
            check_places(collective.name, machine.num_ranks, pieces)
    check_cells(collective.name, collective.num_ranks, collective.chunks_per_rank, collective.num_chunks)
    size_bytes = _size_bytes(
        request.size, sketch, machine, collective, chunk_size_known=request.profile is not None
    )
    bytes_each = chunk_bytes(collective.chunks_per_size, size_bytes)
    return Inputs(
        collective,
        machine,
        sketch,
        bytes_each / units.MB,
        max_group,
        notes=tuple(rounding_notes(size_bytes, bytes_each, collective.chunks_per_size)),
    )


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
) -> PhysicalTopology:
    """The machine that is named, or else the one that the sketch is meant for, with as many nodes.

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
        nodes = sketch.nodes if nodes is None and sketch is not None else nodes
        topology = load_topology(topology, nodes=nodes, profile=profile)
    if occupancy is None:
        return topology
    return topology.with_occupancy(word(occupancy, "occupancy", OCCUPANCIES, TopologyError))


def _of_no_use(what: str, **given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise TacclError(f"{name} is of no use with {what}", hint=f"leave {name} out")


def _collective(name: str | Path, num_ranks: int, pieces: int, root: int | None) -> Collective:
    if not isinstance(name, str | Path):
        raise CollectiveError(f"a collective is a name, a file or a Collective, not {shown(name)}")
    if is_collective_file(name):
        _of_no_use("a collective from a file", root=root)
        return load_collective(name, num_ranks, pieces)
    return make_collective(str(name), num_ranks, pieces, root)


def _size_bytes(
    size: str | int | None,
    sketch: Sketch | None,
    machine: PhysicalTopology,
    collective: Collective,
    *,
    chunk_size_known: bool,
) -> int:
    """What was requested; else a profile's costs hold for its chunk size; else the sketch's purpose."""
    if size is not None:
        return units.parse_size(size)
    if machine.chunk_bytes is not None and (chunk_size_known or sketch is None or sketch.size is None):
        return machine.chunk_bytes * collective.chunks_per_size
    if sketch is not None and sketch.size is not None:
        return sketch.size
    raise CollectiveError("no size is given", hint="--size 16MB (as nccl-tests counts it)")
