"""A plan by its name or its file, as sends between positions.

A named plan is the textbook algorithm on ranks in a line, in the sequence that it has where all links are
equal: so it does not depend on the order that the machine happens to have.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np

from taccl.analysis.baseline import baseline
from taccl.analysis.ordering.traffic import Traffic, hosts_of, traffic_of
from taccl.api import make_problem
from taccl.backend.rounds.dataflow import Dataflow, dataflow_of
from taccl.backend.rounds.lowering import equal_pieces
from taccl.backend.targets.registry import unfold_file
from taccl.encoding.core.scheduler import Sends, sends_that_wait
from taccl.encoding.engines.registry import plan_on_line
from taccl.encoding.instance import Instance
from taccl.errors import FileError, TacclError
from taccl.model import units
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import schedule_from_json
from taccl.model.schedule.values import FORMAT
from taccl.support.arguments import shown
from taccl.support.files import read_bytes
from taccl.synthesis.request import Request

#: What users call a plan -> the name of its algorithm.
_ALGORITHMS = {"ring": "ring", "tree": "double binary tree"}
#: NCCL's pick -> the same.
_OF_NCCL = {"Ring": "ring", "Tree": "double binary tree"}
NCCL = "nccl"


def traffic_for(plan: str | Path, request: Request) -> Traffic:
    """The sends of a plan for what is requested.

    Parameters
    ----------
    plan : `ring`, `tree`, `nccl` (what NCCL picks at this size), the name of another textbook algorithm, or a
        file: a schedule, or anything that can be executed.

    Raises
    ------
    TacclError : there is no such plan for the collective, or the file is for other ranks.
    """
    if not isinstance(plan, str | Path) or not str(plan):
        raise TacclError(f"{shown(plan)} is no plan", hint="ring, tree, nccl or a file")
    if isinstance(plan, Path) or "/" in plan or plan.endswith((".xml", ".json")):
        return _of_file(Path(plan), request)
    problem = make_problem(request).problem
    hosts_of(problem.topology)  # what cannot be ordered is refused before a plan is sought
    name = _picked(request, problem) if plan == NCCL else _ALGORITHMS.get(plan, plan)
    crossbar = replace(problem, topology=_crossbar(problem.topology), symmetry=(), limits=RoutingLimits())
    try:
        schedule = plan_on_line(Instance(crossbar), name)
    except KeyError:
        schedule = None
    if schedule is None:
        raise TacclError(
            f"there is no plan {shown(name)} for {problem.collective.name} of {problem.num_ranks} ranks",
            hint="ring, tree, nccl, a textbook algorithm by its name (taccl baseline all), or a file",
        )
    return traffic_of(name, schedule, problem)


def _crossbar(network: LogicalTopology) -> LogicalTopology:
    """A link from each rank to each other at equal costs, with a port out of each rank and one into each."""
    ranks = network.num_ranks
    src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
    return replace(
        network,
        src=src,
        dst=dst,
        alpha_us=np.full(len(src), float(np.median(network.alpha_us))),
        beta_us_per_mb=np.full(len(src), float(np.median(network.beta_us_per_mb))),
        port_names=(*(f"{rank}.out" for rank in range(ranks)), *(f"{rank}.in" for rank in range(ranks))),
        ports=tuple(zip(src.tolist(), (ranks + dst).tolist(), strict=True)),
        port_betas=None,
    )


def _picked(request: Request, problem: Problem) -> str:
    """The algorithm that NCCL takes at this size."""
    if request.topology is None:
        raise TacclError("no topology is given", hint="--topology NAME")
    picked = baseline(
        str(request.collective),
        topology=request.topology,
        nodes=request.nodes,
        without=request.without,
        sizes=(problem.size_bytes,),
        time_limit=1.0,
    )
    words = picked.sizes[0].pick.split()
    if words[0] not in _OF_NCCL:
        raise TacclError(
            f"NCCL picks {words[0]}, which no order of hosts changes", hint="--plan ring, or --plan tree"
        )
    return _OF_NCCL[words[0]]


def _of_file(path: Path, request: Request) -> Traffic:
    """The sends of a schedule, or of a file that can be executed, at the requested size."""
    content = read_bytes(path)
    if FORMAT.encode() in content[:4096]:
        return _of_schedule(path, content, request)
    file = unfold_file(path, content, "ordered")
    problem = make_problem(replace(request, collective=file.collective, root=request.root)).problem
    if problem.topology.num_members != file.num_ranks:
        raise _of_others(path, file.num_ranks, problem)
    call = file.one_call(None, request.root)
    chunk_mb = problem.size_bytes / file.chunks_of_size / equal_pieces(call) / units.MB
    sends, src, dst = _sends_of(dataflow_of(call), chunk_mb)
    return Traffic(path.name, problem, sends, src, dst, hosts_of(problem.topology))


def _of_schedule(path: Path, content: bytes, request: Request) -> Traffic:
    schedule = schedule_from_json(content.decode("utf-8", "replace"), path).schedule
    collective = schedule.problem.collective
    stated = make_problem(replace(request, collective=collective, chunks=None, root=None)).problem
    if stated.num_ranks != schedule.problem.num_ranks:
        raise _of_others(path, schedule.problem.num_ranks, stated)
    at_size = replace(schedule, problem=replace(schedule.problem, chunk_mb=stated.chunk_mb))
    return traffic_of(path.name, at_size, stated)


def _of_others(path: Path, ranks: int, problem: Problem) -> FileError:
    network = problem.topology
    return FileError(
        f"the plan is for {ranks} ranks, and {network.name} has {network.num_members}",
        path=path,
        hint="name a machine with as many (--topology, --nodes)",
    )


def _sends_of(flow: Dataflow, chunk_mb: float) -> tuple[Sends, IntArray, IntArray]:
    """What travels between ranks; what one act takes from one rank to another goes as one send."""
    send_of: dict[tuple[int, int, int], int] = {}
    size: list[int] = []
    waits: dict[int, set[int]] = defaultdict(set)
    made_by: list[frozenset[int]] = []  # of each holding, the sends that it comes of
    for each in flow.holdings:
        if each.sent_from < 0:
            made_by.append(frozenset().union(*(made_by[term] for term in each.terms)))
            continue
        key = flow.holdings[each.sent_from].rank, each.rank, each.act
        number = send_of.setdefault(key, len(size))
        if number == len(size):
            size.append(0)
        size[number] += 1
        waits[number] |= made_by[each.sent_from] - {number}
        made_by.append(frozenset((number,)))
    before = [sorted(waits[number]) for number in range(len(size))]
    many = len(size)
    src, dst = (np.array([key[end] for key in send_of], dtype=np.int64) for end in (0, 1))
    sends = sends_that_wait(np.zeros(many, np.int64), np.array(size) * chunk_mb, np.zeros(many), before)
    return sends, src, dst
