"""The walk, written out once: a machine, a sketch and a collective become a schedule and its file.

    topology -> sketch -> problem -> engines -> schedule -> program -> verified file

`make_problem` goes as far as the problem, `synthesize` to the end: `formulate` looks a request up, `tune`
searches, `emit` lowers and verifies. The command line calls these and nothing below them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from taccl.backend.target import ThreadBlocks
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance
from taccl.encoding.portfolio.lineup import Explained, explained, lineup_for
from taccl.errors import TooLargeError
from taccl.support.budget import check_time_limit
from taccl.synthesis.autotune.tune import tune
from taccl.synthesis.cluster.sharing import searcher_at
from taccl.synthesis.emit import emit
from taccl.synthesis.formulated import Formulated, problem_of
from taccl.synthesis.inputs import inputs_of
from taccl.synthesis.job import formulate
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import AnyCollective, Request, RequestKeywords, request_of, spelled_out
from taccl.synthesis.result import Result
from taccl.synthesis.search import Observer
from taccl.synthesis.searcher import Searcher
from taccl.synthesis.templates import template_result

if TYPE_CHECKING:
    from typing_extensions import Unpack  # of type checkers: no dependency, and in `typing` from Python 3.11


@spelled_out(RequestKeywords)
def make_problem(
    collective: AnyCollective | Request = "allgather", **requested: Unpack[RequestKeywords]
) -> Formulated:
    """What is requested, as an engine sees it.

    Parameters
    ----------
    collective : a collective, or a whole `taccl.Request`.
    requested : what else a `taccl.Request` says, by name; its docstring says what each word means.

    Raises
    ------
    TacclError : the request is wrong, or no schedule meets it.
    """
    request = request_of(collective, requested)
    return problem_of(inputs_of(request), request.symmetry)


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
    file: bool = True,
    protocol: str | None = None,
    instances: int | Literal["auto"] | None = None,
    thread_blocks: ThreadBlocks | Literal["auto"] | None = None,
    min_bytes: int | None = None,
    max_bytes: int | None = None,
    in_place: bool | None = None,
    scheduler: str | None = None,
    template: bool = False,
    on_progress: Observer | None = None,
    **requested: Unpack[RequestKeywords],
) -> Result:
    """The fastest schedule found in time, with a bound on how fast any could be, as a verified file.

    Parameters
    ----------
    collective : a collective, or a whole `taccl.Request`.
    requested : what else a `taccl.Request` says, by name; its docstring says what each word means.
    engine, solver, seed : which engine searches, with which MILP solver, from which random seed.
    time_limit : seconds for the call, from stating the problem on, of which at least one is for the search;
        default: until nothing has improved for a while (`taccl.support.budget.PatientClock`), and at most
        60; with `effort` none.
    effort : units of work in place of seconds, nominally milliseconds of one core: the same seed and effort
        give the same answer on an idle or a busy machine, unless a `time_limit` ends the call before.
    gap : stop when (time - bound) / time is proven to be no more than this.
    slack : the longest routes that MILP and CP consider, relative to a chunk's shortest; None: short
        routes first, then longer ones.
    file : whether to make the target's file at all.
    protocol, instances : of the file: one of the target's protocols (Simple, LL, LL128), and how many
        parallel copies of the program share each chunk.
    thread_blocks : `two-way`: a thread block may send and receive; `one-way`: each does one of the two.
        All three may be left open, as None or `auto`: then it is whatever is predicted fastest, where it is
        known what executing costs (`executor=False`: it does not count); elsewhere the target's usual
        protocol, 1 and `two-way`. Plans for MSCCL++ are predicted on every machine, by its links alone where
        nothing else is known.
    min_bytes, max_bytes : sizes of calls that the file serves; default: around `size`.
    in_place : of a plan for MSCCL++, which is for one way to call it: whether for calls in place; None: as
        PyTorch calls the collective. Other files say themselves which calls they serve.
    scheduler : address of a Dask scheduler, such as tcp://10.0.0.1:8786, whose workers search as well:
        engines, seeds and numbers of chunks are tasks. What they find is checked here (docs/cluster.md).
    template : whether to plan one node of a cluster of equal nodes, whose images are the schedule
        (`Result.template`); where a collective is too large to be planned whole, that is done anyway.
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
        file=file,
        protocol=protocol,
        instances=instances,
        thread_blocks=thread_blocks,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        in_place=in_place,
    )
    request = request_of(collective, requested)
    began_s = time.monotonic()
    with searcher_at(scheduler, options) as searcher:
        return synthesize_request(request, options, output, searcher, on_progress, began_s, template)


def synthesize_request(
    request: Request,
    options: SearchOptions,
    output: OutputOptions,
    searcher: Searcher,
    on_progress: Observer | None = None,
    began_s: float | None = None,
    template: bool = False,
) -> Result:
    """`synthesize`, for a request and options that are made already.

    Parameters
    ----------
    searcher : who carries out the searches: `Alone()`, or a cluster.
    began_s : when the call began, by `time.monotonic()`; None: now.
    template : see `synthesize`.
    """
    began_s = time.monotonic() if began_s is None else began_s
    if template:
        return template_result(request, options, output, began_s, on_progress)
    try:
        job = formulate(request, output)
    except TooLargeError as refusal:  # then one node may stand for all
        return template_result(request, options, output, began_s, on_progress, refusal)
    choice = tune(job, options.since(began_s), searcher, on_progress)
    return emit(job, choice, options, searcher, began_s)


def stages_of(request: Request, engine: str = "auto") -> tuple[Explained, ...]:
    """Which engines run for a request, in the order of their turns, and why the others do not.

    Where the number of chunks is open, the stages are for one chunk in each part.

    Raises
    ------
    TacclError : the request is wrong, no schedule meets it, or there is no such engine.
    """
    requested = None if engine == "auto" else engine_named(engine)
    job = formulate(request, OutputOptions(file=False))
    problem = job.problem(job.configurations[0]).problem  # under the costs that a search begins with
    return tuple(explained(Instance(problem), lineup_for(requested)))
