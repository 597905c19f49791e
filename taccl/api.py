"""The walk, written out once: a machine, a sketch and a collective become a schedule and its file.

    topology -> sketch -> problem -> engines -> schedule -> program -> verified file

`make_problem` goes as far as the problem, `synthesize` to the end. The command line calls these and
nothing below them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from taccl.backend.target import AnyTarget, Lowered, LoweringOptions, ThreadBlocks
from taccl.backend.targets import find_target
from taccl.choosing import Predictor, Way, choose_file, chunks_that_fit, unpredicted, ways_to_try
from taccl.cluster.connection import connected
from taccl.cluster.sharing import Sharing
from taccl.collective import Collective
from taccl.encoding.core.budget import check_time_limit
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.stages import Explained, explained, plan_for
from taccl.errors import CheckError, ProgramLimitError, TacclError
from taccl.executor import MODEL_ERROR
from taccl.network import LogicalTopology
from taccl.output_options import OutputOptions
from taccl.problem import Problem
from taccl.request import AnyCollective, Request, RequestKeywords, request_of, spelled_out
from taccl.resolved import resolve
from taccl.result import OutputFile, Result
from taccl.schedule import Schedule
from taccl.search import Alone, Found, Observer
from taccl.searching import Searching
from taccl.stated import StatedProblem, network_of, stated_problem

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of type checkers: no dependency, and in `typing` from Python 3.11

#: However long it took to state a problem, so much of the time limit is for the search.
_LEAST_FOR_SEARCH_S = 1.0
#: How far predictions of plans are off nobody has measured: of these, so little is taken for a tie.
_PLANS_TIE = 0.005
#: Where a file is too large, the part of the time left in which a number of chunks is looked for that fits.
_TO_TELL_WHAT_FITS = 0.5
#: Reasons that are written out.
_FINDINGS = 8


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
    return stated_problem(resolve(request), request.symmetry)


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
    instances: int | Literal["auto"] | None = None,
    thread_blocks: ThreadBlocks | Literal["auto"] | None = None,
    min_bytes: int | None = None,
    max_bytes: int | None = None,
    in_place: bool | None = None,
    scheduler: str | None = None,
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
    protocol, instances : of the file: one of the target's protocols (Simple, LL, LL128), and how many
        parallel copies of the program share each chunk.
    thread_blocks : `two-way`: a thread block may send and receive; `one-way`: each does one of the two.
        All three may be left open, as None or `auto`: then it is whatever is predicted fastest, where the
        machine says what executing costs; elsewhere the target's usual protocol, 1 and `two-way`. Plans for
        MSCCL++ are predicted on every machine, by its links alone where it says nothing else.
    min_bytes, max_bytes : sizes of calls that the file serves; default: around `size`.
    in_place : of a plan for MSCCL++, which is for one way to call it: whether for calls in place; None: as
        PyTorch calls the collective. Other files say themselves which calls they serve.
    scheduler : address of a Dask scheduler, such as tcp://10.0.0.1:8786, whose workers search as well:
        engines, seeds and numbers of chunks are tasks. What they find is checked here (docs/cluster.md).
    on_progress : called with every news of the search (`taccl.search.Progress`); where it returns `"stop"`,
        the search ends and the best is kept.

    Raises
    ------
    ClusterError : no scheduler answers at the address, or none of its workers can be used.
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
        in_place=in_place,
    )
    request = request_of(collective, asked)
    if scheduler is None:
        return synthesize_request(request, options, output, on_progress)
    began = time.monotonic()
    with connected(scheduler) as cluster:
        left = _with_what_is_left(options, began)
        sharing = Sharing(cluster, left.limit_s)
        result = synthesize_request(request, left, output, on_progress, sharing)
        return replace(result, options=options)


def synthesize_request(
    request: Request,
    options: SearchOptions,
    output: OutputOptions,
    on_progress: Observer | None = None,
    sharing: Sharing | None = None,
) -> Result:
    """`synthesize`, for a request and options that are made already, and a cluster that is found."""
    began = time.monotonic()
    target = find_target(request.target)
    resolved = resolve(replace(request, chunks=_chunks_to_begin_with(request)))
    network = network_of(resolved)
    name = f"taccl-{resolved.collective.name}-{resolved.topology.name}"[:63]
    lowering = output.for_target(target, name, network.topology.executor)
    ways = _ways(output, target, network.topology, lowering)
    executor = network.topology.executor
    stated = stated_problem(resolved, request.symmetry, network, ways[0].served)
    is_predicted = _can_be_predicted(target, output, network.topology) and _is_possible(
        target, stated.problem, lowering
    )
    if output.xml:  # fail now, and not after the search
        target.check_problem(stated.problem, lowering)

    @lru_cache(maxsize=1)  # whether a file can hold a schedule is asked before, and takes as long as the file
    def made(schedule: Schedule, way: Way) -> Sequence[Lowered[Any]]:
        made_so = replace(
            lowering,
            protocol=way.protocol,
            instances=way.instances,
            thread_blocks=way.thread_blocks,
            network=network.topology,
        )
        return target.lower(schedule, made_so)

    refusals: dict[tuple[Schedule, Way], TacclError] = {}

    def lowered(schedule: Schedule, way: Way) -> Sequence[Lowered[Any]]:
        if (schedule, way) in refusals:
            raise copy(refusals[schedule, way])
        try:
            return made(schedule, way)
        except TacclError as fault:
            refusals[schedule, way] = copy(fault)  # without what was made so far
            raise

    searching = Searching(
        request=replace(request, target=target, size=resolved.size_bytes),
        resolved=resolved,
        network=network,
        can_be_used=lowered if output.xml and (not is_predicted or target.as_plan is not None) else None,
        searcher=Alone() if sharing is None else sharing,
        several=is_predicted,
        chunk_bytes=target.limits.chunk_bytes if output.xml else 1,
    )
    left = _with_what_is_left(options, began)
    if is_predicted:
        predictor = Predictor(network.topology, lowered)
        error = MODEL_ERROR if target.as_plan is None else _PLANS_TIE
        choice = choose_file(searching, predictor, ways, left, error, on_progress, executor is not None)
    else:
        choice = unpredicted(searching(ways[0], left, None, on_progress))
    result = Result(
        found=choice.found,
        options=options,
        topology=choice.stated.topology.name,
        sketch=None if choice.stated.sketch is None else choice.stated.sketch.name,
        asked_for_file=output.xml,
        notes=(
            *choice.notes,
            *_notes_on(choice.found),
            *(
                ()
                if sharing is None
                else sharing.notes_on(choice.found, counts_work=options.effort is not None)
            ),
        ),
        scheduler=None if sharing is None else sharing.cluster.address,
        tasks=() if sharing is None else tuple(sharing.runs),
        chunks_tried=choice.chunks_tried,
        protocol=choice.way.protocol,
        instances=choice.way.instances,
        thread_blocks=choice.way.thread_blocks,
        blocks_per_gpu=choice.blocks_per_gpu,
        execution=choice.execution,
        files_tried=choice.files_tried,
        machine=None if executor is None else network.topology,
    )

    def searching_for(chunks: int) -> Searching:
        coarser = searching.with_chunks(chunks)
        problem = stated_problem(coarser.resolved, request.symmetry, network, ways[0].served).problem
        target.check_problem(problem, lowering)
        return coarser

    def what_fits() -> int:
        if not is_predicted or target.as_plan is None:  # then nobody goes back to what list scheduling finds
            return 0
        left_s = max(0.0, options.limit_s - (time.monotonic() - began))
        budget = replace(options, time_limit_s=left_s).budget().share(_TO_TELL_WHAT_FITS)
        chunks = result.collective.chunks_per_rank
        try:
            return chunks_that_fit(chunks, searching_for, lowered, ways[0], options, budget)
        except KeyboardInterrupt:
            return 0

    return _with_files(result, target, lambda: lowered(choice.found.schedule, choice.way), what_fits)


def _with_files(
    result: Result,
    target: AnyTarget,
    lower: Callable[[], Sequence[Lowered[Any]]],
    what_fits: Callable[[], int],
) -> Result:
    """The result with the verified files of its schedule, if any are asked for.

    `what_fits` : how many chunks would fit where a file is too large; 0: not known.

    Raises
    ------
    CheckError : no file could be made, or it failed its own check; the result is kept in it.
    """
    if not result.asked_for_file:
        return result
    began = time.monotonic()
    collective = result.collective
    try:
        if result.files_tried and result.execution is None:
            raise (CheckError if target.as_plan is None else ProgramLimitError)(  # a plan always ends
                "no way to make the file fits the machine and ends",
                findings=[f"{each.name}: {each.remark}" for each in result.files_tried[:_FINDINGS]],
                hint="--protocol and --instances make the file all the same"
                if target.as_plan is None
                else "--size, --chunks, --protocol, --instances as these reasons leave room, or --no-xml",
            )
        try:
            files = _files(target, lower(), collective)
        except KeyboardInterrupt:  # it asks for what there is, which takes a file; the next one ends that too
            files = _files(target, lower(), collective)
    except CheckError as fault:
        if isinstance(fault, ProgramLimitError):
            _tell_what_fits(fault, what_fits())
        fault.kept = result
        raise
    except Exception as fault:  # whatever a target does, and memory that runs out: the schedule is kept
        text = str(fault) or type(fault).__name__
        failed = CheckError(f"no file could be made: {text}", hint="--no-xml keeps the schedule")
        if isinstance(fault, TacclError):
            _tell_what_fits(failed, what_fits())
        failed.kept = result
        raise failed from fault
    return replace(result, files=files, file_seconds=time.monotonic() - began)


def _tell_what_fits(fault: CheckError, chunks: int) -> None:
    """Say in a refusal how many chunks would fit; 0: not known."""
    if chunks:
        fault.message += f"; fewer chunks: {chunks} fit{'s' if chunks == 1 else ''}"
        others = [] if fault.hint in (None, "fewer chunks") else [fault.hint]
        fault.hint = ", or ".join([f"--chunks {chunks}", *others])


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


def _ways(
    output: OutputOptions, target: AnyTarget, network: LogicalTopology, lowering: LoweringOptions
) -> tuple[Way, ...]:
    """The ways to make the file: as asked, and where that is open and can be predicted, all there are."""
    if not _can_be_predicted(target, output, network):
        return (Way(lowering.protocol, lowering.instances, lowering.thread_blocks),)
    return ways_to_try(network.executor, target, output)


def _can_be_predicted(target: AnyTarget, output: OutputOptions, network: LogicalTopology) -> bool:
    """Whether files have a time: programs where the machine has an executor, plans on any machine."""
    if network.executor is not None:
        return target.as_program is not None or target.as_plan is not None
    return target.as_plan is not None and output.xml


def _is_possible(target: AnyTarget, problem: Problem, lowering: LoweringOptions) -> bool:
    """Whether nothing is known that keeps a problem from having a file."""
    try:
        target.check_problem(problem, lowering)
    except TacclError:
        return False
    return True


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
