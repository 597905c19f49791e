"""A first tour of a ring by OR-tools' routing library."""

from __future__ import annotations

import numpy as np
from ortools.constraint_solver import pywrapcp, routing_enums_pb2

from taccl.model.network import FloatArray
from taccl.ordering.tuning import ROUTING_SOLUTIONS

#: Costs are whole numbers there.
_STEPS = 10**6


def routed_tour(hop_us: FloatArray) -> list[int]:
    """Hosts around a ring with a small sum of hops; the same one every time, whatever else runs.

    Parameters
    ----------
    hop_us : of each hop, shape (hosts, hosts); inf: there is none.
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
    solution = routing.SolveWithParameters(parameters)
    if solution is None:
        return list(range(hosts))
    tour, index = [], routing.Start(0)
    while not routing.IsEnd(index):
        tour.append(manager.IndexToNode(index))
        index = solution.Value(routing.NextVar(index))
    return tour
