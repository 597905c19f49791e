"""A plan with its ranks renamed, for launchers that take no order of hosts.

Hosts stay where they are; the rank of the machine that has a place of the plan does what the plan does there.
What belongs to a rank of the plan (its input, its part of the output) then belongs to that rank of the
machine, so chunks change their names with it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.analysis.ordering.traffic import Order, Traffic
from taccl.backend.target import AnyTarget
from taccl.encoding.core.scheduler import pipelined
from taccl.encoding.core.timing import Decision, decisions_of, in_order
from taccl.errors import TacclError
from taccl.model.collective import IntArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.synthesis.emit import files_of
from taccl.synthesis.job import formulate
from taccl.synthesis.lowering import OutputFile
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request


def renamed(traffic: Traffic, order: Order) -> Schedule:
    """The schedule of the machine's own ranks that the plan is with hosts in this order, checked.

    Raises
    ------
    TacclError : the plan is a file of which only the sends are known, the machine lacks a link, or with other
        ranks it would be another collective, as where the root moves.
    """
    problem, graph = traffic.problem, traffic.in_order(order)
    if traffic.schedule is None:
        raise TacclError(
            f"the ranks of {traffic.name} cannot be renamed, as its sends do not say which chunks they carry",
            hint="give the schedule that it was made of, or a plan by its name",
        )
    if graph is None:
        raise TacclError(f"{problem.topology.name} lacks a link of {traffic.name} in this order")
    ranks = traffic.rank_map(order)
    chunks = replace(problem, symmetry=()).chunk_map(ranks)
    if chunks is None:
        raise TacclError(
            f"{problem.collective.name} is another collective once ranks have other names",
            hint="order the hosts themselves, so that ranks keep their names",
        )
    timed = pipelined(graph, traffic.costs, np.arange(len(traffic.src), dtype=np.float64))
    own = traffic.schedule.problem.topology
    moved = [
        _moved(decision, int(own.src[decision.link]), int(own.dst[decision.link]), ranks, chunks, traffic)
        for decision in decisions_of(traffic.schedule)
    ]
    sequence = np.argsort(timed.start_us, kind="stable").tolist()
    found = in_order(replace(problem, symmetry=()), [moved[send] for send in sequence])
    found.check()
    return found


def _moved(
    decision: Decision, src: int, dst: int, ranks: IntArray, chunks: IntArray, traffic: Traffic
) -> Decision:
    """A send between the ranks that ranks of the plan are, with the chunks that theirs are."""
    sums = decision.sums
    return Decision(
        tuple(chunks[list(decision.chunks)].tolist()),
        int(traffic.link_table[ranks[src], ranks[dst]]),
        decision.reduce,
        None if sums is None else tuple(_contributions(each, ranks) for each in sums),
    )


def _contributions(parts: int, ranks: IntArray) -> int:
    """A set of contributions (a bit for each rank) after ranks have changed their names."""
    return sum(1 << int(ranks[rank]) for rank in range(parts.bit_length()) if parts >> rank & 1)


def files_of_plan(schedule: Schedule, request: Request, target: str | AnyTarget) -> tuple[OutputFile, ...]:
    """The verified files of a renamed plan.

    Parameters
    ----------
    request : the machine and so on, as of the plan.

    Raises
    ------
    TacclError : the target has no file for the schedule, or it failed its check.
    """
    problem = schedule.problem
    words = replace(
        request, collective=problem.collective, size=problem.size_bytes, chunks=None, root=None, target=target
    )
    job = formulate(words, OutputOptions(file=True))
    stated = job.problem(job.configurations[0]).problem
    return files_of(job, replace(schedule, problem=_with_sizes(stated, problem)), job.configurations[0])


def _with_sizes(stated: Problem, problem: Problem) -> Problem:
    """The problem that a file is for, with the chunks of the plan."""
    return replace(
        stated, collective=problem.collective, chunk_mb=problem.chunk_mb, sizes=problem.sizes, symmetry=()
    )
