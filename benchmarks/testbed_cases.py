"""Machines of the testbed's benchmark, rings as a person would write them, and the fit of costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from benchmarks.testbed_fluid import time_shared
from taccl import load_topology
from taccl.api import make_problem
from taccl.backend.program import Buffer
from taccl.backend.rounds.rounds import Local, Message, Place, Round, Rounds
from taccl.model.network import LogicalTopology
from taccl.synthesis.request import Request

MB = 2**20
#: Who is measured.
PLAN, GLOO, MPI, RING = "plan", "gloo", "Open MPI", "ring by hand"
#: The part of a link that is payload: of 9014 bytes of a packet, as `taccl testbed --check` shows, too.
PAYLOAD = 8948 / 9014


@dataclass(frozen=True)
class Machine:
    """A machine, by the YAML of its links with places for two alphas, and a ring that knows the links.

    Parameters
    ----------
    about : for the page. yaml : with `{near}` and `{far}`, alphas in us. order : of the ring.
    sizes : of calls, bytes; such that they take 0.2 s and more.
    """

    name: str
    about: str
    yaml: str
    order: tuple[int, ...]
    sizes: tuple[int, int]

    def text(self, near_us: float = 1.0, far_us: float = 2.0) -> str:
        """The machine's file."""
        return f"name: {self.name}\n" + self.yaml.format(near=f"{near_us:.1f}", far=f"{far_us:.1f}")


_FAST = "0-3, 0-4, 1-2, 1-5, 2-3, 4-7, 5-6, 6-7"
_SLOW = "0-1, 0-2, 1-3, 2-6, 3-7, 4-5, 4-6, 5-7"
MACHINES = (
    Machine(
        "nodes",
        "2 nodes of 4, 40 Mbit/s between any two in a node, one NIC of 10 Mbit/s a node",
        "nodes: 2\nnode:\n  gpus: 4\n  nics: 1\n  links:\n"
        "    - {{pairs: [0-1, 0-2, 0-3, 1-2, 1-3, 2-3], alpha_us: {near}, bandwidth_gbps: 0.005}}\n"
        "    - {{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 0.005}}\n"
        "fabric: {{alpha_us: {far}, bandwidth_gbps: 0.00125}}\n",
        (0, 1, 2, 3, 4, 5, 6, 7),
        (MB // 2, 3 * MB // 2),
    ),
    Machine(
        "cube",
        "the cube mesh of an NDv2: links of 20 and of 10 Mbit/s",
        "gpus: 8\nlinks:\n"
        f"  - {{{{pairs: [{_FAST}], alpha_us: {{near}}, bandwidth_gbps: 0.0025}}}}\n"
        f"  - {{{{pairs: [{_SLOW}], alpha_us: {{near}}, bandwidth_gbps: 0.00125}}}}\n",
        (0, 3, 2, 1, 5, 6, 7, 4),
        (MB, 3 * MB),
    ),
    Machine(
        "torus",
        "a torus of 2 x 4, 20 Mbit/s a link, but 8 Mbit/s between ranks 1 and 2",
        "gpus: 8\nlinks:\n"
        "  - {{pairs: [0-1, 2-3, 3-0, 4-5, 5-6, 6-7, 7-4, 0-4, 1-5, 2-6, 3-7], "
        "alpha_us: {near}, bandwidth_gbps: 0.0025}}\n"
        "  - {{pairs: [1-2], alpha_us: {near}, bandwidth_gbps: 0.001}}\n",
        (0, 1, 5, 6, 2, 3, 7, 4),
        (MB, 3 * MB),
    ),
    Machine(
        "fabric",
        "4 nodes of 2 with a NIC of 20 Mbit/s each, two leaves under a spine, 4:1 oversubscribed",
        "nodes: 4\nnode:\n  gpus: 2\n  nics: 2\n  links:\n"
        "    - {{pairs: [0-1], alpha_us: {near}, bandwidth_gbps: 0.005}}\n"
        "    - {{from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 0.005}}\n"
        "fabric:\n  alpha_us: {far}\n  bandwidth_gbps: 0.0025\n  levels:\n"
        "    - {{name: leaf, nodes: 2, oversubscription: 4, alpha_us: 0}}\n"
        "    - {{name: spine}}\n",
        (0, 1, 2, 3, 4, 5, 6, 7),
        (MB, 3 * MB),
    ),
)


def ring(collective: str, order: Sequence[int]) -> Rounds | None:
    """The ring both ways at once, half of the data each; an AlltoAll: all pairs at once; None: neither."""
    n = len(order)
    place = {rank: at for at, rank in enumerate(order)}
    if collective == "alltoall":
        messages = [
            Message(a, b, Place(Buffer.INPUT, b), Place(Buffer.OUTPUT, a), 1)
            for a in range(n)
            for b in range(n)
            if a != b
        ]
        own = [Local(a, (Place(Buffer.INPUT, a),), Place(Buffer.OUTPUT, a), 1) for a in range(n)]
        return _rounds(collective, n, (n, n, 0), own, [Round(tuple(messages), ())])
    if collective == "allgather":
        own = [Local(a, (Place(Buffer.INPUT, 0),), Place(Buffer.OUTPUT, 2 * a), 2) for a in range(n)]
        return _rounds(collective, n, (2, 2 * n, 0), own, _gathering(order, place))
    shift = [Local(a, (Place(Buffer.INPUT, 0),), Place(Buffer.SCRATCH, 0), 2 * n) for a in range(n)]
    rounds = []
    for hop in range(n - 1):
        messages, sums = [], []
        for half, step in ((0, 1), (1, -1)):
            for rank in order:
                at = place[rank]
                block = 2 * order[(at - step * (1 + hop)) % n] + half
                target = order[(at + step) % n]
                landing = Place(Buffer.SCRATCH, 2 * n + half)
                messages.append(Message(rank, target, Place(Buffer.SCRATCH, block), landing, 1))
                here = Place(Buffer.SCRATCH, block)
                sums.append(Local(target, (here, landing), here, 1))
        rounds.append(Round(tuple(messages), tuple(sums)))
    for_all = collective == "allreduce"
    last = [
        Local(a, (Place(Buffer.SCRATCH, 2 * a),), Place(Buffer.OUTPUT, 2 * a if for_all else 0), 2)
        for a in range(n)
    ]
    rounds[-1] = Round(rounds[-1].messages, (*rounds[-1].after, *last))
    if for_all:
        rounds += _gathering(order, place)
    return _rounds(collective, n, (2 * n, 2 * n if for_all else 2, 2 * n + 2), shift, rounds)


def _gathering(order: Sequence[int], place: dict[int, int]) -> list[Round]:
    n = len(order)
    rounds = []
    for hop in range(n - 1):
        messages = []
        for half, step in ((0, 1), (1, -1)):
            for rank in order:
                at = place[rank]
                where = Place(Buffer.OUTPUT, 2 * order[(at - step * hop) % n] + half)
                messages.append(Message(rank, order[(at + step) % n], where, where, 1))
        rounds.append(Round(tuple(messages), ()))
    return rounds


def _rounds(
    collective: str, n: int, size: tuple[int, int, int], before: list[Local], rounds: list[Round]
) -> Rounds:
    return Rounds(
        collective, n, None, max(size[:2]), False, (0,) * n, (size,) * n, tuple(before), tuple(rounds), ()
    )


@dataclass(frozen=True)
class Costs:
    """What was fitted, us: posting a round, a message between neighbours, and one through NICs or switches.

    A round's may be negative: after each pause a link passes a bucket (10 KB) at once.
    """

    round_us: float
    near_us: float
    far_us: float


def network_of(path: Path) -> LogicalTopology:
    """Of a machine's file."""
    return make_problem(
        Request("allgather", size=MB, topology=load_topology(path), executor=False)
    ).problem.topology


def predicted_us(rounds: Rounds, network: LogicalTopology, size_bytes: int, costs: Costs) -> float:
    """The time of a call on a network whose alphas are 1 and 2 us where they are near and far."""
    alphas = np.where(network.alpha_us > 1.5, costs.far_us, costs.near_us).clip(min=0)
    return time_shared(rounds, network, alphas, size_bytes / MB / rounds.chunks / PAYLOAD, costs.round_us)


def fit(network: LogicalTopology, measured: Sequence[tuple[Rounds, int, float]]) -> Costs:
    """Costs with the least errors of log(predicted / measured); of rounds, sizes in bytes, and us."""

    def loss(x: np.ndarray) -> float:
        found = Costs(*(1000 * x))
        errors = [np.log(predicted_us(r, network, s, found) / us) for r, s, us in measured]
        return float(np.mean(np.abs(errors))) + 1e-4 * float(np.sum(x**2)) + float(-x[1:].clip(max=0).sum())

    best = minimize(loss, np.array([0.5, 0.5, 1.0]), method="Nelder-Mead", options={"maxfev": 150})
    return Costs(*(float(1000 * max(each, 0) if k else 1000 * each) for k, each in enumerate(best.x)))
