r"""Which links each chunk takes: TACCL's routing program, with bandwidth relaxed.

One binary x[c, l] says that chunk c travels over link l; t[c, r] is when it is at rank r if nothing but
its own way delays it. With d_l = alpha_l + s beta_l, w_lp the time that a chunk over l keeps port p busy, w_l
the longest of these, and U an upper bound on the time:

    minimise T + small * (what using links costs)
    (received once)   sum over l into r of x[c, l]  = 1 where r wants c,  <= 1 elsewhere
    (held first)      x[c, l]  <=  sum over links k into src(l) of x[c, k]        where src(l) has no c
    (arrival)         t[c, dst(l)]  >=  t[c, src(l)] + d_l - (U + d_l) (1 - x[c, l])
    (in time)         T  >=  t[c, r] where r wants c
    (relaxed load)    T  >=  head_p + sum over c and l of port p of w_lp x[c, l] + tail_p
    (own connection)  y_l  >=  x[c, l]                                 where the sketch prices connections
    (spread load)     Z    >=  sum over c of w_l x[c, l]          inside nodes, where the sketch asks

head_p and tail_p are the least times before the first and after the last use of port p. Order is
ignored: a port only has to have room. One variable stands for each orbit of (c, l). A chunk may only
use links on routes that are at most `slack` times as long as its shortest (TACCL, Shah et al., NSDI 2023,
section 5.2 step 1 and section 4 for the shortest-path sets).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.encoding.core.linear import LinearModel, Solution, solve
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.engines.milp.tuning import ROUTING_GAP, ROUTING_PREFERENCE, ROUTING_WRITTEN_PER_UNIT
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import SymmetryGroup
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule
from taccl.support.budget import Budget


@dataclass(frozen=True)
class RoutingOptions:
    """What one routing program assumes.

    Parameters
    ----------
    slack : the longest way that is considered, relative to the shortest.
    alpha_share : the part of alpha that each chunk pays at a port: 1 if chunks travel alone, 1/n if n
        share a send.
    """

    slack: float = 1.5
    alpha_share: float = 1.0


@dataclass(frozen=True, eq=False)
class _PortTimes:
    """How long ports are busy, and the least times before their first and after their last use.

    `busy_us` is w_lp of the module's docstring, for each pair (link, port) of the topology's `incidence`;
    `head_us` and `tail_us` have shape (num_ports,).
    """

    topology: LogicalTopology
    busy_us: FloatArray
    head_us: FloatArray
    tail_us: FloatArray

    @staticmethod
    def of(instance: Instance, options: RoutingOptions) -> _PortTimes:
        problem, topology = instance.problem, instance.problem.topology
        collective, distance = problem.collective, instance.distances_us
        alpha = topology.alpha_us if topology.is_serial else 0.0 * topology.alpha_us
        busy = options.alpha_share * alpha[topology.incidence[0]] + topology.pair_betas * problem.chunk_mb
        is_source, is_wanting = collective.pre.any(axis=0), (collective.post & ~collective.pre).any(axis=0)
        before = distance[is_source].min(axis=0)[topology.src]
        after = distance[:, is_wanting].min(axis=1)[topology.dst]
        head, tail = (
            np.array([end[list(links)].min(initial=np.inf) for links in topology.port_links])
            for end in (before, after)
        )
        useless = ~np.isfinite(head + tail)  # ports that lie on no way to where something is wanted
        head[useless] = tail[useless] = 0.0
        return _PortTimes(topology, busy, head, tail)

    def load_us(self, links: IntArray) -> FloatArray:
        """Head, relaxed load and tail of each port when these links are used, shape (num_ports,)."""
        link, port = self.topology.incidence
        load = self.busy_us * np.bincount(links, minlength=self.topology.num_links)[link]
        return np.bincount(port, load, self.topology.num_ports) + self.head_us + self.tail_us

    @property
    def slowest_us(self) -> FloatArray:
        """The longest that a chunk over each link keeps a port busy, shape (num_links,)."""
        slowest = np.zeros(self.topology.num_links)
        np.maximum.at(slowest, self.topology.incidence[0], self.busy_us)
        return slowest


@dataclass(frozen=True, eq=False)
class _Space:
    """The pairs that may be used, as columns, and the variables that stand for them.

    `use` pairs (chunk, link) are all that pruning leaves; `variable` is shared by an orbit.
    """

    chunk: IntArray
    link: IntArray
    use: IntArray  # variable x of each pair
    at: IntArray  # variable t, shape (num_chunks, num_ranks)
    finish: IntArray
    deciding: IntArray  # one pair of each orbit
    latest_us: float


@dataclass(frozen=True, eq=False)
class RoutingProgram:
    """The program, the schedule that it begins with, and the variables to read it by.

    `connection` are the variables y of the links `priced`; `busiest` is Z. They are empty where the sketch
    asks for neither.
    """

    known: Schedule
    ports: _PortTimes
    model: LinearModel
    space: _Space
    priced: IntArray
    connection: IntArray
    busiest: IntArray

    def given(self) -> FloatArray:
        """The routes of the known schedule as a solution, shape (num_variables,)."""
        known, x = self.known, self.space
        problem = known.problem
        topology = problem.topology
        start = np.zeros(self.model.num_variables)
        used = np.zeros((problem.num_chunks, topology.num_links), dtype=np.bool_)
        used[known.chunk, known.link] = True
        start[x.use] = used[x.chunk, x.link]
        duration = topology.duration_us(known.link, problem.chunk_mb)
        at = np.zeros((problem.num_chunks, problem.num_ranks))
        for row in np.argsort(known.start_us, kind="stable"):
            chunk = known.chunk[row]
            at[chunk, known.dst[row]] = at[chunk, known.src[row]] + duration[row]
        start[x.at.ravel()] = at.ravel()
        start[x.finish] = max(at.max(), self.ports.load_us(known.link).max())
        start[self.connection] = used[:, self.priced].any(axis=0)
        chunks = np.where(topology.internode, 0, used.sum(axis=0))
        start[self.busiest] = (chunks * self.ports.slowest_us).max(initial=0.0)
        return start

    def read(self, solution: Solution) -> BoolArray | None:
        """Which links each chunk uses, shape (num_chunks, num_links); None if there is no solution."""
        if solution.values is None:
            return None
        problem, x = self.known.problem, self.space
        uses = np.zeros((problem.num_chunks, problem.topology.num_links), dtype=np.bool_)
        uses[x.chunk, x.link] = solution.values[x.use] > 0.5
        return uses


def routed(
    instance: Instance,
    known: Schedule,
    allowed: BoolArray,
    options: RoutingOptions,
    solving: SearchOptions,
    budget: Budget,
) -> BoolArray | None:
    """Which links each chunk uses, shape (num_chunks, num_links); None if nothing was found in time.

    `allowed`, of the same shape, says which links may be used: see `Instance.path_sets`.
    `known` is a schedule of the problem: its time limits all others, and its routes are a last resort.
    """
    budget.spend(int(allowed.sum()) / ROUTING_WRITTEN_PER_UNIT)
    program = build(instance, known, allowed, options)
    solution = solve(program.model, solving.solver, budget.share(0.5), gap=ROUTING_GAP, seed=solving.seed)
    if solution.values is None:
        # The known paths are a start only after a search without: from them, a solver finds similar ones
        # only.
        solution = solve(program.model, solving.solver, budget, ROUTING_GAP, solving.seed, program.given())
    return program.read(solution)


def build(instance: Instance, known: Schedule, allowed: BoolArray, options: RoutingOptions) -> RoutingProgram:
    """The program of the module's docstring; `routed` says what the arguments are."""
    model = LinearModel()
    problem, ports = instance.problem, _PortTimes.of(instance, options)
    x = _space(model, known, instance.group, allowed, ports)
    _wanted_chunks_are_received_once(model, problem, x)
    _a_chunk_is_held_before_it_is_sent(model, problem, x)
    _arrivals_follow_the_way(model, problem, x)
    _wanted_chunks_arrive_in_time(model, problem, x)
    _ports_have_room(model, problem, ports, x)
    priced = _connections_have_a_price(model, problem, x)
    busiest = _load_is_spread(model, problem, ports, x)
    return RoutingProgram(known, ports, model, x, *priced, busiest)


def _space(
    model: LinearModel,
    known: Schedule,
    symmetry: SymmetryGroup,
    allowed: BoolArray,
    ports: _PortTimes,
) -> _Space:
    problem = known.problem
    allowed = allowed.copy()
    for chunk_map, link_map in zip(symmetry.chunk_map, symmetry.link_map, strict=True):
        allowed[chunk_map[known.chunk], link_map[known.link]] = True
    chunk, link = np.nonzero(allowed)
    orbit = symmetry.pair_representative(chunk, link, symmetry.link_map)
    _, deciding, variable = np.unique(orbit, return_index=True, return_inverse=True)
    latest = max(known.makespan_us, ports.load_us(known.link).max())
    use = model.add_binaries(len(deciding), cost=_transfer_price(problem, latest))
    chunks, ranks = np.divmod(np.arange(problem.num_chunks * problem.num_ranks), problem.num_ranks)
    cell = symmetry.pair_representative(chunks, ranks, symmetry.rank_map)
    _, first, place = np.unique(cell, return_index=True, return_inverse=True)
    source = problem.collective.pre.ravel()[first]
    at = model.add_variables(len(first), upper=np.where(source, 0.0, latest))
    return _Space(
        chunk=chunk,
        link=link,
        use=use[variable],
        at=at[place].reshape(problem.num_chunks, problem.num_ranks),
        finish=model.add_variables(1, upper=latest, cost=1.0),
        deciding=deciding,
        latest_us=latest,
    )


def _transfer_price(problem: Problem, latest_us: float) -> float:
    """So small that all transfers together cannot outweigh the finishing time."""
    return ROUTING_PREFERENCE * latest_us / max(1, problem.num_chunks * problem.num_ranks)


def _cells(problem: Problem, x: _Space) -> tuple[IntArray, IntArray]:
    """The cell chunk * num_ranks + rank that each pair sends from, and sends into."""
    topology, ranks = problem.topology, problem.num_ranks
    return x.chunk * ranks + topology.src[x.link], x.chunk * ranks + topology.dst[x.link]


def _wanted_chunks_are_received_once(model: LinearModel, problem: Problem, x: _Space) -> None:
    """Received once: exactly where the chunk is wanted, at most elsewhere."""
    _, into = _cells(problem, x)
    cells, row = np.unique(into, return_inverse=True)
    keep = np.isin(cells, np.unique(into[x.deciding]))
    row_of = np.cumsum(keep) - 1
    kept = keep[row]
    wanted = problem.collective.post.ravel()[cells[keep]]
    count = int(keep.sum())
    model.add_rows(count, row_of[row[kept]], x.use[kept], 1.0, np.where(wanted, 1.0, 0.0), 1.0)


def _a_chunk_is_held_before_it_is_sent(model: LinearModel, problem: Problem, x: _Space) -> None:
    """Held first: sum of x[c, k] over k into src(l) - x[c, l] >= 0."""
    out_of, into = _cells(problem, x)
    relayed = x.deciding[~problem.collective.pre.ravel()[out_of[x.deciding]]]
    order = np.argsort(into, kind="stable")
    first = np.searchsorted(into[order], out_of[relayed], side="left")
    last = np.searchsorted(into[order], out_of[relayed], side="right")
    feeding = [order[a:b] for a, b in zip(first, last, strict=True)]
    row = np.repeat(np.arange(len(relayed)), last - first)
    feeder = np.concatenate([*feeding, np.empty(0, dtype=np.int64)]).astype(np.int64)
    model.add_rows(
        len(relayed),
        np.concatenate([row, np.arange(len(relayed))]),
        np.concatenate([x.use[feeder], x.use[relayed]]),
        np.concatenate([np.ones(len(row)), -np.ones(len(relayed))]),
        lower=0.0,
    )


def _arrivals_follow_the_way(model: LinearModel, problem: Problem, x: _Space) -> None:
    """Arrival: t[c, dst] - t[c, src] - (U + d) x[c, l] >= -U."""
    topology = problem.topology
    chunk, link = x.chunk[x.deciding], x.link[x.deciding]
    duration = topology.duration_us(link, problem.chunk_mb)
    row = np.arange(len(chunk))
    later, earlier = x.at[chunk, topology.dst[link]], x.at[chunk, topology.src[link]]
    differ = later != earlier
    row, later, earlier = row[differ], later[differ], earlier[differ]
    row = np.arange(len(row))
    model.add_rows(
        len(row),
        np.tile(row, 3),
        np.concatenate([later, earlier, x.use[x.deciding][differ]]),
        np.concatenate([np.ones(len(row)), -np.ones(len(row)), -(x.latest_us + duration[differ])]),
        lower=-x.latest_us,
    )


def _wanted_chunks_arrive_in_time(model: LinearModel, problem: Problem, x: _Space) -> None:
    """In time: T - t[c, r] >= 0."""
    wanted = np.unique(x.at[problem.collective.post & ~problem.collective.pre])
    row = np.arange(len(wanted))
    model.add_rows(
        len(row),
        np.tile(row, 2),
        np.concatenate([np.repeat(x.finish, len(row)), wanted]),
        np.repeat([1.0, -1.0], len(row)),
        lower=0.0,
    )


def _ports_have_room(model: LinearModel, problem: Problem, times: _PortTimes, x: _Space) -> None:
    """Relaxed load: T - sum of w_lp x[c, l] >= head + tail, for each port that may be used."""
    rows, columns, values = [], [], []
    ports: list[int] = []
    pairs_of_link = _pairs_by_link(x, problem.topology.num_links)
    for port, links in enumerate(problem.topology.port_links):
        over = [pairs_of_link[link] for link in links]
        uses = np.concatenate(over)
        if len(uses):
            at_port = times.busy_us[problem.topology.port_pairs[port]]
            rows.append(np.full(len(uses) + 1, len(ports)))
            columns.append(np.append(x.use[uses], x.finish))
            values.append(np.append(-np.repeat(at_port, [len(each) for each in over]), 1.0))
            ports.append(port)
    model.add_rows(
        len(ports),
        np.concatenate(rows),
        np.concatenate(columns),
        np.concatenate(values),
        lower=(times.head_us + times.tail_us)[ports],
    )


def _pairs_by_link(x: _Space, num_links: int) -> list[IntArray]:
    order = np.argsort(x.link, kind="stable")
    return np.split(order, np.searchsorted(x.link[order], np.arange(1, num_links)))


def _connections_have_a_price(model: LinearModel, problem: Problem, x: _Space) -> tuple[IntArray, IntArray]:
    """Own connection: y_l - x[c, l] >= 0, y_l at the price that the sketch puts on link l.

    Returns the links that have a price, and their y.
    """
    preference = problem.limits.link_preference
    if preference is None or not preference.any():
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing
    priced = np.flatnonzero(preference[x.link])
    links, connection = np.unique(x.link[priced], return_inverse=True)
    price = ROUTING_PREFERENCE * x.latest_us * preference[links] / problem.topology.num_links
    dear = price > 0
    used = model.add_variables(len(links), upper=1.0, cost=price)
    row = np.arange(len(priced))
    model.add_rows(
        len(row),
        np.tile(row, 2),
        np.concatenate([used[connection], x.use[priced]]),
        np.repeat([1.0, -1.0], len(row)),
        lower=np.where(dear[connection], 0.0, -np.inf),
    )
    if not dear.all():
        # Where many connections are wanted, a connection counts only if some chunk uses it.
        cheap = ~dear[connection]
        rows = np.concatenate([connection[cheap], np.unique(connection[cheap])])
        columns = np.concatenate([x.use[priced][cheap], used[np.unique(connection[cheap])]])
        values = np.concatenate([np.ones(int(cheap.sum())), -np.ones(len(np.unique(connection[cheap])))])
        model.add_rows(len(links), rows, columns, values, lower=0.0)
    return links, used


def _load_is_spread(model: LinearModel, problem: Problem, ports: _PortTimes, x: _Space) -> IntArray:
    """Spread load: Z - sum of w_l x[c, l] >= 0 for each link inside a node, Z at a small price.

    Returns Z, or nothing.
    """
    if not problem.limits.spread_load:
        return np.zeros(0, dtype=np.int64)
    topology = problem.topology
    slowest = ports.slowest_us
    busiest = model.add_variables(1, cost=ROUTING_PREFERENCE)
    inside = np.flatnonzero(~topology.internode[x.link])
    links, row = np.unique(x.link[inside], return_inverse=True)
    model.add_rows(
        len(links),
        np.concatenate([row, np.arange(len(links))]),
        np.concatenate([x.use[inside], np.repeat(busiest, len(links))]),
        np.concatenate([-slowest[x.link[inside]], np.ones(len(links))]),
        lower=0.0,
    )
    return busiest
