"""What NCCL or RCCL would pick for a collective on a machine, next to what no schedule can beat there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from taccl.analysis.any_cutting import any_cutting_bounds
from taccl.analysis.baseline_size import BaselineSize, measured_at
from taccl.analysis.baselines import rccl
from taccl.analysis.baselines.nccl import (
    Choice,
    Communicator,
    Release,
    choice,
    communicator_of,
    release_named,
)
from taccl.analysis.baselines.nccl.communicator import Algorithm, Cpu
from taccl.analysis.baselines.nccl.deviations import near
from taccl.analysis.baselines.nccl.model import POINT_TO_POINT
from taccl.encoding.bounds import Proof
from taccl.errors import CollectiveError, TacclError, UnitError
from taccl.model import units
from taccl.model.collective import busbw_factor
from taccl.model.collectives import COLLECTIVES, plain_name
from taccl.support.arguments import shown, word
from taccl.support.budget import Budget, check_time_limit
from taccl.support.report import Report, Reported, Table
from taccl.synthesis.inputs import choose_topology
from taccl.topologies import PhysicalTopology

Library = Literal["nccl", "rccl"]
LIBRARIES: tuple[Library, ...] = get_args(Library)
#: From small messages to large ones.
SIZES = ("1KB", "64KB", "1MB", "16MB", "256MB", "1GB")

#: What sums in a switch.
_NVLS = ("NVLS", "NVLSTree")
#: What is picked where the library sends from point to point.
_SENDS = "Send/Recv"
_COLUMNS = (
    *("size_bytes", "pick", "time_us", "algbw_gbps", "busbw_gbps", "runner_up", "runner_up_us"),
    *("lower_bound_us", "least_measured_us", "most_measured_us", "least_ratio", "most_ratio"),
)
_NAMES = {"nccl": "NCCL", "rccl": "RCCL"}


@dataclass(frozen=True, eq=False)
class Baseline(Reported):
    """What a library picks at each size.

    Parameters
    ----------
    gpu : the model of the GPUs.
    release : of NCCL's constants; None: RCCL.
    comm : NCCL's view of the machine; None: RCCL.
    sizes : in the order requested.
    notes : what the estimates leave out, and what was assumed.
    """

    library: Library
    collective: str
    machine: PhysicalTopology
    gpu: str | None
    release: Release | None
    comm: Communicator | None
    sizes: tuple[BaselineSize, ...]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """The library, the collective and the machine with its graphs."""
        ranks, nodes = self.machine.num_members, self.machine.num_nodes
        release = "" if self.release is None else f" {self.release.name}"
        where = f"{ranks} ranks on {nodes} node{'s' if nodes > 1 else ''} of {self.machine.name}"
        graphs = "" if self.comm is None else f" ({_graphs(self.comm)})"
        return f"{_NAMES[self.library]}{release}, {self.collective}, {where}{graphs}"

    @property
    def bound_says(self) -> str:
        """Of which machine the bounds speak."""
        return "with in-switch sums" if self.machine.num_helpers else "without in-switch sums"

    def report(self) -> Report:
        """The picks as figures, one row per size, and a table."""
        rows = [each.figures() for each in self.sizes]
        figures = {
            "library": self.library,
            "release": None if self.release is None else self.release.name,
            "source": None if self.release is None else self.release.source,
            "collective": self.collective,
            "topology": self.machine.name,
            "gpu": self.gpu,
            "generation": None if self.comm is None else self.comm.generation,
            "ranks": self.machine.num_members,
            "nodes": self.machine.num_nodes,
            "graphs": []
            if self.comm is None
            else [_graph_figures(self.comm, name) for name in self.comm.graphs],
            "bound_of": self.bound_says,
            "sizes": rows,
            "notes": list(self.notes),
        }
        table = Table(self.title, [each.cells() for each in self.sizes], BaselineSize.HEADER)
        return Report("taccl.baseline/1", figures, _COLUMNS, rows, table)


def _graphs(comm: Communicator) -> str:
    """Such as `Ring 12 x 30 GB/s, Tree 12 x 30, NVLS 8 x 40`."""
    found = [
        f"{name} {graph.channels} x {graph.gbps:g}{' GB/s' if name == 'Ring' else ''}"
        for name, graph in comm.graphs.items()
        if name not in ("PAT", "NVLSTree")
    ]
    return ", ".join(found)


def _graph_figures(comm: Communicator, name: Algorithm) -> dict[str, object]:
    graph = comm.graphs[name]
    return {
        "algorithm": name,
        "channels": graph.channels,
        "channel_gbps": graph.gbps,
        "channel_between_gbps": graph.between_gbps,
    }


def baseline(
    collective: str = "allreduce",
    *,
    topology: str | Path | PhysicalTopology,
    library: Library = "nccl",
    nodes: int | None = None,
    without: str | Sequence[str] | None = None,
    sizes: Sequence[str | int] = SIZES,
    gpu: str | None = None,
    cpu: Cpu | None = None,
    nic_latency_us: float = 0.0,
    release: str = "2.30",
    time_limit: float = 20.0,
) -> Baseline:
    """What NCCL or RCCL picks for a collective, at each size.

    NCCL's pick comes with its own estimate of the time; RCCL's does not, since its numbers choose and do not
    predict. Beside it stands a proved lower bound that holds however finely the size is cut.

    Parameters
    ----------
    topology, nodes, without : as in `taccl.Request`. Without its NVSwitch's sums a machine has no NVLS.
    sizes : what nccl-tests prints as size.
    gpu : the model of the GPUs, where the machine does not say.
    cpu : `intel`, `amd` or `arm`: with several nodes NCCL's numbers depend on it; None: `arm` with GH200,
        GB200 and GB300, else `intel`.
    nic_latency_us : what the network's plugin states as its latency; InfiniBand states 0.
    release : of NCCL.
    time_limit : seconds for the bounds; those that would come later are left out, with a note.

    Raises
    ------
    TopologyError : GPUs that are not known, or not the library's; a machine that its model cannot take.
    CollectiveError : a collective that the library lacks.
    TacclError : a size, a release or a time limit that cannot be understood.
    """
    word(library, "library", LIBRARIES, TacclError)
    if library == "rccl" and (cpu is not None or nic_latency_us):
        raise TacclError("RCCL's choice does not depend on CPUs and NICs here", hint="leave both out")
    name = plain_name(collective) if isinstance(collective, str) else ""
    if name not in COLLECTIVES:
        raise CollectiveError(
            f"unknown collective {shown(collective)}", hint="one of " + ", ".join(COLLECTIVES)
        )
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise UnitError(f"sizes must be a list of sizes, not {shown(sizes)}", hint='["1MB", "64MB"]')
    sizes_bytes = [units.parse_size(size) for size in sizes]
    budget = Budget(check_time_limit(time_limit, example="20"))
    whole = choose_topology(topology, nodes=nodes)
    machine = choose_topology(whole, without=without)
    numbers = None if library == "rccl" else release_named(release)
    comm = (
        None if numbers is None else communicator_of(machine, gpu=gpu, cpu=cpu, nic_latency_us=nic_latency_us)
    )
    if comm is not None and machine.num_helpers < whole.num_helpers:
        comm = replace(comm, graphs={name: comm.graphs[name] for name in comm.graphs if name not in _NVLS})
    picks = [_pick(machine, name, size, numbers, comm, gpu) for size in sizes_bytes]
    proved = any_cutting_bounds(machine, name, sizes_bytes, budget)
    found = tuple(
        _at_size(machine, name, size, pick, _ratios(numbers, comm, name, size), bound)
        for size, pick, bound in zip(sizes_bytes, picks, proved, strict=True)
    )
    late = budget.remaining_s() <= 0
    notes = tuple(_notes(machine, name, library, comm, found, late=late))
    return Baseline(library, name, machine, gpu or machine.gpu, numbers, comm, found, notes)


def _pick(
    machine: PhysicalTopology,
    collective: str,
    size_bytes: int,
    release: Release | None,
    comm: Communicator | None,
    gpu: str | None,
) -> Choice | str:
    if release is None or comm is None:
        return rccl.choice(machine, collective, size_bytes, gpu=gpu)
    return _SENDS if collective in POINT_TO_POINT else choice(release, comm, collective, size_bytes)


def _at_size(
    machine: PhysicalTopology,
    collective: str,
    size_bytes: int,
    pick: Choice | str,
    ratios: tuple[float, ...],
    bound: Proof | None,
) -> BaselineSize:
    first = pick.pick if isinstance(pick, Choice) else None
    second = pick.runner_up if isinstance(pick, Choice) else None
    return BaselineSize(
        size_bytes=size_bytes,
        busbw_factor=busbw_factor(collective, machine.num_members),
        pick=first.name if first is not None else str(pick),
        time_us=None if first is None else first.time_us,
        runner_up=None if second is None else second.name,
        runner_up_us=None if second is None else second.time_us,
        bound=bound,
        measured=measured_at(machine, collective, size_bytes, first.algorithm if first is not None else ""),
        ratios=ratios,
    )


def _ratios(
    release: Release | None, comm: Communicator | None, collective: str, size_bytes: int
) -> tuple[float, ...]:
    """Published measurements of NCCL over its estimates, at sizes near this one."""
    if release is None or comm is None:
        return ()
    return tuple(each.ratio for each in near(release, collective, size_bytes, comm.generation))


def _notes(
    machine: PhysicalTopology,
    collective: str,
    library: Library,
    comm: Communicator | None,
    found: Sequence[BaselineSize],
    *,
    late: bool,
) -> Iterator[str]:
    if comm is None:
        yield "RCCL's numbers choose and do not predict: no time is shown"
    elif collective in POINT_TO_POINT:
        yield f"NCCL has no model of {collective}, which it sends from point to point: no time is shown"
    else:
        yield "NCCL's own estimate, for sums of floats, without SHARP"
        yield "left out: NCCL_ALGO, NCCL_PROTO and tuner plugins of clouds, which override it"
    if comm is not None and comm.nodes > 1:
        yield f"CPUs of the nodes: {comm.cpu} (--cpu)"
    if comm is not None and comm.graphs["Ring"].hop == "NVLink" and _is_linked_directly(machine):
        yield "rings are taken to fill every link between GPUs; NCCL's search may find fewer"
    if any(each.is_below_bound for each in found):
        yield (
            "an estimate is below the bound: NCCL's model is too fast there"
            if machine.num_helpers
            else "an estimate is below the bound, which leaves out that NVLS sums in the switch"
        )
    if late:
        yield "some bounds were left out: the time limit was over"


def _is_linked_directly(machine: PhysicalTopology) -> bool:
    gpus = set(machine.rank_of)
    return any(link.src in gpus and link.dst in gpus for link in machine.links)
