"""A ring is a tour of hosts: a first one by OR-tools' routing library, the best two by CP-SAT.

`AddCircuit` finds the tour whose slowest hop is fastest, and of these the one with the least sum of hops. The
slowest hop is a bound of the plan in any order; both are tours to be timed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from ortools.constraint_solver import pywrapcp, routing_enums_pb2
from ortools.sat.python import cp_model

from taccl.analysis.ordering.traffic import Order, Traffic
from taccl.analysis.ordering.tuning import CP_SAT_SECONDS, ROUTING_SOLUTIONS
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray

#: Costs are whole numbers for both solvers: this many for the largest, so rounding down loses 1 in as many.
_STEPS = 10**6
#: In a ring each position has one on either side; of fewer positions these are the same.
_SIDES, _LEAST_RING = 2, 3


@dataclass(frozen=True, eq=False)
class Ring:
    """A plan in which each position sends to the next one all around, and perhaps to the one before as well.

    Each position sends the same in one direction; an AllReduce may sum one way and gather the other.

    Parameters
    ----------
    tour : the positions in the order of the ring.
    hop_us : what all sends of a hop take between two hosts, both directions together, shape (hosts, hosts).
    busy_us : what the slower direction of a hop keeps its link busy, shape (hosts, hosts).
    """

    tour: IntArray
    hop_us: FloatArray
    busy_us: FloatArray

    @staticmethod
    def of(traffic: Traffic) -> Ring | None:
        """The ring that a plan is; None if it is none, or hosts have several GPUs."""
        pairs, hosts = traffic.pairs, traffic.num_hosts
        if traffic.hosts.shape[1] > 1 or hosts < _LEAST_RING:
            return None
        ends = list(zip(pairs.src.tolist(), pairs.dst.tolist(), strict=True))
        tour = _tour(ends, hosts)
        if tour is None:
            return None
        row = {pair: number for number, pair in enumerate(ends)}
        forward = [row.get(each) for each in zip(tour, [*tour[1:], tour[0]], strict=True)]
        backward = [row.get(each) for each in zip([*tour[1:], tour[0]], tour, strict=True)]
        hop_us, busy_us = np.zeros((2, hosts, hosts))
        for rows, turned in ((forward, False), (backward, True)):
            if all(each is None for each in rows):
                continue
            same = {
                None if each is None else (int(pairs.count[each]), float(pairs.mb[each])) for each in rows
            }
            if len(same) > 1 or None in same:
                return None
            count, mb = next(each for each in same if each is not None)
            takes_us, keeps_us = _between_hosts(traffic, count, mb)
            hop_us = hop_us + (takes_us.T if turned else takes_us)
            busy_us = np.maximum(busy_us, keeps_us.T if turned else keeps_us)
        return Ring(np.array(tour), hop_us, busy_us)

    def order_of(self, hosts: list[int]) -> Order:
        """The order that puts these hosts around the ring."""
        order = np.empty(len(hosts), dtype=np.int64)
        order[self.tour] = hosts
        return tuple(order.tolist())


def _tour(ends: list[tuple[int, int]], hosts: int) -> list[int] | None:
    """Positions around a ring that all pairs are on, in either direction; None: there is none."""
    next_to: list[list[int]] = [[] for _ in range(hosts)]
    for a, b in ends:
        for here, there in ((a, b), (b, a)):
            if there not in next_to[here]:
                next_to[here].append(there)
    if any(len(each) != _SIDES for each in next_to):
        return None
    follows = next((b for a, b in ends if a == 0), next_to[0][0])
    tour = [0, follows]
    while len(tour) < hosts:
        before, here = tour[-2:]
        tour.append(next(each for each in next_to[here] if each != before))
        if tour[-1] == 0:
            return None
    return tour if 0 in next_to[tour[-1]] else None


def _between_hosts(traffic: Traffic, count: int, mb: float) -> tuple[FloatArray, FloatArray]:
    """What this many sends of `mb` in all take between any two hosts, and keep a link busy; inf: no link."""
    costs, table, topology = traffic.costs, traffic.link_table, traffic.problem.topology
    takes = np.append(count * costs.alpha_us + mb * costs.beta_us, np.inf)[table]
    if topology.is_serial:
        return takes, takes
    return takes, np.append(mb * topology.beta_us_per_mb, np.inf)[table]


@dataclass(frozen=True)
class Tour:
    """A tour of hosts, and what no tour is below: microseconds of its slowest hop, or of all its hops."""

    hosts: list[int]
    bound_us: float


def least_bottleneck(ring: Ring, limit_s: float) -> Tour | None:
    """The tour whose slowest hop is as fast as can be, within this many seconds."""
    model = _Circuit(ring.busy_us)
    slowest = model.model.new_int_var(0, _STEPS, "slowest")
    for cost, literal in zip(model.costs, model.literals, strict=True):
        model.model.add(slowest >= cost).only_enforce_if(literal)
    model.model.minimize(slowest)
    return model.solved(limit_s)


def least_sum(ring: Ring, slowest_us: float, limit_s: float) -> Tour | None:
    """The tour with the least sum of hops, of those without a hop slower than `slowest_us`."""
    model = _Circuit(np.where(ring.busy_us <= slowest_us, ring.hop_us, np.inf))
    model.model.minimize(sum(c * l for c, l in zip(model.costs, model.literals, strict=True)))
    return model.solved(limit_s)


class _Circuit:
    """A tour through all hosts over hops of finite cost."""

    def __init__(self, cost_us: FloatArray) -> None:
        self.model, self._hosts = cp_model.CpModel(), len(cost_us)
        src, dst = np.nonzero(np.isfinite(cost_us) & ~np.eye(self._hosts, dtype=bool))
        self._ends = list(zip(src.tolist(), dst.tolist(), strict=True))
        largest = float(cost_us[src, dst].max(initial=0.0))
        self._step_us = largest / _STEPS if largest > 0 else 1.0
        self.costs = np.floor(cost_us[src, dst] / self._step_us).astype(np.int64).tolist()
        self.literals = [self.model.new_bool_var("") for _ in self._ends]
        arcs = [(*ends, literal) for ends, literal in zip(self._ends, self.literals, strict=True)]
        self.model.add_circuit(arcs)

    def solved(self, limit_s: float) -> Tour | None:
        """The best tour that was found, with the bound that was proved."""
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 0
        solver.parameters.max_deterministic_time = CP_SAT_SECONDS
        solver.parameters.max_time_in_seconds = limit_s
        if solver.solve(self.model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        after = {a: b for (a, b), l in zip(self._ends, self.literals, strict=True) if solver.value(l)}
        tour = [0]
        while len(tour) < self._hosts:
            tour.append(after[tour[-1]])
        return Tour(tour, max(0.0, solver.best_objective_bound) * self._step_us)


def routed_tour(hop_us: FloatArray, limit_s: float) -> list[int]:
    """Hosts around a ring with a small sum of hops; within the limit the same one every time.

    Parameters
    ----------
    hop_us : of each hop, shape (hosts, hosts); inf: there is none.
    limit_s : seconds after which it goes on with no further solution; what it has by then is a tour.
    """
    hosts = len(hop_us)
    finite = np.isfinite(hop_us)
    largest = float(hop_us[finite].max(initial=0.0)) or 1.0
    cost = np.where(finite, np.floor(np.where(finite, hop_us, 0.0) / largest * _STEPS), 1000 * _STEPS)
    np.fill_diagonal(cost, 0)
    manager = pywrapcp.RoutingIndexManager(hosts, 1, 0)
    routing = pywrapcp.RoutingModel(manager)
    matrix = cost.astype(np.int64).tolist()
    routing.SetArcCostEvaluatorOfAllVehicles(routing.RegisterTransitMatrix(matrix))
    parameters = pywrapcp.DefaultRoutingSearchParameters()
    parameters.first_solution_strategy = routing_enums_pb2.FirstSolutionStrategy.PATH_CHEAPEST_ARC
    parameters.solution_limit = ROUTING_SOLUTIONS
    parameters.time_limit.FromMilliseconds(max(1, round(1000 * limit_s)))
    solution = routing.SolveWithParameters(parameters)
    if solution is None:
        return list(range(hosts))
    tour, index = [], routing.Start(0)
    while not routing.IsEnd(index):
        tour.append(manager.IndexToNode(index))
        index = solution.Value(routing.NextVar(index))
    return tour
