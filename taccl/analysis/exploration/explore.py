"""Searches go where the least time known is farthest from its bound; each answer serves all sizes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from taccl.analysis.exploration.cache import Cache, cache_folder
from taccl.analysis.exploration.exploration import Exploration, Listener
from taccl.analysis.exploration.explored import Explored
from taccl.analysis.exploration.processes import processes
from taccl.analysis.exploration.question import Question, question_of, with_proposal
from taccl.analysis.exploration.shares import Shares
from taccl.analysis.exploration.sizes import sizes_of
from taccl.analysis.exploration.workers import workers
from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.errors import CollectiveError, TacclError
from taccl.model.collectives import ROOTED, plain_name
from taccl.support.arguments import shown, whole_number
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request
from taccl.topologies import PhysicalTopology

_AnyTopology = str | Path | PhysicalTopology


def explore(
    collective: str | Sequence[str] = "allgather",
    *,
    topology: _AnyTopology | Sequence[_AnyTopology],
    nodes: int | None = None,
    sketch: str | Sequence[str] = (),
    sizes: str | Sequence[str | int] = "1KB..1GB",
    root: int | None = None,
    target: str | None = None,
    without: str | Sequence[str] | None = None,
    executor: bool | None = None,
    protocol: str | None = None,
    instances: int | None = None,
    time_limit: float | None = None,
    effort: int | None = None,
    seed: int = 0,
    scheduler: str | None = None,
    jobs: int = 1,
    cache: bool | str | Path = True,
    on_search: Listener | None = None,
) -> Explored:
    """The fastest algorithms of a machine's collectives over a range of sizes, with bounds and baselines.

    A schedule's routes, order and groups are timed again at every other size, so each search serves all
    sizes; the next one goes where the best of all is farthest from its bound. Ctrl-C ends it and keeps what
    was found.

    Parameters
    ----------
    collective, topology : one or several of each; a name may have several with commas between them. Every
        collective is explored on every machine.
    nodes, root, without : as in `taccl.Request`.
    executor : the same; by default what executing costs counts where there is a target.
    sketch : several compete; none: all links may be used, as they are, and on a machine whose GPUs share NICs
        a sketch that is proposed for it competes.
    sizes : such as `1KB..1GB`, which doubles from the first on, or a list.
    target : what files are for; then every algorithm has a file for it. None: schedules alone.
    protocol, instances : of the files, as in `taccl.synthesize`.
    time_limit : seconds for all; default: 13 for each size of each question, at most 840.
    effort : units of work for all, in place of seconds: the same seed and effort give the same table.
    scheduler : address of a Dask scheduler, such as tcp://10.0.0.1:8786: its workers search, each a whole
        search at a time (docs/cluster.md).
    jobs : searches at once, each in a process of its own where there are several.
    cache : whether answers are kept in the user's cache folder and found there again; or another folder.
    on_search : called with every search that has ended, and the table so far.

    Raises
    ------
    TacclError : the machine, a collective, a size or an option is wrong.

    Examples
    --------
    >>> table = explore("allgather", topology="ring:4", sizes="1MB", effort=200, cache=False)
    >>> [row["size_bytes"] for row in table.best]
    [1048576]
    """
    began_s = time.monotonic()
    if scheduler is not None and jobs != 1:
        raise TacclError(
            "jobs are of this computer, and a scheduler has its workers", hint="leave --jobs out"
        )
    whole_number(jobs, "jobs", TacclError, least=1, most=os.cpu_count() or 1, hint="--jobs 1")
    if not isinstance(cache, bool | str | Path):
        raise TacclError(f"cache {shown(cache)} is neither true, false nor a folder")
    wanted = sizes_of(sizes)
    output = OutputOptions(file=target is not None, protocol=protocol, instances=instances)
    names = list(dict.fromkeys(map(plain_name, map(str, _listed(collective)))))
    if root is not None and not any(name in ROOTED for name in names):
        raise CollectiveError(f"{', '.join(names)} has no root", hint="leave --root out")
    sketches: tuple[str | None, ...] = tuple(_listed(sketch)) or (None,)
    questions, notes = list[Question](), list[str]()
    for machine in _once(_listed(topology)):
        for name in names:
            request = Request(
                name,
                topology=machine,
                nodes=nodes,
                root=root if name in ROOTED else None,
                without=without,
                executor=False if target is None and executor is None else executor,
                target=DEFAULT_TARGET.name if target is None else target,
            )
            question, said = question_of(request, sketches, output, wanted)
            if sketches == (None,):
                question = with_proposal(question, output)
            notes += said
            questions.append(question)
    if not questions:
        raise TacclError("there is nothing to explore: no machine or no collective is given")
    kept = Cache((cache_folder() if cache is True else Path(cache)) if cache else None)
    shares = Shares.of(questions, time_limit, effort, seed).less(time.monotonic() - began_s)
    with processes(jobs) if scheduler is None else workers(scheduler) as others:
        exploration = Exploration(questions, shares, kept, others, on_search, tuple(notes))
        exploration.run()
    return exploration.table()


def _listed(given: Any) -> Iterator[Any]:
    if isinstance(given, str):
        yield from (part.strip() for part in given.split(","))
    elif isinstance(given, Sequence):
        yield from given
    else:
        yield given


def _once(machines: Iterator[Any]) -> list[Any]:
    """Each of them once. Machines with costs of executing cannot be looked up by what they are."""
    found: list[Any] = []
    for machine in machines:
        if not any(machine is each or machine == each for each in found):
            found.append(machine)
    return found
