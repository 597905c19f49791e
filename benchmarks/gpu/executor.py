"""A machine whose executor costs what thread blocks of its GPUs were measured to take.

    python -m benchmarks.gpu.executor gpu.csv --topology h100 [--runtime mscclpp] [--graph] -o measured.yaml

gpu.csv is of `python -m benchmarks.gpu.measure`. What a GPU does by itself replaces the numbers of the
machine's `executor:`, or of the defaults of its GPUs with that runtime. The rest stays: pieces and slots,
which are the runtime's, and LL128. What interpreting a program adds, only times of programs tell
(`taccl probe`).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares, nnls

from taccl.errors import TacclError, TopologyError
from taccl.model.executor import (
    MAX_SHARPNESS,
    RUNTIME_NAMES,
    Executor,
    ProtocolCosts,
    ProtocolName,
    RuntimeName,
)
from taccl.model.network import FloatArray
from taccl.topologies import PhysicalTopology, load_topology
from taccl.topologies.as_yaml import topology_text
from taccl.topologies.executors.defaults import as_executed

#: Operation by protocol.
SENDS = {"Simple": "copy", "LL": "packets"}


@dataclass(frozen=True)
class Row:
    """A measured time.

    Parameters
    ----------
    operation, place, blocks, slices : as `blocks.cu` says.
    bytes : that all thread blocks move together, in all slices; of a sum, of each source.
    time_us : of a call (launch, graph), a way (bounce) or a pass without its launch.
    """

    gpu: str
    multiprocessors: int
    operation: str
    place: str
    blocks: int
    bytes: int
    slices: int
    time_us: float


@dataclass(frozen=True)
class Pace:
    """Of one thread block: what each slice takes, us, and its bytes, GB/s."""

    slice_us: float
    gbps: float


@dataclass(frozen=True)
class Crowd:
    """Of many thread blocks: what each moves, GB/s, and how sharply speed stops growing with their number."""

    block_gbps: float
    sharpness: float


class Measured:
    """The rows of a file, by what they are of.

    Raises
    ------
    TopologyError : no such row, or several GPUs.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        if len({(row.gpu, row.multiprocessors) for row in rows}) != 1:
            raise TopologyError("the rows are not of one model of GPU", hint="one file for each machine")
        self.gpu, self.multiprocessors = rows[0].gpu, rows[0].multiprocessors
        self.has_peer = any(row.place == "peer" for row in rows)
        #: From whom to whom a send goes: inside one GPU where there was no other.
        self.way = "peer" if self.has_peer else "local"

    def of(self, operation: str, place: str) -> list[Row]:
        """Its rows."""
        found = [row for row in self._rows if (row.operation, row.place) == (operation, place)]
        if not found:
            raise TopologyError(f"no row is of {operation}, {place}", hint="blocks.cu writes all of them")
        return found

    def launch_us(self, operation: str) -> float:
        """What a call takes before anything moves, with one thread block: `launch`, or `graph`."""
        return min(self.of(operation, "local"), key=lambda row: row.blocks).time_us

    def pace(self, operation: str, place: str, sources: int = 1) -> Pace:
        """Slices and bytes of one thread block: least relative squares, neither below 0."""
        rows = [row for row in self.of(operation, place) if row.blocks == 1]
        terms = np.array([(row.slices, sources * row.bytes / 1e3) for row in rows])
        times = np.array([row.time_us for row in rows])
        (slice_us, us_per_kb), _ = nnls(terms / times[:, None], np.ones(len(rows)))
        if us_per_kb == 0:
            raise TopologyError(f"times of {operation}, {place} do not grow with the bytes")
        return Pace(float(slice_us), float(1 / us_per_kb))

    def crowd(self, operation: str, place: str) -> Crowd:
        """How speed grows with the number of thread blocks, at the most bytes that each moved.

        A byte takes one of k thread blocks (g**p + s**p) ** (1/p), as an executor's `link_sharpness` says; g
        is its own pace and s its share of what all move at most.
        """
        slice_us = self.pace(operation, place).slice_us
        rows = {row.blocks: row for row in sorted(self.of(operation, place), key=lambda row: row.bytes)}
        blocks = np.array(list(rows))
        gbps = np.array([row.bytes / (row.time_us - row.slices * slice_us) / 1e3 for row in rows.values()])

        def misses(logs: FloatArray) -> FloatArray:
            block, most, power = np.exp(logs)
            inverse = np.logaddexp(-power * np.log(block * blocks), -power * np.log(most)) / power
            return np.asarray(-inverse - np.log(gbps))

        begin = np.log([gbps[blocks.argmin()] / blocks.min(), gbps.max(), 4.0])
        found = least_squares(misses, begin, bounds=([-20, -20, 0], [20, 20, np.log(MAX_SHARPNESS)])).x
        block, _, power = np.exp(found)
        return Crowd(float(block), float(power))

    def executor(self, before: Executor, link_alpha_us: float, call: str = "launch") -> Executor:
        """What executing costs, where it was measured; the rest as before.

        Parameters
        ----------
        link_alpha_us : alpha of the link between two GPUs, which the time of a flag holds, too.
        call : `launch`, or `graph` where calls are launched so.
        """
        launch_us = _rounded(self.launch_us(call))
        hop_us = _rounded(max(0.0, self.of("bounce", self.way)[0].time_us - link_alpha_us))
        copies, sums = self.pace("copy", "local"), self.pace("sum", "local", sources=2)
        protocols = {
            name: self._sent(name, costs, launch_us, hop_us) if name in SENDS else costs
            for name, costs in before.protocols.items()
        }
        sharpness = before.link_sharpness
        if self.has_peer:
            sharpness = _rounded(self.crowd("copy", "peer").sharpness)
        return replace(
            before,
            protocols=protocols,
            reduce_us=_rounded(sums.slice_us),
            reduce_gbps=_rounded(sums.gbps),
            copy_us=_rounded(copies.slice_us),
            copy_gbps=_rounded(copies.gbps),
            thread_blocks=min(before.thread_blocks or self.multiprocessors, self.multiprocessors),
            link_sharpness=sharpness,
            origin=None,
        )

    def _sent(
        self, name: ProtocolName, costs: ProtocolCosts, launch_us: float, hop_us: float
    ) -> ProtocolCosts:
        pace = self.pace(SENDS[name], self.way)
        return replace(
            costs,
            launch_us=launch_us,
            hop_us=hop_us,
            slice_us=_rounded(pace.slice_us),
            block_gbps=_rounded(pace.gbps),
        )

    def remarks(self) -> Iterator[str]:
        """What else the rows say of the machine's links and switch, a line each."""
        for operation, place in dict.fromkeys((row.operation, row.place) for row in self._rows):
            if operation in ("copy", "sum", "packets"):
                block = f"{self.crowd(operation, place).block_gbps:.3g}"
                most = max(row.bytes / row.time_us / 1e3 for row in self.of(operation, place))
                yield f"{operation}, {place}: {block} GB/s a thread block, all at most {most:.3g}"
        if not self.has_peer:
            yield "sends were measured inside one GPU: there was no second one that it reaches"


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of `measure`.

    Raises
    ------
    TopologyError : what is no such row, with its line.
    """
    rows = []
    with path.open(newline="") as file:
        for line, each in enumerate(csv.DictReader(file), start=2):
            try:
                row = Row(
                    each["gpu"],
                    int(each["multiprocessors"]),
                    each["operation"],
                    each["place"],
                    int(each["blocks"]),
                    int(each["bytes"]),
                    int(each["slices"]),
                    float(each["time_us"]),
                )
            except (KeyError, TypeError, ValueError):
                raise TopologyError("not a row of benchmarks.gpu.measure", path=path, line=line) from None
            if not (row.time_us > 0 and row.blocks > 0 and row.bytes >= 0 and row.multiprocessors > 0):
                raise TopologyError("a measured time and its sizes are above 0", path=path, line=line)
            rows.append(row)
    if not rows:
        raise TopologyError("no measured times", path=path)
    return rows


def machine_of(
    measured: Measured, machine: PhysicalTopology, runtime: RuntimeName, call: str
) -> PhysicalTopology:
    """The machine with the measured executor in place of its own, or of its GPUs' defaults.

    Raises
    ------
    TopologyError : neither is known; rows are missing.
    """
    before = as_executed(machine, True, runtime).executor
    assert before is not None, "or it was refused"
    path = machine.path(0, 1) if machine.num_ranks > 1 else None
    alpha_us = 0.0 if path is None else path.alpha_us
    return replace(machine, executor=measured.executor(before, alpha_us, call))


def main() -> None:
    """Write the machine and say what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=Path, help="of python -m benchmarks.gpu.measure")
    parser.add_argument("--topology", required=True, help="a machine of the catalogue, or its file")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--runtime", choices=RUNTIME_NAMES, default="mscclpp")
    parser.add_argument("--graph", action="store_true", help="calls are launched as graphs")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        measured = Measured(read_rows(arguments.rows))
        base = load_topology(arguments.topology, arguments.nodes)
        machine = machine_of(measured, base, arguments.runtime, "graph" if arguments.graph else "launch")
        source = f"executor: {measured.gpu} in {arguments.rows.name}, by benchmarks/gpu"
        text = topology_text(machine, [source, *measured.remarks()])
    except (TacclError, OSError) as fault:
        parser.exit(2, f"{fault}\n")
    arguments.output.write_text(text)
    print("\n".join(measured.remarks()))


if __name__ == "__main__":
    main()
