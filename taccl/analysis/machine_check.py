"""What is odd about a machine, what no schedule on it can beat, and what limits it.

It looks at a machine alone: no sketch, no engine, no file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from taccl.encoding.bounds import Proof, known_bounds, proofs
from taccl.encoding.instance import Instance
from taccl.errors import TacclError
from taccl.model import units
from taccl.model.collective import IntArray
from taccl.model.collectives import chunk_bytes, make_collective
from taccl.model.network import Occupancy
from taccl.sketch import SketchedNetwork, sketched
from taccl.support.budget import Budget, check_time_limit
from taccl.support.lists import few
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.inputs import choose_topology
from taccl.topologies import PhysicalTopology
from taccl.topologies.anomalies import Anomaly, anomalies, named
from taccl.topologies.reach import check_pairs, may_reach
from taccl.topologies.without import as_used_by

#: The collectives that a machine is checked with.
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "alltoall")
#: What nccl-tests prints as size: a small message, one in between, a large one.
SIZES = ("1KB", "1MB", "256MB")

#: `bandwidth` where a bound of bytes alone, for any chunk count, is most of the bound of whole parts.
Limit = Literal["latency", "bandwidth"]
_MOSTLY = 0.5


@dataclass(frozen=True)
class MachineBound:
    """What no schedule of a collective can beat on a machine, and what makes it so.

    Parameters
    ----------
    size_bytes : what nccl-tests prints as size, rounded down to a whole number of equal parts.
    busbw_factor : of the collective; of no use where nothing is proved.
    proved : bounds with each rank's part in one piece, largest first; none for the `reason`.
    """

    collective: str
    size_bytes: int
    busbw_factor: float = 1.0
    proved: tuple[Proof, ...] = ()
    reason: str = ""

    @property
    def bound(self) -> Proof | None:
        """The largest bound; None where nothing was proved."""
        return self.proved[0] if self.proved else None

    @property
    def any_chunks(self) -> Proof | None:
        """The largest bound that holds however finely the size is cut; None where none was proved."""
        return next((proof for proof in self.proved if proof.holds_for_any_chunks and proof.value_us), None)

    @property
    def limit(self) -> Limit | None:
        """Whether latency or bandwidth is in the way; None where bounds of one sort were not proved."""
        if self.bound is None or self.any_chunks is None:
            return None
        if all(proof.holds_for_any_chunks for proof in self.proved):
            return None
        of_alphas = {bound.name for bound in known_bounds() if bound.is_of_alphas}
        for_any = (proof for proof in self.proved if proof.holds_for_any_chunks)
        bytes_us = max((each.value_us for each in for_any if each.kind not in of_alphas), default=0.0)
        return "bandwidth" if bytes_us >= _MOSTLY * self.bound.value_us else "latency"

    @property
    def witness(self) -> Proof | None:
        """The bound whose witness says what limits: that for any chunk count where bandwidth does."""
        return self.any_chunks if self.limit == "bandwidth" else self.bound

    @property
    def why(self) -> str:
        """That witness, and of which bound it is where that is not the largest; or why nothing is proved."""
        if self.witness is None:
            return self.reason
        of_any = "for any chunk count: " if self.limit == "bandwidth" else ""
        return f"{of_any}{self.witness.witness}"

    @property
    def busbw_gbps(self) -> float | None:
        """The busbw that no schedule exceeds, by the bound for any cutting, 10**9 bytes per second."""
        if self.any_chunks is None:
            return None
        return finite(units.bandwidth_gbps(self.size_bytes, self.any_chunks.value_us) * self.busbw_factor)

    def figures(self) -> dict[str, object]:
        """Plain values, in units by their keys."""
        witness = self.witness
        return {
            "collective": self.collective,
            "size_bytes": self.size_bytes,
            "lower_bound_us": None if self.bound is None else self.bound.value_us,
            "any_chunks_bound_us": None if self.any_chunks is None else self.any_chunks.value_us,
            "busbw_gbps": self.busbw_gbps,
            "limit": self.limit,
            "witness": None if witness is None else witness.witness,
            "remedy": None if witness is None else witness.remedy,
            "reason": self.reason or None,
        }


#: What people read of a bound.
_HEADER = ("size", "collective", "bound (us)", "any cutting (us)", "limit", "why no schedule is faster")


@dataclass(frozen=True, eq=False)
class MachineCheck(Reported):
    """A machine, what is odd about it, and its bounds.

    Parameters
    ----------
    anomalies : what is not as its siblings are; the first is that ranks have no way to each other.
    bounds : for each size each collective; none where ranks have no way to each other.
    """

    machine: PhysicalTopology
    anomalies: tuple[Anomaly, ...]
    bounds: tuple[MachineBound, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether each rank has a way to each."""
        return all(anomaly.kind != "no way" for anomaly in self.anomalies)

    def report(self) -> Report:
        """The check as figures, one row per bound, and a table."""
        rows = [bound.figures() for bound in self.bounds]
        figures = {
            "name": self.machine.name,
            "nodes": self.machine.num_nodes,
            "ranks": self.machine.num_members,
            "helpers": [helper.name for helper in self.machine.gpus[self.machine.num_members :]],
            "is_whole": self.is_whole,
            "anomalies": [
                {
                    "kind": anomaly.kind,
                    "devices": list(anomaly.devices),
                    "message": anomaly.message,
                    "hint": anomaly.hint,
                }
                for anomaly in self.anomalies
            ],
            "bounds": rows,
            "notes": list(self.notes),
        }
        cells = [
            (
                *(units.format_size(each.size_bytes), each.collective),
                *(_microseconds(each.bound), _microseconds(each.any_chunks), each.limit or ""),
                each.why,
            )
            for each in self.bounds
        ]
        table = Table(f"{self.machine.name}: {len(self.anomalies)} anomalies", cells, _HEADER)
        return Report("taccl.topology.check/1", figures, list(rows[0]) if rows else (), rows, table)


def check_machine(
    topology: str | Path | PhysicalTopology,
    *,
    nodes: int | None = None,
    profile: str | Path | None = None,
    occupancy: Occupancy | None = None,
    without: str | Sequence[str] | None = None,
    sizes: Sequence[str | int] = SIZES,
    time_limit: float = 20.0,
) -> MachineCheck:
    """What is odd about a machine, and at each size what no schedule of the four collectives can beat.

    Parameters
    ----------
    topology : a name of the catalogue, a YAML file, or a machine.
    nodes, profile, occupancy, without : as in `taccl.Request`.
    sizes : what nccl-tests prints as size.
    time_limit : seconds for all; bounds that would come later are left out, with a note.

    Raises
    ------
    TacclError : the machine, a size or the time limit cannot be understood, or there are too many routes.
    """
    began_s = time.monotonic()
    end_s = began_s + check_time_limit(time_limit, example="20")
    sizes_bytes = [units.parse_size(size) for size in sizes]
    machine = choose_topology(topology, nodes=nodes, profile=profile, occupancy=occupancy, without=without)
    check_pairs(machine)
    found = anomalies(machine)
    requested = [(size, collective) for size in sizes_bytes for collective in COLLECTIVES]
    network = network_in_time(machine, began_s + SHARE_OF_PATHS * time_limit)
    links = (
        np.nonzero(may_reach(machine)) if network is None else (network.topology.src, network.topology.dst)
    )
    apart = _apart(machine, *links)
    if apart is not None:
        return MachineCheck(machine, (apart, *found), (), ("no bounds: ranks have no way to each other",))
    if network is None:
        bounds = tuple(MachineBound(name, size, reason=_LATE) for size, name in requested)
    else:
        bounds = tuple(_bounds(machine, network, requested, end_s))
    late = sum(bound.reason == _LATE for bound in bounds)
    notes = (f"{late} of {len(bounds)} bounds were left out: {time_limit:g} s were over",) if late else ()
    return MachineCheck(machine, found, bounds, notes)


_LATE = "not within the time limit"
#: Of the time limit: a network is built of paths in about as long as they are found, and not by halves.
SHARE_OF_PATHS = 0.4


def network_in_time(machine: PhysicalTopology, end_s: float) -> SketchedNetwork | None:
    """The network of all links; None where the paths that it is made of are not found in time."""
    for rank in range(machine.num_ranks):
        if time.monotonic() > end_s:
            return None
        machine.paths_from(rank)  # the machine remembers them
    return sketched(None, machine)


def _bounds(
    machine: PhysicalTopology, network: SketchedNetwork, requested: Sequence[tuple[int, str]], end_s: float
) -> Iterator[MachineBound]:
    """Each with its share of the time that is left."""
    networks = {machine.num_helpers: network}
    for done, (size, name) in enumerate(requested):
        left_s = end_s - time.monotonic()
        if left_s <= 0:
            yield MachineBound(name, size, reason=_LATE)
            continue
        try:
            collective = make_collective(name, machine.num_members, 1, None)
            used = as_used_by(machine, collective)
            collective = collective.with_helpers(used.num_helpers)
            bytes_each = chunk_bytes(collective.chunks_per_size, size)
            if used.num_helpers not in networks:
                networks[used.num_helpers] = sketched(None, used)
            problem = networks[used.num_helpers].applied(collective, bytes_each / units.MB).problem
            proved = _proofs(Instance(problem), Budget(left_s / (len(requested) - done)))
        except TacclError as failure:
            yield MachineBound(name, size, reason=failure.message)
            continue
        factor, reason = collective.busbw_factor, "" if proved else _LATE
        yield MachineBound(name, problem.size_bytes, factor, proved, reason)


def _proofs(instance: Instance, budget: Budget) -> tuple[Proof, ...]:
    """What is proved within the budget, largest first; what holds for any cutting is requested first."""
    bounds = known_bounds()
    quick = [bound for bound in bounds if bound.is_quick]
    proved = [*proofs(instance, budget, quick, any_chunks=True), *proofs(instance, budget, bounds)]
    return tuple(sorted(proved, key=lambda proof: -proof.value_us))


def _apart(machine: PhysicalTopology, src: IntArray, dst: IntArray) -> Anomaly | None:
    """The parts that ranks fall into when each rank of a part has a way to each; None where it is one."""
    ranks = machine.num_ranks
    links = coo_array((np.ones(len(src)), (src, dst)), shape=(ranks, ranks))
    count, part_of = connected_components(links, directed=True, connection="strong")
    if count == 1:
        return None
    parts = [[machine.gpus[rank].name for rank in np.flatnonzero(part_of == part)] for part in range(count)]
    parts.sort(key=lambda part: (-len(part), part))
    reported = few(map(named, parts), 4, "; ")
    return Anomaly(
        "no way",
        tuple(name for part in parts[1:] for name in part),
        f"the GPUs fall into {count} parts without a way there and back: {reported}",
        "links, a switch or a fabric that is missing",
    )


def _microseconds(proof: Proof | None) -> str:
    return "" if proof is None else f"{proof.value_us:.2f}"
