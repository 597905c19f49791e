"""The walk, written out once: a machine, a sketch and a collective become a schedule and its file.

    topology -> sketch -> problem -> engines -> schedule -> program -> verified file

`make_problem` goes as far as the problem, `synthesize` to the end. The command line calls these and
nothing below them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from taccl import units
from taccl.arguments import file_path, shown, whole_number, word
from taccl.backend.target import AnyTarget, Lowered, LoweringOptions
from taccl.backend.targets import DEFAULT_TARGET, find_target
from taccl.buildable import check_cells
from taccl.chunking import ChunksTried, choose_chunks
from taccl.collective_file import is_collective_file, load_collective
from taccl.collectives import Collective, chunk_bytes, make_collective
from taccl.encoding.core.budget import check_time_limit
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.symmetry.search import with_symmetry_found
from taccl.errors import (
    CheckError,
    CollectiveError,
    SketchError,
    TacclError,
    TopologyError,
    UnitError,
)
from taccl.problem import NO_LIMIT, OCCUPANCIES, Occupancy, Problem
from taccl.result import OutputFile, Result
from taccl.schedule import Schedule
from taccl.search import Found, Observer, search
from taccl.sketch import Sketch, apply_sketch, find_sketch, load_sketch
from taccl.sketch.model import NIC_SHARINGS, NicSharing
from taccl.topologies import PhysicalTopology, load_topology

#: Where the symmetries of a schedule come from.
Symmetry = Literal["sketch", "auto"]
SYMMETRIES: tuple[Symmetry, ...] = get_args(Symmetry)

#: Of a program for a target that has no limit of its own.
_MOST_INSTANCES = 1024


@dataclass(frozen=True, eq=False)
class StatedProblem:
    """A problem, and how the request for it was understood."""

    problem: Problem
    topology: PhysicalTopology
    sketch: Sketch | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked, before the sketch is applied: chunks of `chunk_mb` MB of a collective on a machine.

    `max_group` is the most chunks that one send of the target carries.
    """

    collective: Collective
    topology: PhysicalTopology
    sketch: Sketch | None
    chunk_mb: float
    max_group: int = NO_LIMIT

    @property
    def size_bytes(self) -> int:
        """What nccl-tests prints as `size`."""
        return round(self.chunk_mb * units.MB * self.collective.chunks_per_size)


def make_problem(
    collective: str | Path | Collective = "allgather",
    *,
    topology: str | Path | PhysicalTopology | None = None,
    sketch: str | Path | Sketch | None = None,
    size: str | int | None = None,
    nodes: int | None = None,
    profile: str | Path | None = None,
    chunks: int | None = None,
    root: int | None = None,
    occupancy: Occupancy | None = None,
    nic_sharing: NicSharing | None = None,
    symmetry: Symmetry = "sketch",
    target: str | AnyTarget = DEFAULT_TARGET.name,
) -> StatedProblem:
    """What is asked, as an engine sees it. Parameters and errors as in `synthesize`."""
    word(symmetry, "symmetry", SYMMETRIES, SketchError)
    asked = read_request(
        collective,
        topology=topology,
        sketch=sketch,
        size=size,
        nodes=nodes,
        profile=profile,
        chunks=chunks,
        root=root,
        occupancy=occupancy,
        nic_sharing=nic_sharing,
        target=target,
    )
    applied = apply_sketch(
        asked.sketch, asked.topology, asked.collective, asked.chunk_mb, max_group=asked.max_group
    )
    problem, notes = applied.problem, applied.notes
    if symmetry == "auto":
        problem, note = with_symmetry_found(problem)
        notes = (*notes, note)
    return StatedProblem(problem, asked.topology, asked.sketch, notes)


def read_request(
    collective: str | Path | Collective = "allgather",
    *,
    topology: str | Path | PhysicalTopology | None = None,
    sketch: str | Path | Sketch | None = None,
    size: str | int | None = None,
    nodes: int | None = None,
    profile: str | Path | None = None,
    chunks: int | None = None,
    root: int | None = None,
    occupancy: Occupancy | None = None,
    nic_sharing: NicSharing | None = None,
    target: str | AnyTarget = DEFAULT_TARGET.name,
) -> Request:
    """The machine, collective and chunk size of a request, whether or not the sketch lets it be done."""
    max_group = find_target(target).max_group
    if sketch is not None and not isinstance(sketch, Sketch):
        sketch = load_sketch(find_sketch(file_path(sketch, SketchError)))
    if nic_sharing is not None:
        sketch = _with_nic_sharing(sketch, word(nic_sharing, "nic_sharing", NIC_SHARINGS, SketchError))
    machine = choose_topology(topology, sketch, nodes=nodes, profile=profile, occupancy=occupancy)
    if isinstance(collective, Collective):
        _of_no_use("a collective that is made already", chunks=chunks, root=root)
    else:
        pieces = (1 if sketch is None else sketch.chunks_per_rank) if chunks is None else chunks
        collective = _collective(collective, machine.num_ranks, pieces, root)
    check_cells(collective.name, collective.num_ranks, collective.chunks_per_rank, collective.num_chunks)
    size_bytes = _size_bytes(size, sketch, machine, collective, chunk_size_known=profile is not None)
    chunk_mb = chunk_bytes(collective, size_bytes) / units.MB
    return Request(collective, machine, sketch, chunk_mb, max_group)


def synthesize(
    collective: str | Path | Collective = "allgather",
    *,
    topology: str | Path | PhysicalTopology | None = None,
    sketch: str | Path | Sketch | None = None,
    size: str | int | None = None,
    nodes: int | None = None,
    profile: str | Path | None = None,
    chunks: int | Literal["auto"] | None = None,
    root: int | None = None,
    occupancy: Occupancy | None = None,
    nic_sharing: NicSharing | None = None,
    symmetry: Symmetry = "sketch",
    engine: str = "auto",
    solver: str = "highs",
    time_limit: float = 60.0,
    gap: float = 0.0,
    seed: int = 0,
    slack: float | None = None,
    xml: bool = True,
    protocol: str = "Simple",
    instances: int = 1,
    target: str | AnyTarget = DEFAULT_TARGET.name,
    min_bytes: int | None = None,
    max_bytes: int | None = None,
    on_progress: Observer | None = None,
) -> Result:
    """The fastest schedule found in time, with a bound on how fast any could be, as a verified file.

    Parameters
    ----------
    collective : a name (allgather, reducescatter, allreduce, alltoall, broadcast, reduce, gather,
        scatter), a YAML file that describes one chunk by chunk, or a `Collective`.
    topology : a name of the catalogue (`taccl topology list`), a YAML file, or a topology. May be
        left out if the sketch names one.
    sketch : a published name, a file, or a sketch; None: all links may be used, as they are.
    size : what nccl-tests prints as `size`: bytes, or text like 16MB. Default: the size that the
        profile was measured for, else the size that the sketch is meant for.
    nodes : how many; default: the sketch's, else the topology's.
    profile : a TACCL profile (JSON) with measured costs of the links.
    chunks : pieces that one rank's part is cut into; default: the sketch's, else 1. `auto` searches
        for the number that is fastest at this size.
    root : root rank of broadcast, reduce, gather and scatter; default 0.
    occupancy : `serial` or `pipelined` (COST MODEL); default: the topology's.
    nic_sharing : `port` or `static`, TACCL's rule; default: the sketch's.
    symmetry : `sketch`: the schedule has the symmetries that the sketch states; `auto`: and as many more
        as are found. There is less to decide, so large machines gain; the fastest schedule may
        have none.
    engine, solver, seed : which engine searches, with which MILP solver, from which random seed.
    time_limit : seconds of search.
    gap : stop when (time - bound) / time is proven to be no more than this.
    slack : the longest ways that MILP and CP consider, relative to a chunk's shortest; None: short
        ways first, then longer ones.
    xml : whether to make the target's file at all.
    target : what the file is for: a name of `taccl.backend.targets.TARGETS` (all, msccl, executor, rccl), or
        a `Target` of one's own. It says how many chunks one send may carry, file or none.
    protocol, instances : of the file: Simple, LL or LL128; how many parallel copies of the program share
        each chunk.
    min_bytes, max_bytes : sizes of calls that the file serves; default: around `size`.
    on_progress : called with every news of the search (`taccl.search.Progress`); where it returns `"stop"`,
        the search ends and the best is kept.

    Raises
    ------
    TacclError : the subclass says whether the request is wrong (exit code 2), no schedule exists or
        none was found in time (3), or something made here failed its check (4).
    KeyboardInterrupt : the user stopped it before there was any schedule; later, the best is kept.
    """
    options = _solve_options(engine, solver, time_limit, gap, seed, slack)
    chosen = find_target(target)
    state = partial(
        make_problem,
        collective,
        topology=topology,
        sketch=sketch,
        nodes=nodes,
        profile=profile,
        root=root,
        occupancy=occupancy,
        nic_sharing=nic_sharing,
        symmetry=symmetry,
        target=chosen,
    )
    stated = state(size=size, chunks=_chunks_to_begin_with(chunks, size))
    _check_file(chosen, instances, min_bytes, max_bytes)
    lowering = LoweringOptions(
        protocol=chosen.protocol(protocol),
        instances=instances,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        name=f"taccl-{stated.problem.collective.name}-{stated.topology.name}"[:63],
    )
    if xml:  # fail now, and not after the search
        chosen.check_problem(stated.problem, lowering)

    def lowered(schedule: Schedule) -> Sequence[Lowered[Any]]:
        return chosen.lower(schedule, lowering)

    notes, tried = stated.notes, tuple[ChunksTried, ...]()
    if isinstance(chunks, str):  # auto
        choice = choose_chunks(
            lambda number: state(size=stated.problem.size_bytes, chunks=number),
            options,
            on_progress,
            lowered if xml else None,
        )
        stated, found, tried = choice.stated, choice.found, choice.tried
        notes = (*stated.notes, choice.note)
    else:
        found = search(stated.problem, options, on_progress)
    result = Result(
        found=found,
        options=options,
        topology=stated.topology.name,
        sketch=None if stated.sketch is None else stated.sketch.name,
        files=(),
        notes=(*notes, *_notes_on(found)),
        chunks_tried=tried,
    )
    if not xml:
        return result
    try:
        try:
            files = _files(chosen, lowered(found.schedule), stated.problem.collective)
        except KeyboardInterrupt:  # it asks for what there is, which takes a file; the next one ends that too
            files = _files(chosen, lowered(found.schedule), stated.problem.collective)
    except CheckError as fault:
        fault.kept = result
        raise
    return replace(result, files=files)


def _notes_on(found: Found) -> Iterator[str]:
    """What a search says beside its schedule: what else is proved of it, and what broke down."""
    if found.note:
        yield found.note
    for failure in found.failures:
        yield f"{failure.name} failed, and what was found is kept: {failure.text}"


def _chunks_to_begin_with(chunks: int | str | None, size: str | int | None) -> int | None:
    """With `auto`, one chunk of the size that is given, else whatever the default size is meant for."""
    if isinstance(chunks, str):
        if chunks == "auto":
            return None if size is None else 1
        raise TacclError(
            f"chunks must be a number or auto, not {shown(chunks)}", hint="chunks 4, or chunks auto"
        )
    return chunks


def _files(
    target: AnyTarget, programs: Iterable[Lowered[Any]], collective: Collective
) -> tuple[OutputFile, ...]:
    """The verified texts of the programs, that for most runtimes first."""
    files = (
        OutputFile(target.verified_text(each, collective), each.program, each.readers, target)
        for each in programs
    )
    return tuple(sorted(files, key=lambda file: -len(file.readers)))


def _check_file(target: AnyTarget, instances: int, min_bytes: int | None, max_bytes: int | None) -> None:
    """The numbers of the file that can be told to be wrong before there is a schedule."""
    most = _MOST_INSTANCES if target.limits.instances is None else target.limits.instances
    whole_number(instances, "instances", TacclError, least=1, most=most, hint="--instances 2")
    for name, size_bytes in (("min", min_bytes), ("max", max_bytes)):
        if size_bytes is not None:
            what, most_bytes = f"{name}_bytes", 2 * units.MAX_SIZE_BYTES
            whole_number(size_bytes, what, UnitError, least=0, most=most_bytes, hint=f"--{name}-size 1MB")


def _solve_options(
    engine: str, solver: str, time_limit: float, gap: float, seed: int, slack: float | None
) -> SearchOptions:
    check_time_limit(time_limit)
    return SearchOptions(
        engine=engine, time_limit_s=time_limit, gap=gap, seed=seed, solver=solver, slack=slack
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
    """What was asked; else a profile's costs hold for its chunk size; else the sketch's purpose."""
    if size is not None:
        return units.parse_size(size)
    if machine.chunk_bytes is not None and (chunk_size_known or sketch is None or sketch.size is None):
        return machine.chunk_bytes * collective.chunks_per_size
    if sketch is not None and sketch.size is not None:
        return sketch.size
    raise CollectiveError("no size is given", hint="--size 16MB (as nccl-tests counts it)")
