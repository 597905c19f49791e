"""A schedule through the faces of switches, as one of their members alone.

What members send to a sum face goes to the rank that the sum is for, and what goes to a copy face goes to all
that it copies to. So a plan of what is left is right on its own; where a switch sums and copies, it does at
once what such messages do one by one (`switches`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from taccl.backend.faces import faces_of
from taccl.errors import CollectiveError
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule
from taccl.model.schedule.derivation import derive
from taccl.model.schedule.partial_sums import OWN, PartialSums


def check_helpers(topology: LogicalTopology) -> None:
    """Refuse a machine with a helper that no runtime of plans has.

    Raises
    ------
    CollectiveError : with the first such helper.
    """
    faces = {face.rank for face in faces_of(topology)}
    for number, rank in enumerate(range(topology.num_members, topology.num_ranks)):
        if rank not in faces:
            raise CollectiveError(
                f"helper {number} of {topology.name} (rank {rank}) is no switch that sums for one GPU "
                "of a node, or copies to all of it: no runtime of plans has servers, or fabrics that sum",
                hint="--without NAME leaves a helper out, or --no-file for the schedule alone",
            )
    for name, can in (("sum", topology.may_sum), ("copy", topology.may_copy)):
        if can is not None and not can[: topology.num_members].all():
            raise CollectiveError(
                f"a rank of {topology.name} that holds data may not {name}, and all ranks of plans do",
                hint="--no-file for the schedule alone",
            )


def by_members(schedule: Schedule) -> Schedule:
    """What a schedule does, without its helpers; it itself if there are none.

    A message lasts from when it leaves a member until it comes to one. It is bound to no ports on its way, so
    the result may not pass `Schedule.check`; it has the order and the sums of the schedule.
    """
    topology = schedule.problem.topology
    if not topology.num_helpers:
        return schedule
    many = topology.num_members
    src, dst = schedule.src.tolist(), schedule.dst.tolist()
    brought = _brought(schedule, src, dst)
    # Rows of the schedule: by which a chunk leaves a member, and by which it comes to one.
    pairs = [
        (first, last)
        for last in range(len(schedule))
        if dst[last] < many
        for first in (brought(last) if src[last] >= many else (last,))
        if src[first] != dst[last]
    ]
    left, came = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    network, link = _joined(topology, [(src[first], dst[last]) for first, last in pairs])
    both = np.stack([schedule.group[left], schedule.group[came]])
    sums = schedule.sums
    return Schedule(
        problem=_of_members(schedule.problem, network),
        chunk=schedule.chunk[left],
        link=link,
        start_us=schedule.start_us[left],
        end_us=schedule.end_us[came],
        reduce=schedule.reduce[left],
        group=np.unique(both, axis=1, return_inverse=True)[1].reshape(-1),
        sums=None if sums is None else PartialSums(sums.of_row[left], sums.members[:, :many]),
    ).sorted()


def _brought(schedule: Schedule, src: Sequence[int], dst: Sequence[int]) -> Callable[[int], Iterable[int]]:
    """From a row that leaves a helper to those that brought there what it takes."""
    rows = {} if schedule.sums is None else derive(schedule).rows
    into: dict[tuple[int, int], list[int]] = {}
    for row, chunk in enumerate(schedule.chunk.tolist()):
        into.setdefault((dst[row], chunk), []).append(row)

    def brought(row: int) -> Iterable[int]:
        if row in rows:
            return [each for each in rows[row] if each != OWN]
        came = into.get((src[row], int(schedule.chunk[row])), [])
        copied = [each for each in came if not schedule.reduce[each]]
        return came if schedule.reduce[row] or not copied else copied[:1]

    return brought


def _joined(topology: LogicalTopology, pairs: Sequence[tuple[int, int]]) -> tuple[LogicalTopology, IntArray]:
    """The members with a link for each of these pairs, and the link of each pair.

    Where no link joins two ranks, they get one with a port of its own: they reach each other through the
    switch.
    """
    direct = [pair for pair in dict.fromkeys(pairs) if pair in topology.link_index]
    other = [pair for pair in dict.fromkeys(pairs) if pair not in topology.link_index]
    links = [topology.link_index[pair] for pair in direct]
    slowest = [float(column.max()) for column in (topology.alpha_us, topology.beta_us_per_mb)]
    ends = np.array([*direct, *other], dtype=np.int64).reshape(-1, 2)
    new_ports = [topology.num_ports + number for number in range(len(other))]
    betas = topology.port_betas
    network = replace(
        topology.with_equal_ranks(),
        node_of=topology.node_of[: topology.num_members],
        domain_of=None if topology.domain_of is None else topology.domain_of[: topology.num_members],
        src=ends[:, 0],
        dst=ends[:, 1],
        alpha_us=np.append(topology.alpha_us[links], [slowest[0]] * len(other)),
        beta_us_per_mb=np.append(topology.beta_us_per_mb[links], [slowest[1]] * len(other)),
        ports=(*(topology.ports[link] for link in links), *((port,) for port in new_ports)),
        port_names=(*topology.port_names, *(f"{src} to {dst}" for src, dst in other)),
        port_betas=None
        if betas is None
        else (*(betas[link] for link in links), *[(slowest[1],)] * len(other)),
    )
    number = {pair: place for place, pair in enumerate((*direct, *other))}
    return network, np.array([number[pair] for pair in pairs], dtype=np.int64)


def _of_members(problem: Problem, network: LogicalTopology) -> Problem:
    many, collective = network.num_ranks, problem.collective
    alone = replace(
        collective, num_ranks=many, num_helpers=0, in_place_shift=collective.in_place_shift[:many]
    )
    return replace(problem, topology=network, collective=alone, symmetry=(), limits=RoutingLimits())
