"""A schedule to rings or trees: its own where its chunks travel along such, else the machine's."""

from __future__ import annotations

from dataclasses import replace

from taccl.backend.graphs.document import Graphs, Shape, children_of
from taccl.backend.graphs.from_schedule import channels_of
from taccl.backend.graphs.loads import gbps_of
from taccl.backend.graphs.of_machine import graphs_of_machine
from taccl.backend.graphs.tuning import MOST_CHILDREN, MOST_GPUS
from taccl.errors import CollectiveError
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


def check_problem(problem: Problem) -> None:
    """Refuse what no graph of a library is for.

    Raises
    ------
    CollectiveError : with the reason.
    """
    if problem.topology.num_nodes > 1:
        raise CollectiveError(
            f"a library's graphs are those of one node, and this machine has {problem.topology.num_nodes}",
            hint="--nodes 1; between nodes a library connects the graphs of nodes itself",
        )
    if problem.num_ranks > MOST_GPUS:
        ranks = problem.num_ranks
        raise CollectiveError(
            f"rings and trees through {ranks} GPUs are not searched for, only through {MOST_GPUS}",
            hint="another --target; where all GPUs are at one switch, the library's own order is as good",
        )
    if problem.num_ranks < 2:
        raise CollectiveError("one GPU needs no graph", hint="a machine with several GPUs")


def lower_to_graphs(schedule: Schedule, shape: Shape) -> Graphs:
    """The faster of the schedule's own channels and of those that the links of the machine allow.

    A library cuts a call into shares of its channels and pieces of its own, so the links decide, and not the
    moments of the schedule: those of the machine are taken where they are faster, too.

    Raises
    ------
    CollectiveError : there is no ring or tree through all GPUs.
    """
    network = schedule.problem.topology
    machine = graphs_of_machine(network, shape)
    try:
        channels = channels_of(schedule, shape)
    except CollectiveError as reason:
        return replace(machine, origin=f"{machine.origin} ({reason.message})")
    if shape == "tree" and any(len(of) > MOST_CHILDREN for tree in channels for of in children_of(tree)):
        return replace(
            machine, origin=f"{machine.origin} (a GPU of the schedule's trees has over 3 children)"
        )
    gbps = gbps_of(network, shape, channels)
    if gbps < machine.gbps:
        return replace(machine, origin=f"{machine.origin} (the schedule's: {gbps:.1f} GB/s)")
    return Graphs(shape, network.num_ranks, channels, "of the schedule", gbps)
