"""Machines whose switch sums and copies, and schedules through it; each node has a sum and a copy face."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taccl.model.collective import Collective
from taccl.model.collectives import make_collective
from taccl.model.executor import Executor
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_sends
from taccl.model.schedule.partial_sums import set_of

ALPHA, BETA, NIC_BETA = 1.0, 10.0, 40.0


def switched(
    gpus: int, nodes: int = 1, executor: Executor | None = None, loops_back: bool = True
) -> LogicalTopology:
    """GPUs that reach each other in a node, and the GPUs of their place in other nodes; then the faces.

    Each GPU has a port out and one in, which the links to the faces use, too, and a port each way to other
    nodes. The faces of node k are the helpers 2 k (sums) and 2 k + 1 (copies).

    `loops_back` : whether what a GPU gets of a sum, or gives to all, takes its other way, too, since the
    switch reads and writes its own memory as well; else schedules say so.
    """
    members = gpus * nodes
    links: list[tuple[int, int, float, tuple[int, ...]]] = []
    for node in range(nodes):
        mine = range(node * gpus, (node + 1) * gpus)
        links += [(a, b, BETA, (a, members + b)) for a in mine for b in mine if a != b]
        links += [
            (a, b, NIC_BETA, (2 * members + a, 3 * members + b))
            for a in mine
            for b in range(a % gpus, members, gpus)
            if a != b
        ]
        adds, copies = members + 2 * node, members + 2 * node + 1
        for a in mine:
            both = (a, members + a) if loops_back else None
            links += [(a, adds, BETA, (a,)), (adds, a, BETA, both or (members + a,))]
            links += [(a, copies, BETA, both or (a,)), (copies, a, BETA, (members + a,))]
    src, dst, beta, ports = zip(*links, strict=True)
    is_helper = np.arange(members + 2 * nodes) >= members
    sums = np.array([rank < members or (rank - members) % 2 == 0 for rank in range(members + 2 * nodes)])
    return LogicalTopology(
        name=f"switched-{gpus}x{nodes}",
        node_of=np.array([*np.repeat(np.arange(nodes), gpus), *np.repeat(np.arange(nodes), 2)]),
        src=np.array(src),
        dst=np.array(dst),
        alpha_us=np.full(len(links), ALPHA),
        beta_us_per_mb=np.array(beta),
        ports=ports,
        port_names=tuple(
            f"{way} {rank}" for way in ("out", "in", "nic out", "nic in") for rank in range(members)
        ),
        occupancy="pipelined",
        is_helper=is_helper,
        may_sum=sums,
        may_copy=~is_helper | ~sums,
        executor=executor,
    )


#: Sends as source, destination, chunk, and the ranks whose sum it is (None: a copy).
Row = tuple[int, int, int, Sequence[int] | None]


def in_turn(
    topology: LogicalTopology, collective: Collective, rows: Sequence[Row], chunk_mb: float = 1.0
) -> Schedule:
    """A valid schedule of these sends, each as soon as its ports are free and its chunk is there."""
    problem = Problem(topology, collective.with_helpers(topology.num_helpers), chunk_mb=chunk_mb)
    explicit = any(ranks is not None for _, _, _, ranks in rows)
    free = np.zeros(topology.num_ports)
    done: dict[tuple[int, int], float] = {}
    sends = []
    for src, dst, chunk, ranks in rows:
        link = topology.link_index[src, dst]
        ports = list(topology.ports[link])
        start = max(float(free[ports].max()), done.get((src, chunk), 0.0))
        free[ports] = start + chunk_mb * topology.beta_us_per_mb[link]
        end = start + float(topology.duration_us(link, chunk_mb))
        done[dst, chunk] = max(end, done.get((dst, chunk), 0.0))
        sums = (0 if ranks is None else set_of(ranks),) if explicit else None
        sends.append(Send((chunk,), link, start, reduce=ranks is not None, sums=sums))
    schedule = schedule_from_sends(problem, sends)
    schedule.check()
    return schedule


def nvls_allreduce(
    gpus: int, pieces: int = 1, chunk_mb: float = 1.0, own: bool = True, executor: Executor | None = None
) -> Schedule:
    """GPU r owns part r: all of it goes to the sum face, from there to r, to the copy face, and to all.

    `own` : whether what r has itself goes through the sum face, too; else it adds that on its own.
    """
    topology = switched(gpus, executor=executor)
    adds, copies = gpus, gpus + 1
    every = range(gpus)
    rows: list[Row] = []
    for piece in range(pieces):
        for owner in every:
            chunk = owner * pieces + piece
            given = [rank for rank in every if own or rank != owner]
            rows += [(rank, adds, chunk, [rank]) for rank in given] + [(adds, owner, chunk, given)]
    for piece in range(pieces):
        for owner in every:
            chunk = owner * pieces + piece
            rows.append((owner, copies, chunk, None))
            rows += [(copies, rank, chunk, None) for rank in every if rank != owner]
    return in_turn(topology, make_collective("allreduce", gpus, pieces), rows, chunk_mb)


def nvls_allgather(gpus: int, pieces: int = 1, chunk_mb: float = 1.0) -> Schedule:
    """Every GPU stores its part at all others."""
    topology = switched(gpus)
    rows: list[Row] = []
    for chunk in range(gpus * pieces):
        owner = chunk // pieces
        rows.append((owner, gpus + 1, chunk, None))
        rows += [(gpus + 1, rank, chunk, None) for rank in range(gpus) if rank != owner]
    return in_turn(topology, make_collective("allgather", gpus, pieces), rows, chunk_mb)


def nvls_allreduce_of_nodes(gpus: int, nodes: int = 2, chunk_mb: float = 1.0) -> Schedule:
    """Each part is summed in each node; its owner there adds the sums of the nodes, and copies the result."""
    topology = switched(gpus, nodes)
    members = gpus * nodes
    rows: list[Row] = []
    for chunk in range(members):
        for node in range(nodes):
            mine = [node * gpus + rank for rank in range(gpus)]
            rows += [(rank, members + 2 * node, chunk, [rank]) for rank in mine]
            rows.append((members + 2 * node, node * gpus + chunk % gpus, chunk, mine))
    for chunk in range(members):
        for node in range(nodes):
            mine = [node * gpus + rank for rank in range(gpus)]
            rows += [
                (node * gpus + chunk % gpus, other * gpus + chunk % gpus, chunk, mine)
                for other in range(nodes)
                if other != node
            ]
    for chunk in range(members):
        for node in range(nodes):
            owner = node * gpus + chunk % gpus
            copies = members + 2 * node + 1
            rows.append((owner, copies, chunk, None))
            rows += [
                (copies, node * gpus + rank, chunk, None)
                for rank in range(gpus)
                if node * gpus + rank != owner
            ]
    return in_turn(topology, make_collective("allreduce", members), rows, chunk_mb)
