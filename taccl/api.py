"""The walk, written out once: a machine, a sketch and a collective become a schedule and its file.

    topology -> sketch -> problem -> engines -> schedule -> program -> verified file

`make_problem` goes as far as the problem, `synthesize` to the end. The command line calls these and
nothing below them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from taccl.backend.target import AnyTarget, Lowered, ThreadBlocks
from taccl.backend.targets import find_target
from taccl.chunking import ChunksTried, choose_chunks
from taccl.collective import Collective
from taccl.encoding.core.budget import check_time_limit
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.stages import Explained, explained, plan_for
from taccl.encoding.symmetry.search import lost_by_costs, with_symmetry_found
from taccl.engine_costs import LINKS_ONLY, Pace, Served, as_engines_see
from taccl.errors import CheckError
from taccl.output_options import OutputOptions
from taccl.problem import Problem
from taccl.request import AnyCollective, Request, RequestKeywords, Symmetry, request_of, spelled_out
from taccl.resolved import Resolved, resolve
from taccl.result import OutputFile, Result
from taccl.schedule import Schedule
from taccl.search import Found, Observer, search
from taccl.sketch import Sketch, SketchedNetwork, check_ranks, sketched
from taccl.topologies import PhysicalTopology

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of type checkers: no dependency, and in `typing` from Python 3.11

#: However long it took to state a problem, so much of the time limit is for the search.
_LEAST_FOR_SEARCH_S = 1.0


@dataclass(frozen=True, eq=False)
class StatedProblem:
    """A problem, and how the request for it was understood."""

    problem: Problem
    topology: PhysicalTopology
    sketch: Sketch | None
    notes: tuple[str, ...] = ()


@spelled_out(RequestKeywords)
def make_problem(
    collective: AnyCollective | Request = "allgather", **asked: Unpack[RequestKeywords]
) -> StatedProblem:
    """What is asked, as an engine sees it.

    Parameters
    ----------
    collective : a collective, or a whole `taccl.Request`.
    asked : what else a `taccl.Request` says, by name; its docstring says what each word means.

    Raises
    ------
    TacclError : the request is wrong, or no schedule meets it.
    """
    request = request_of(collective, asked)
    return _stated(resolve(request), request.symmetry)


@spelled_out(RequestKeywords)
def synthesize(
    collective: AnyCollective | Request = "allgather",
    *,
    engine: str = "auto",
    solver: str = "highs",
    time_limit: float | None = None,
    effort: int | None = None,
    gap: float = 0.0,
    seed: int = 0,
    slack: float | None = None,
    xml: bool = True,
    protocol: str | None = None,
    instances: int = 1,
    thread_blocks: ThreadBlocks = "two-way",
    min_bytes: int | None = None,
    max_bytes: int | None = None,
    on_progress: Observer | None = None,
    **asked: Unpack[RequestKeywords],
) -> Result:
    """The fastest schedule found in time, with a bound on how fast any could be, as a verified file.

    Parameters
    ----------
    collective : a collective, or a whole `taccl.Request`.
    asked : what else a `taccl.Request` says, by name; its docstring says what each word means.
    engine, solver, seed : which engine searches, with which MILP solver, from which random seed.
    time_limit : seconds for the call, from stating the problem on, of which at least one is for the search;
        default 60, or with `effort` none.
    effort : units of work in place of seconds, nominally milliseconds of one core: the same seed and effort
        give the same answer on an idle or a busy machine, unless a `time_limit` ends the call before.
    gap : stop when (time - bound) / time is proven to be no more than this.
    slack : the longest ways that MILP and CP consider, relative to a chunk's shortest; None: short
        ways first, then longer ones.
    xml : whether to make the target's file at all.
    protocol, instances : of the file: one of the target's protocols (Simple, LL, LL128; None: its usual one);
        how many parallel copies of the program share each chunk.
    thread_blocks : `two-way`: a thread block may send and receive; `one-way`: each does one of the two.
    min_bytes, max_bytes : sizes of calls that the file serves; default: around `size`.
    on_progress : called with every news of the search (`taccl.search.Progress`); where it returns `"stop"`,
        the search ends and the best is kept.

    Raises
    ------
    TacclError : the subclass says whether the request is wrong (exit code 2), no schedule exists or
        none was found in time (3), or something made here failed its check (4).
    KeyboardInterrupt : the user stopped it before there was any schedule; later, the best is kept.
    """
    if time_limit is not None:
        check_time_limit(time_limit)
    options = SearchOptions(
        engine=engine,
        time_limit_s=time_limit,
        gap=gap,
        seed=seed,
        solver=solver,
        slack=slack,
        effort=effort,
    )
    output = OutputOptions(
        xml=xml,
        protocol=protocol,
        instances=instances,
        thread_blocks=thread_blocks,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
    )
    return synthesize_request(request_of(collective, asked), options, output, on_progress)


def synthesize_request(
    request: Request, options: SearchOptions, output: OutputOptions, on_progress: Observer | None = None
) -> Result:
    """`synthesize`, for a request and options that are made already."""
    began = time.monotonic()
    target = find_target(request.target)
    resolved = resolve(replace(request, chunks=_chunks_to_begin_with(request)))
    network = _network_of(resolved)
    collective = resolved.collective
    name = f"taccl-{collective.name}-{resolved.topology.name}"[:63]
    lowering = output.for_target(target, name, resolved.topology.executor)
    pace: Pace = "one-way" if lowering.thread_blocks == "one-way" else "in-phase"
    served = Served(lowering.protocol, lowering.instances, pace)
    stated = _stated(resolved, request.symmetry, network, served)
    if output.xml:  # fail now, and not after the search
        target.check_problem(stated.problem, lowering)

    @lru_cache(maxsize=1)  # whether a file can hold a schedule is asked before, and takes as long as the file
    def lowered(schedule: Schedule) -> Sequence[Lowered[Any]]:
        return target.lower(schedule, lowering)

    notes, tried = stated.notes, tuple[ChunksTried, ...]()
    if request.leaves_chunks_open:
        uncut = Request(
            collective=request.collective,
            topology=resolved.topology,
            sketch=resolved.sketch,
            size=resolved.size_bytes,
            root=request.root,
            target=target,
        )
        choice = choose_chunks(
            lambda number: _stated(resolve(replace(uncut, chunks=number)), request.symmetry, network, served),
            _with_what_is_left(options, began),
            on_progress,
            lowered if output.xml else None,
        )
        stated, found, tried = choice.stated, choice.found, choice.tried
        notes = (*resolved.notes, *stated.notes, choice.note)
    else:
        found = search(stated.problem, _with_what_is_left(options, began), on_progress)
    result = Result(
        found=found,
        options=options,
        topology=stated.topology.name,
        sketch=None if stated.sketch is None else stated.sketch.name,
        asked_for_file=output.xml,
        notes=(*notes, *_notes_on(found)),
        chunks_tried=tried,
    )
    if not output.xml:
        return result
    began = time.monotonic()
    try:
        try:
            files = _files(target, lowered(found.schedule), stated.problem.collective)
        except KeyboardInterrupt:  # it asks for what there is, which takes a file; the next one ends that too
            files = _files(target, lowered(found.schedule), stated.problem.collective)
    except CheckError as fault:
        fault.kept = result
        raise
    except Exception as fault:  # whatever a target does, and memory that runs out: the schedule is kept
        text = str(fault) or type(fault).__name__
        failed = CheckError(f"no file could be made: {text}", hint="--no-xml keeps the schedule")
        failed.kept = result
        raise failed from fault
    return replace(result, files=files, file_seconds=time.monotonic() - began)


def plan_of(request: Request, engine: str = "auto") -> tuple[Explained, ...]:
    """Which engine runs when for a request, for how much of the time, and why the others do not.

    Where the number of chunks is open, the plan is for one chunk in each part.

    Raises
    ------
    TacclError : the request is wrong, no schedule meets it, or there is no such engine.
    """
    asked = None if engine == "auto" else engine_named(engine)
    stated = make_problem(replace(request, chunks=_chunks_to_begin_with(request)))
    return tuple(explained(Instance(stated.problem), plan_for(asked)))


def _notes_on(found: Found) -> Iterator[str]:
    """What a search says beside its schedule: what else is proved of it, and what broke down."""
    if found.note:
        yield found.note
    for failure in found.failures:
        yield f"{failure.name} failed, and what was found is kept: {failure.text}"


def _with_what_is_left(options: SearchOptions, began_s: float) -> SearchOptions:
    """The options for a search in a call that began at `began_s`: stating the problem took its time, too.

    At least a second of the time limit is for the search. Where work is counted, that is left as it is.
    """
    if options.effort is not None and options.time_limit_s is None:
        return options
    left_s = options.limit_s - (time.monotonic() - began_s)
    return replace(options, time_limit_s=max(left_s, min(options.limit_s, _LEAST_FOR_SEARCH_S)))


def _network_of(resolved: Resolved) -> SketchedNetwork:
    """What the sketch makes of the machine."""
    check_ranks(resolved.collective, resolved.topology)
    return sketched(resolved.sketch, resolved.topology)


def _stated(
    resolved: Resolved,
    symmetry: Symmetry,
    network: SketchedNetwork | None = None,
    served: Served | None = None,
) -> StatedProblem:
    """The problem that the sketch leaves, with the symmetries that are asked for.

    `network` : what the sketch makes of the machine, where that is known. `served` : by what its links are
    served, where the machine has an executor; None: by links' costs alone.
    """
    network = _network_of(resolved) if network is None else network
    applied = network.applied(resolved.collective, resolved.chunk_mb, resolved.max_group)
    problem, notes = applied.problem, (*resolved.notes, *applied.notes)
    if served is not None and problem.topology.executor is not None:
        notes = (*notes, served.note(problem.topology.executor))
        problem = replace(
            problem, topology=as_engines_see(problem.topology, served.protocol, served.blocks, served.pace)
        )
    elif problem.topology.executor is not None:
        notes = (*notes, LINKS_ONLY)
    if symmetry == "auto":
        problem, note = with_symmetry_found(problem)
        notes = (*notes, note)
    elif lost := lost_by_costs(problem):
        notes = (*notes, lost)
    return StatedProblem(problem, resolved.topology, resolved.sketch, notes)


def _chunks_to_begin_with(request: Request) -> int | None:
    """With `auto`, one chunk of the size that is given, else whatever the default size is meant for."""
    if isinstance(request.chunks, str):
        return None if request.size is None else 1
    return request.chunks


def _files(
    target: AnyTarget, programs: Iterable[Lowered[Any]], collective: Collective
) -> tuple[OutputFile, ...]:
    """The verified texts of the programs, that for most runtimes first."""
    files = (
        OutputFile(target.verified_text(each, collective), each.program, each.readers, target)
        for each in programs
    )
    return tuple(sorted(files, key=lambda file: -len(file.readers)))
