"""Sends and what each waits for, as columns: what the scheduler reads.

A *cell* is something that sends need and give: chunk c at rank r, its sum at rank r, or just that a send has
ended. A cell is complete once every send that gives it has ended; a send may start once every cell that it
needs is complete, and its sender's own inputs are ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.core.costs import Costs
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule.numbering import by_value, different
from taccl.support.jit import Loop, flat


class Sends(NamedTuple):
    """Sends as columns; those with `first` begin the rows of send i at `first[i]`.

    Parameters
    ----------
    link, mb, ready_us : shape (num_sends,); its link, its size, and when its sender's inputs are ready.
    delay_us : shape (num_sends,); what is done with what it needs once that is there, and before it goes.
    first_need, need : the cells that each send needs.
    first_give, give : the cells that each gives when it ends.
    num_cells : of all sends.
    """

    link: IntArray
    mb: FloatArray
    ready_us: FloatArray
    delay_us: FloatArray
    first_need: IntArray
    need: IntArray
    first_give: IntArray
    give: IntArray
    num_cells: int


class SendGraph(NamedTuple):
    """Sends, and the same read from the cells.

    Parameters
    ----------
    tail_us : shape (num_sends,); what follows what it brings, at least, besides other sends.
    pending : shape (num_cells,); how many sends give each cell.
    first_user, user : the sends that need each cell.
    first_signal, signal : the cells that each send gives when it starts.
    """

    sends: Sends
    tail_us: FloatArray
    pending: IntArray
    first_user: IntArray
    user: IntArray
    first_signal: IntArray
    signal: IntArray


class Cells(NamedTuple):
    """What the cells of transfers are: `chunk` at `rank`, its sum (`is_sum`) or the chunk itself."""

    chunk: IntArray
    rank: IntArray
    is_sum: BoolArray


def graph_of(
    sends: Sends, tail_us: FloatArray | None = None, signals: Sequence[Sequence[int]] | None = None
) -> SendGraph:
    """The sends as the cells see them; `signals` : the cells that each gives when it starts."""
    many = len(sends.link)
    tail_us = np.zeros(many) if tail_us is None else tail_us
    first, signal = (
        (np.zeros(many + 1, np.int64), np.zeros(0, np.int64)) if signals is None else flat(signals)
    )
    given = np.concatenate([sends.give, signal])
    pending = np.bincount(given, minlength=sends.num_cells)
    order = by_value(sends.need)
    user = np.repeat(np.arange(many), np.diff(sends.first_need))[order]
    first_user = np.concatenate([[0], np.cumsum(np.bincount(sends.need, minlength=sends.num_cells))])
    return SendGraph(sends, tail_us, pending, first_user, user, first, signal)


def sends_that_wait(
    link: IntArray,
    mb: FloatArray,
    ready_us: FloatArray,
    before: Sequence[Sequence[int]],
    delay_us: FloatArray | None = None,
) -> Sends:
    """Sends that wait for the ends of others: `before` has their numbers; `delay_us` None: and no longer."""
    delay_us = np.zeros(len(link)) if delay_us is None else delay_us
    every = np.arange(len(link) + 1)
    return Sends(link, mb, ready_us, delay_us, *flat(before), every, every[:-1], len(link))


def sends_of_rows(
    problem: Problem,
    chunk: IntArray,
    link: IntArray,
    is_sum: BoolArray,
    send: IntArray | None = None,
    *,
    backwards: bool = False,
    by_sequence: bool = False,
) -> tuple[Sends, Cells]:
    """The sends of a compact schedule, and what their cells are.

    A sum waits for all sums of its chunk into its sender; a copy for the copy into its sender, or else for
    the sums into it.

    Parameters
    ----------
    chunk, link, is_sum : one row for each chunk of a send.
    send : shape (rows,); the send of each row, ascending from 0; None: each row is one.
    backwards : links lead from their ends to their beginnings.
    by_sequence : what leaves a rank waits for all of its chunk that comes there before it in the sequence.
    """
    topology, link = problem.topology, np.array(link, dtype=np.int64)
    src, dst = topology.src[link], topology.dst[link]
    if backwards:
        src, dst = dst, src
    ready_us = ready_of_rows(problem, chunk, src, backwards)
    delay_us = work_of_rows(problem, chunk, src, dst, is_sum)
    kind = 0 if by_sequence else is_sum.astype(np.int64)
    given, give = different((chunk * topology.num_ranks + dst) * 2 + kind)
    wanted = (chunk * topology.num_ranks + src) * 2
    need = _position(wanted + kind, given)
    if not by_sequence:  # a copy of what is summed here
        need = np.where((need < 0) & ~is_sum, _position(wanted + 1, given), need)
    cell, sums = np.divmod(given, 2)
    cells = Cells(*np.divmod(cell, topology.num_ranks), sums.astype(np.bool_))
    mb = problem.size_mb[chunk]
    rows = np.arange(len(chunk))
    if send is None:
        first_need = np.concatenate([[0], np.cumsum(need >= 0)])
        sends = Sends(
            *(link, mb, ready_us, delay_us, first_need, need[need >= 0]),
            *(np.append(rows, len(rows)), give, len(given)),
        )
        return sends, cells
    many = int(send[-1]) + 1 if len(send) else 0
    first = np.searchsorted(send, np.arange(many + 1))
    first_need = np.concatenate([[0], np.cumsum(np.bincount(send[need >= 0], minlength=many))])
    latest_us, longest_us = np.zeros((2, many))
    np.maximum.at(latest_us, send, ready_us)
    np.maximum.at(longest_us, send, delay_us)
    of_send = np.asarray(np.bincount(send, mb, many), dtype=np.float64)
    return (
        Sends(
            *(link[first[:-1]], of_send, latest_us, longest_us, first_need, need[need >= 0]),
            *(first, give, len(given)),
        ),
        cells,
    )


def tails_of_rows(problem: Problem, chunk: IntArray, rank: IntArray, backwards: bool = False) -> FloatArray:
    """What follows each chunk once it is at a rank, shape (rows,)."""
    return ready_of_rows(problem, chunk, rank, not backwards)


def ready_of_rows(problem: Problem, chunk: IntArray, rank: IntArray, backwards: bool = False) -> FloatArray:
    """When each chunk's input is ready at a rank, shape (rows,); backwards in time its tail."""
    times_us = problem.tail_us if backwards else problem.ready_us
    if times_us is None:
        return np.zeros(len(chunk))
    placement = problem.collective.outputs if backwards else problem.collective.inputs
    key = placement.chunk * problem.num_ranks + placement.rank
    order = np.argsort(key)
    at = _position(chunk * problem.num_ranks + rank, key[order])
    return np.where(at >= 0, times_us[order][at], 0.0)


def work_of_rows(
    problem: Problem, chunk: IntArray, src: IntArray, dst: IntArray, is_sum: BoolArray
) -> FloatArray:
    """What is done with a sum before each row copies it on: only where no copy of it came, shape (rows,)."""
    if problem.sum_work_us is None:
        return np.zeros(len(chunk))
    came = np.unique((chunk * problem.num_ranks + dst)[~is_sum])
    is_first = ~is_sum & (_position(chunk * problem.num_ranks + src, came) < 0)
    return np.where(is_first, problem.sum_work_us[chunk], 0.0)


def work_of_sends(
    problem: Problem, chunk: IntArray, link: IntArray, is_sum: BoolArray, send: IntArray
) -> FloatArray | None:
    """The same of sends, of all rows of each the longest; None: there is no such work."""
    if problem.sum_work_us is None:
        return None
    work_us = np.zeros(int(send.max(initial=-1)) + 1)
    ends = problem.topology.src[link], problem.topology.dst[link]
    np.maximum.at(work_us, send, work_of_rows(problem, chunk, *ends, is_sum))
    return work_us


def _position(values: IntArray, among: IntArray) -> IntArray:
    """Where each value stands in an ascending column; -1 where it does not."""
    if not len(among):
        return np.full(len(values), -1)
    at = np.minimum(np.searchsorted(among, values), len(among) - 1)
    return np.where(among[at] == values, at, -1)


def durations_us(sends: Sends, costs: Costs) -> FloatArray:
    """From its start to its end, for each send."""
    return np.asarray(costs.alpha_us[sends.link] + sends.mb * costs.beta_us[sends.link])


def busy_us(sends: Sends, costs: Costs, topology: LogicalTopology) -> FloatArray:
    """How long all sends together keep each port busy, shape (num_ports,)."""
    send, pair = topology.pairs_of(sends.link)
    busy = costs.busy_alpha_us[pair] + sends.mb[send] * costs.busy_beta_us[pair]
    return np.asarray(np.bincount(costs.port[pair], busy, costs.num_ports), dtype=np.float64)


def tails_us(graph: SendGraph, weight_us: FloatArray) -> FloatArray:
    """For each send, the largest sum of weights from it to the end of all that waits for it, with its own."""
    tail_us = graph.tail_us.copy()
    return np.asarray(_tails(len(weight_us), graph=graph, weight_us=weight_us, tail_us=tail_us, adds=False))


def work_behind_us(graph: SendGraph, weight_us: FloatArray) -> FloatArray:
    """For each send the weights of all that waits for it, with its own; where several give, a part."""
    behind_us = np.zeros(len(weight_us))
    return np.asarray(_tails(len(weight_us), graph=graph, weight_us=weight_us, tail_us=behind_us, adds=True))


def _run_tails(graph: Any, weight_us: Any, tail_us: Any, adds: Any) -> Any:
    """Fill `tail_us`: sends in the order of what they wait for, then from the last to the first."""
    sends = graph.sends
    many = len(sends.link)
    order, missing, pending = [0] * many, [0] * many, [0] * sends.num_cells
    for cell in range(sends.num_cells):
        pending[cell] = graph.pending[cell]
    end = 0
    for e in range(many):
        missing[e] = sends.first_need[e + 1] - sends.first_need[e]
        if missing[e] == 0:
            order[end] = e
            end += 1
    begin = 0
    while begin < end:
        e = order[begin]
        begin += 1
        for row in range(sends.first_give[e], sends.first_give[e + 1]):
            cell = sends.give[row]
            pending[cell] -= 1
            if pending[cell] == 0:
                for at in range(graph.first_user[cell], graph.first_user[cell + 1]):
                    missing[graph.user[at]] -= 1
                    if missing[graph.user[at]] == 0:
                        order[end] = graph.user[at]
                        end += 1
    for at in range(end - 1, -1, -1):
        e = order[at]
        longest, total = tail_us[e], 0.0
        for row in range(sends.first_give[e], sends.first_give[e + 1]):
            cell = sends.give[row]
            for user in range(graph.first_user[cell], graph.first_user[cell + 1]):
                behind_us = tail_us[graph.user[user]]
                longest = max(longest, behind_us)
                total += behind_us / graph.pending[cell]
        tail_us[e] = weight_us[e] + (total if adds else longest)
    return tail_us


_tails = Loop(_run_tails, eager=True)
