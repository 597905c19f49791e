"""What a library's own rings and trees take on a machine, by links alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taccl.analysis.any_cutting import any_cutting_bounds
from taccl.api import make_problem
from taccl.backend.graphs.document import Graphs
from taccl.backend.graphs.found import GraphsDocument
from taccl.backend.graphs.programs import Channels, graphs_in
from taccl.backend.graphs.read_environment import is_environment, read_environment
from taccl.backend.graphs.read_graph_file import is_graph_file, read_graph_file
from taccl.backend.simulate.settings import SimulationSettings
from taccl.errors import TacclError, TopologyError
from taccl.model import units
from taccl.model.network import LogicalTopology
from taccl.support.budget import Budget, check_time_limit
from taccl.support.reading import bytes_of
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.inputs import choose_topology
from taccl.synthesis.search import relative_gap
from taccl.topologies import PhysicalTopology

_HEADER = ("size", "graphs", "time(us)", "bound(us)", "gap", "algbw(GB/s)", "busbw(GB/s)")
_COLUMNS = ("size_bytes", "algorithm", "chunks_per_rank", "time_us", "lower_bound_us", "gap", "algbw_gbps")
_NOTE = "links alone: the library's protocols and launches take time of their own"
#: Pieces of a share that follow each other: a library takes small ones of large calls, so the best is taken.
_PIECES = {"ring": (1,), "tree": (1, 8, 64)}


@dataclass(frozen=True)
class GraphTime:
    """What AllReduce takes through a graph of a file at one size; no algorithm takes less than `bound_us`."""

    graphs: Graphs
    size_bytes: int
    chunks: int
    time_us: float
    bound_us: float

    def figures(self) -> dict[str, object]:
        """Plain values, as of the algorithms of libraries."""
        return {
            "size_bytes": self.size_bytes,
            "algorithm": self.graphs.name,
            "chunks_per_rank": max(1, self.chunks // self.graphs.num_ranks),
            "time_us": self.time_us,
            "lower_bound_us": self.bound_us,
            "gap": relative_gap(self.time_us, self.bound_us),
            "algbw_gbps": finite(units.bandwidth_gbps(self.size_bytes, self.time_us)),
        }

    def cells(self) -> tuple[str, ...]:
        """The same as people read them."""
        gbps, ranks = units.bandwidth_gbps(self.size_bytes, self.time_us), self.graphs.num_ranks
        return (
            *(units.format_size(self.size_bytes), self.graphs.name, f"{self.time_us:.2f}"),
            *(f"{self.bound_us:.2f}", f"{100 * relative_gap(self.time_us, self.bound_us):.1f}%"),
            *(f"{gbps:.2f}", f"{gbps * 2 * (ranks - 1) / ranks:.2f}"),
        )


@dataclass(frozen=True, eq=False)
class GraphBaseline(Reported):
    """The times of all graphs of a file, by size.

    Parameters
    ----------
    notes : what the times leave out.
    """

    machine: PhysicalTopology
    times: tuple[GraphTime, ...]
    notes: tuple[str, ...] = (_NOTE,)

    def report(self) -> Report:
        """One row for each size and graph, and a table."""
        rows = [each.figures() for each in self.times]
        figures = {
            "collective": "allreduce",
            "topology": self.machine.name,
            "ranks": self.machine.num_members,
            "algorithms": rows,
            "notes": list(self.notes),
        }
        title = f"allreduce on {self.machine.name} through the graphs of the file, links alone"
        table = Table(title, [each.cells() for each in self.times], _HEADER)
        return Report("taccl.baseline.library/1", figures, _COLUMNS, rows, table)


def graph_baseline(
    path: str | Path,
    *,
    topology: str | Path | PhysicalTopology,
    nodes: int | None = None,
    without: str | Sequence[str] | None = None,
    sizes: Sequence[str | int] = ("1KB", "64KB", "1MB", "16MB", "256MB", "1GB"),
    time_limit: float = 20.0,
) -> GraphBaseline:
    """What AllReduce takes through each graph of a file, next to a bound for any algorithm.

    Parameters
    ----------
    path : what NCCL dumped (NCCL_GRAPH_DUMP_FILE), a file for NCCL_GRAPH_FILE, or lines with RCCL_TREES or
        NCCL_RINGS.
    topology, nodes, without : as in `taccl.baseline`; the machine has one node.
    time_limit : seconds for the bounds; those that would come later are 0.

    Raises
    ------
    VerificationError : the file is not right.
    TacclError : it is no such file, or one of several nodes; or a machine or a size is wrong.
    TopologyError : the machine has another number of GPUs, or lacks a link of a graph.
    """
    found = graphs_in(_document(path))
    machine = choose_topology(choose_topology(topology, nodes=nodes), without=without)
    ranks = found[0].num_ranks
    if (machine.num_members, machine.num_nodes) != (ranks, 1):
        of = f"{machine.num_members} GPUs on {machine.num_nodes} nodes"
        raise TopologyError(
            f"the graphs are of {ranks} GPUs of one node, and {machine.name} has {of}", hint="--nodes 1"
        )
    sizes_bytes = [units.parse_size(size) for size in sizes]
    budget = Budget(check_time_limit(time_limit, example="20"))
    stated = make_problem("allreduce", topology=machine, size=max(*sizes_bytes, ranks), executor=False)
    network = stated.problem.topology
    bounds = any_cutting_bounds(machine, "allreduce", sizes_bytes, budget)
    times = []
    for size, bound in zip(sizes_bytes, bounds, strict=True):
        least = 0.0 if bound is None else bound.value_us
        for graphs in found:
            time_us, chunks = _fastest(graphs, network, size)
            times.append(GraphTime(graphs, size, chunks, time_us, least))
    return GraphBaseline(machine, tuple(times))


def _fastest(graphs: Graphs, network: LogicalTopology, size_bytes: int) -> tuple[float, int]:
    """The time by the best number of pieces, and the chunks of the call then."""
    runs = []
    for pieces in _PIECES[graphs.shape]:
        file = Channels.of_graphs(graphs, pieces)
        simulated = file.simulate(network, size_bytes / units.MB / file.chunks, SimulationSettings())
        runs.append((simulated.time_us, file.chunks))
    return min(runs)


def _document(path: str | Path) -> GraphsDocument:
    content = bytes_of(path)
    if is_environment(content):
        return read_environment(content, str(path))
    if is_graph_file(content):
        return read_graph_file(content, str(path))
    raise TacclError(
        "is no file of rings or trees", path=path, hint="what NCCL_GRAPH_DUMP_FILE names, or RCCL_TREES='...'"
    )
