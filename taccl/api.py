"""The walk, written out once: a machine, a sketch and a collective become a schedule and its file.

    topology -> sketch -> problem -> engines -> schedule -> program -> verified file

`make_problem` goes as far as the problem, `synthesize` to the end. The command line calls these and
nothing below them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from taccl.backend.target import AnyTarget, LoweringOptions, ThreadBlocks
from taccl.backend.targets.registry import find_target
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.stages import Explained, explained, plan_for
from taccl.errors import TacclError
from taccl.model.executor import MODEL_ERROR
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.support.budget import check_time_limit
from taccl.synthesis.autotune import (
    FileChoice,
    Predictor,
    Way,
    choose_file,
    chunks_that_fit,
    unpredicted,
    ways_to_try,
)
from taccl.synthesis.cluster.connection import connected
from taccl.synthesis.cluster.sharing import Sharing
from taccl.synthesis.lowered import Lowering, with_files
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import AnyCollective, Request, RequestKeywords, request_of, spelled_out
from taccl.synthesis.resolved import resolve
from taccl.synthesis.result import Result
from taccl.synthesis.search import Alone, Found, Observer
from taccl.synthesis.searching import Searching
from taccl.synthesis.stated import StatedProblem, network_of, stated_problem

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of type checkers: no dependency, and in `typing` from Python 3.11

#: However long it took to state a problem, so much of the time limit is for the search.
_LEAST_FOR_SEARCH_S = 1.0
#: How far predictions of plans are off nobody has measured: of these, so little is taken for a tie.
_PLANS_TIE = 0.005
#: Where a file is too large, the part of the time left in which a number of chunks is looked for that fits.
_TO_TELL_WHAT_FITS = 0.5


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
    on_progress : called with every news of the search (`taccl.synthesis.search.Progress`); where it returns
        `"stop"`, the search ends and the best is kept.

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
    lowered = Lowering(target, replace(lowering, network=network.topology))
    stated = stated_problem(resolved, request.symmetry, network, ways[0].served)
    if output.xml:  # fail now, and not after the search
        lowered.check(stated.problem)
    is_predicted = _can_be_predicted(target, output, network.topology) and _is_possible(
        stated.problem, lowered
    )
    is_plan = target.as_plan is not None
    searching = Searching(
        request=replace(request, target=target, size=resolved.size_bytes),
        resolved=resolved,
        network=network,
        can_be_used=lowered if output.xml and (is_plan or not is_predicted) else None,
        searcher=Alone() if sharing is None else sharing,
        several=is_predicted,
        chunk_bytes=target.limits.chunk_bytes if output.xml else 1,
    )
    left = _with_what_is_left(options, began)
    if is_predicted:
        predictor, error = Predictor(network.topology, lowered), _PLANS_TIE if is_plan else MODEL_ERROR
        costs_differ = network.topology.executor is not None
        choice = choose_file(searching, predictor, ways, left, error, on_progress, costs_differ)
    else:
        choice = unpredicted(searching(ways[0], left, None, on_progress))
    result = _result(choice, options, output, network.topology, sharing)

    def what_fits() -> int:
        if not (is_plan and is_predicted):  # then nobody goes back to what list scheduling finds
            return 0
        chunks = result.collective.chunks_per_rank
        return _chunks_that_fit(chunks, searching, lowered, ways[0], options, began)

    return with_files(result, target, lambda: lowered(choice.found.schedule, choice.way), what_fits)


def _result(
    choice: FileChoice[StatedProblem],
    options: SearchOptions,
    output: OutputOptions,
    network: LogicalTopology,
    sharing: Sharing | None,
) -> Result:
    """What was chosen, before there are files."""
    notes = [*choice.notes, *_notes_on(choice.found)]
    if sharing is not None:
        notes += sharing.notes_on(choice.found, counts_work=options.effort is not None)
    return Result(
        found=choice.found,
        options=options,
        topology=choice.stated.topology.name,
        sketch=None if choice.stated.sketch is None else choice.stated.sketch.name,
        asked_for_file=output.xml,
        notes=tuple(notes),
        scheduler=None if sharing is None else sharing.cluster.address,
        tasks=() if sharing is None else tuple(sharing.runs),
        chunks_tried=choice.chunks_tried,
        protocol=choice.way.protocol,
        instances=choice.way.instances,
        thread_blocks=choice.way.thread_blocks,
        blocks_per_gpu=choice.blocks_per_gpu,
        execution=choice.execution,
        files_tried=choice.files_tried,
        machine=None if network.executor is None else network,
    )


def _chunks_that_fit(
    chunks: int, searching: Searching, lowered: Lowering, way: Way, options: SearchOptions, began_s: float
) -> int:
    """Of so many, too many for a file, a number that would fit; 0: none was found in the time for that."""
    left_s = max(0.0, options.limit_s - (time.monotonic() - began_s))
    budget = replace(options, time_limit_s=left_s).budget().share(_TO_TELL_WHAT_FITS)

    def search_of(number: int) -> Searching:
        fewer = searching.with_chunks(number)
        lowered.check(fewer.problem(way))
        return fewer

    try:
        return chunks_that_fit(chunks, search_of, lowered, way, options, budget)
    except KeyboardInterrupt:  # it asks for what there is, and that there is no file is there
        return 0


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


def _is_possible(problem: Problem, lowered: Lowering) -> bool:
    """Whether nothing is known that keeps a problem from having a file."""
    try:
        lowered.check(problem)
    except TacclError:
        return False
    return True


def _chunks_to_begin_with(request: Request) -> int | None:
    """With `auto`, one chunk of the size that is given, else whatever the default size is meant for."""
    if isinstance(request.chunks, str):
        return None if request.size is None else 1
    return request.chunks
