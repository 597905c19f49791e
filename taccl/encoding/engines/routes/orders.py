"""Orders of given routes: pipelines of whatever can go, and matchings of what goes together.

A pipeline serves those that wait for a port by

    wave * turn  -  (what the rest of the chunk's way takes),

the least first. A large wave serves chunk after chunk, a wave of 0 what has the longest way before it. In
between, sums of later chunks run next to copies of earlier ones, and both ends of the pipeline stay full.
Next to what the rest of the way takes, all work that waits for a send may count: below a switch that sums for
one GPU, whose copies all others wait for, both of its links would else serve others first.
Where ports are unequally busy, the rest of the way counts more at the busy ones, by a power of their load.

Links are full when such a pipeline begins and empty when it ends. What is read backwards in time fills late
and ends full. So it may be scheduled again, from its end to its beginning: what ended last comes first, and
sums take the place of copies (forward-backward improvement: Li and Willis 1992).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taccl.encoding.core.costs import Costs, costs_of
from taccl.encoding.core.scheduler import (
    Cells,
    Detours,
    SendGraph,
    Timed,
    busy_us,
    durations_us,
    graph_of,
    in_slots,
    matched,
    pipelined,
    ready_of_rows,
    sends_of_rows,
    tails_of_rows,
    tails_us,
    work_behind_us,
)
from taccl.encoding.engines.routes.columns import Grouping, Routes
from taccl.encoding.engines.routes.kinds import kinds_of
from taccl.encoding.engines.routes.tuning import MOST_OPEN
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.model.tolerance import ULPS


@dataclass(frozen=True, eq=False)
class Order:
    """Rows with their times, as they are or (`backwards`) with time running backwards.

    `send` is the send of each row before any are joined.
    """

    problem: Problem
    routes: Routes
    backwards: bool
    send: IntArray | None
    tail_us: FloatArray
    timed: Timed

    @property
    def makespan_us(self) -> float:
        """When the last row has ended, with what follows it."""
        return float((self.timed.end_us + self.tail_us).max(initial=0.0))

    def schedule(self) -> Schedule:
        """The schedule that it is."""
        timed, routes = self.timed, self.routes
        start_us, end_us = timed.start_us, timed.end_us
        if self.backwards:
            last_us = self.makespan_us
            if self.problem.ready_us is not None:  # a difference may be rounded to before its input is ready
                last_us += ULPS * np.spacing(last_us)
            start_us, end_us = last_us - end_us, last_us - start_us
        order = np.argsort(-timed.turn if self.backwards else timed.turn, kind="stable")
        group = np.unique(timed.leader, return_inverse=True)[1].ravel()
        rows = of_row = order
        if self.send is not None:
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            rows = np.argsort(place[self.send], kind="stable")
            of_row = self.send[rows]
        return Schedule(
            self.problem,
            routes.chunk[rows],
            timed.via[of_row],
            start_us[of_row],
            end_us[of_row],
            routes.is_sum[rows],
            group[of_row],
        ).sorted()

    def again(self, most: int, look: Callable[[], None] = lambda: None) -> Order:
        """The same from its end to its beginning, with time running the other way: the last comes first.

        `look` may end that by an exception. Routes are those that chunks took, where they left their own.
        """
        routes = replace(self.routes, link=self.timed.via)
        turned = Open(self.problem, routes, not self.backwards, detours=True, look=look)
        return turned.by_keys(self.makespan_us - self.timed.end_us, most)


@dataclass(frozen=True, eq=False)
class Open:
    """Routes whose order is open.

    Parameters
    ----------
    backwards : whether time runs backwards: links lead back, and sums are copies.
    detours : whether copies may leave their routes where links have nothing to do.
    look : is called now and then, and may end the work by an exception.
    """

    problem: Problem
    routes: Routes
    backwards: bool = False
    detours: bool = False
    look: Callable[[], None] = lambda: None

    @cached_property
    def costs(self) -> Costs:
        return costs_of(self.problem.topology)

    @cached_property
    def _columns(self) -> tuple[SendGraph, Cells]:
        problem, routes = self.problem, self.routes
        is_sum = routes.is_sum ^ self.backwards
        sends, cells = sends_of_rows(problem, routes.chunk, routes.link, is_sum, backwards=self.backwards)
        sends = in_slots(problem, sends, routes.chunk, routes.link, routes.turn, self.backwards)
        dst = (problem.topology.src if self.backwards else problem.topology.dst)[routes.link]
        return graph_of(sends, tails_of_rows(problem, routes.chunk, dst, self.backwards)), cells

    @cached_property
    def load_us(self) -> FloatArray:
        """How long each port is busy, if every row goes alone; shape (num_ports,)."""
        return busy_us(self._columns[0].sends, self.costs, self.problem.topology)

    def pipeline(
        self,
        wave: float,
        power: float,
        most: int,
        *,
        behind: float = 0.0,
        noise: FloatArray | None = None,
    ) -> Order:
        """By waves of this part of the busiest port's time; at most `most` chunks in a send.

        `behind`, from 0 to 1, is how much all work that waits for a row counts, next to the rest of its way.
        `noise`, shape (rows,), changes how urgent each row is, as a factor.
        """
        graph, _ = self._columns
        weights_us = self._weights_us(power, most)
        rest_us = tails_us(graph, weights_us)
        if behind:
            rest_us += behind * (work_behind_us(graph, weights_us) - rest_us)
        key = wave * float(self.load_us.max(initial=0.0)) * self.routes.turn - rest_us
        return self.by_keys(key if noise is None else key * noise, most)

    def by_keys(self, key: FloatArray, most: int) -> Order:
        """The row with the least key first."""
        graph, cells = self._columns
        routes = self.routes
        line = None
        if most > 1:
            line = routes.link * 2 + routes.is_sum
            if not routes.mixes:
                line = line + routes.company * 2 * self.problem.topology.num_links
        detours = self._detours(cells, graph) if self.detours else None
        keeps = self.problem.topology.num_helpers > 0
        timed = pipelined(
            graph, self.costs, key, most=most, line=line, detours=detours, keeps=keeps, look=self.look
        )
        return Order(self.problem, routes, self.backwards, None, graph.tail_us, timed)

    def promised_us(self, grouping: Grouping) -> float:
        """How long the busiest port is busy, and the longest way of a last send: near what matching takes."""
        graph, rest_us, _, send = self._grouped(grouping)
        is_last = np.zeros(len(rest_us), dtype=np.bool_)
        line = graph.sends.link[send]
        is_last[send[np.flatnonzero(np.diff(line, append=-1))]] = True
        load_us = busy_us(graph.sends, self.costs, self.problem.topology)
        return float(load_us.max(initial=0.0) + rest_us[is_last].max(initial=0.0))

    def matching(self, grouping: Grouping, chance: float, seed: int) -> Order:
        """Sends of groups; `chance` changes how urgent each is, by this part of the longest way."""
        graph, rest_us, rows, send = self._grouped(grouping)
        noise = np.random.default_rng(seed).random(len(rest_us)) * chance * rest_us.max(initial=0.0)
        timed = matched(graph, self.costs, rest_us + noise)
        return Order(self.problem, self.routes.take(rows), self.backwards, send, graph.tail_us, timed)

    def _grouped(self, grouping: Grouping) -> tuple[SendGraph, FloatArray, IntArray, IntArray]:
        """The sends of a grouping, what remains of their routes, the rows in order, and the send of each."""
        rows, send = self._groups(grouping)
        problem, routes = self.problem, self.routes
        chunk, link, is_sum = routes.chunk[rows], routes.link[rows], routes.is_sum[rows] ^ self.backwards
        sends, _ = sends_of_rows(problem, chunk, link, is_sum, send, backwards=self.backwards)
        tail_us = np.zeros(len(sends.link))
        dst = (problem.topology.src if self.backwards else problem.topology.dst)[link]
        np.maximum.at(tail_us, send, tails_of_rows(problem, chunk, dst, self.backwards))
        graph = graph_of(sends, tail_us)
        return graph, tails_us(graph, durations_us(sends, self.costs)), rows, send

    def _groups(self, grouping: Grouping) -> tuple[IntArray, IntArray]:
        """Rows in an order in which those of a send stand together, and the send of each."""
        routes = self.routes
        line = (routes.company * self.problem.topology.num_links + routes.link) * 2 + routes.is_sum
        rows = np.lexsort((routes.chunk, routes.turn, line))
        begins = np.flatnonzero(np.diff(line[rows], prepend=-1))
        lengths = np.diff(begins, append=len(rows))
        parts = {
            many: np.concatenate(
                [np.full(len(part), n) for n, part in enumerate(grouping.cut(tuple(range(many))))]
            )
            for many in set(lengths.tolist())
        }
        number, send = 0, []
        for many in lengths.tolist():
            send.append(parts[many] + number)
            number = int(send[-1][-1]) + 1
        return rows, np.concatenate([np.zeros(0, np.int64), *send])

    def _weights_us(self, power: float, most: int) -> FloatArray:
        """What each row counts in the rest of a way: its time, and more where its ports are busy."""
        sends, costs = self._columns[0].sends, self.costs
        duration = costs.alpha_us[sends.link] + most * sends.mb * costs.beta_us[sends.link]
        if not power:
            return np.asarray(duration)
        link, port = self.problem.topology.incidence
        busiest = np.zeros(len(costs.alpha_us))
        np.maximum.at(busiest, link, self.load_us[port] / max(float(self.load_us.max()), 1e-300))
        return np.asarray(duration * busiest[sends.link] ** power + 1e-3 * duration)

    def _detours(self, cells: Cells, graph: SendGraph) -> Detours | None:
        """Copies of the last chunks may go over other links; not those of sums that are worked on first."""
        problem, routes = self.problem, self.routes
        if problem.sum_work_us is not None:
            return None
        topology = problem.topology
        src, dst = (topology.dst, topology.src) if self.backwards else (topology.src, topology.dst)
        copies = np.flatnonzero(routes.is_sum == self.backwards)
        moving, first = np.unique(routes.chunk[copies], return_index=True)
        last = np.argsort(-routes.turn[copies[first]], kind="stable")
        moving = np.sort(moving[last[: MOST_OPEN // topology.num_links]])
        if not len(moving):
            return None
        row_of_chunk = np.full(problem.num_chunks, -1)
        row_of_chunk[moving] = np.arange(len(moving))
        into = np.full((len(moving), topology.num_ranks), -1)
        row = row_of_chunk[routes.chunk[copies]]
        into[row[row >= 0], dst[routes.link[copies]][row >= 0]] = copies[row >= 0]
        # A copy leaves a rank that has one, or the whole sum.
        gives = ~cells.is_sum
        needs = np.repeat(np.arange(len(routes)), np.diff(graph.sends.first_need))
        gives[graph.sends.need[(routes.is_sum == self.backwards)[needs]]] = True
        may_copy = topology.may_sum if self.backwards else topology.may_copy
        if may_copy is not None:
            gives &= may_copy[cells.rank]
        usable, kind = kinds_of(problem)
        out = np.argsort(src, kind="stable")
        row_of_send = np.full(len(routes), -1)
        row_of_send[copies] = row
        there = np.zeros(into.shape, dtype=np.bool_)
        starts = copies[(row >= 0) & (np.diff(graph.sends.first_need)[copies] == 0)]
        starts = starts[graph.sends.ready_us[starts] == 0]
        there[row_of_send[starts], src[routes.link[starts]]] = True
        return Detours(
            np.where(gives, row_of_chunk[cells.chunk], -1),
            np.array(cells.rank),
            ready_of_rows(problem, cells.chunk, cells.rank, self.backwards),
            row_of_send,
            into,
            there,
            self._following(copies[row >= 0], row[row >= 0], len(moving)),
            kind[moving],
            usable,
            np.searchsorted(src[out], np.arange(topology.num_ranks + 1)),
            out,
            np.array(src),
            np.array(dst),
        )

    def _following(self, copies: IntArray, row: IntArray, many: int) -> IntArray:
        """For each chunk that is copied the next one of its company, -1 for the last; by rows."""
        company, turn = np.zeros(many, np.int64), np.zeros(many)
        company[row], turn[row] = self.routes.company[copies], self.routes.turn[copies]
        order = np.lexsort((turn, company))
        following = np.full(many, -1)
        same = np.flatnonzero(np.diff(company[order]) == 0)
        following[order[same]] = order[same + 1]
        return following
