"""What a benchmark measured: sweeps over sizes and matrices over pairs, each with the lines that tell it.

The noun of this room: readers make it and fits read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from taccl.model.units import MAX_SIZE_BYTES, MAX_TIME_US

#: What the time of a message contains. `one way`: from send to receive. `launched`: also what a call costs
#: before anything moves. `back to back`: from one message to the next while many are under way.
Timing = Literal["one way", "launched", "back to back"]
#: Whom a measurement joins: GPUs of one node, nodes, or both kinds of pairs at once.
Scope = Literal["gpus", "nodes", "mixed"]


@dataclass(frozen=True)
class Point:
    """One measured time.

    Parameters
    ----------
    size_bytes : of one message.
    time_us : microseconds for it.
    line : of the file, from 1.
    in_place : whether it is of calls in place; None where the file does not tell.
    wrong : how many values the tool found wrong; None: it compared none.
    """

    size_bytes: int
    time_us: float
    line: int
    in_place: bool | None = None
    wrong: int | None = None


@dataclass(frozen=True)
class Sweep:
    """Times of messages of many sizes between the same ends.

    Parameters
    ----------
    path, line : where its table begins.
    tool, test : `nccl-tests`, `sendrecv`.
    points : in the order of the file; a size may stand several times, as repeats.
    timing : what a time contains.
    scope : whom it joins; None where the file does not tell.
    pairs : how many pairs were busy at once.
    collective : its name, where the times are of a whole collective and not of one message.
    ranks : that took part; None where the file does not tell.
    busbw_gbps : the largest bus bandwidth that the tool printed of a collective, and its size in bytes.
    fault : why the times must not be used, with its line; None if they may.
    notes : what a reader must know, in sentences.
    """

    path: str | None
    line: int
    tool: str
    test: str
    points: tuple[Point, ...]
    timing: Timing
    scope: Scope | None = None
    pairs: int = 1
    collective: str | None = None
    ranks: int | None = None
    busbw_gbps: tuple[float, int] | None = None
    fault: tuple[str, int] | None = None
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.path or '<text>'}:{self.line}"


#: What the cells of a matrix are: GB/s (10^9) or microseconds.
Quantity = Literal["bandwidth_gbps", "latency_us"]
#: No message takes less than these microseconds, even in a stream of them.
_LEAST_US = 1e-4
#: The least and the most that a cell can be, in its unit.
_CELLS: dict[Quantity, tuple[float, float]] = {"bandwidth_gbps": (1e-4, 1e6), "latency_us": (1e-4, 1e9)}
#: Which devices its rows and columns are; `gpu totals` has one row, each GPU with all others at once;
#: `rank to rank` are ranks of different nodes.
Ends = Literal["gpu to gpu", "host to gpu", "gpu to host", "gpu totals", "rank to rank"]


@dataclass(frozen=True)
class Matrix:
    """Bandwidths or latencies of pairs of devices.

    Parameters
    ----------
    path, line : where the matrix begins.
    tool, test : `nvbandwidth`, `device_to_device_memcpy_read_ce`.
    quantity, ends : what the cells are.
    sources, targets : the numbers of the devices; data goes from a source to a target.
    cells : shape (sources, targets), None where the tool has none, and for a GPU with itself.
    both_ways : data went both directions at once. `sums_ways`: a cell then counts both of them.
    peer : whether GPUs reached each other's memory directly; None where the tool does not say.
    at_once : all cells of a row were measured at the same time.
    size_bytes : of one copy, where it is known.
    runs : how many runs its cells are the medians of.
    """

    path: str | None
    line: int
    tool: str
    test: str
    quantity: Quantity
    ends: Ends
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    cells: tuple[tuple[float | None, ...], ...]
    both_directions: bool = False
    sums_directions: bool = False
    peer: bool | None = None
    at_once: bool = False
    size_bytes: int | None = None
    runs: int = 1

    @property
    def place(self) -> str:
        return f"{self.path or '<text>'}:{self.line}"

    def pairs(self) -> dict[tuple[int, int], float]:
        """(source, target) -> value, for the cells that have one."""
        return {
            (source, target): value
            for source, row in zip(self.sources, self.cells, strict=True)
            for target, value in zip(self.targets, row, strict=True)
            if value is not None
        }


@dataclass(frozen=True)
class Measured:
    """All that one file tells, or several together.

    Parameters
    ----------
    formats : the names of the formats that were read.
    sweeps, matrices : in the order of the files.
    warnings : what was damaged or left out, each with its file and line.
    """

    formats: tuple[str, ...]
    sweeps: tuple[Sweep, ...] = ()
    matrices: tuple[Matrix, ...] = ()
    warnings: tuple[str, ...] = ()


def plausible(measured: Measured) -> Measured:
    """The same without times and cells that nothing can take or move: slips and damaged pastes."""
    warnings = list(measured.warnings)
    sweeps = []
    for sweep in measured.sweeps:
        points = []
        for point in sweep.points:
            if point.size_bytes <= MAX_SIZE_BYTES and _LEAST_US <= point.time_us <= MAX_TIME_US:
                points.append(point)
            else:
                where = f"{sweep.path or '<text>'}:{point.line}"
                warnings.append(f"{where}: {point.time_us:.4g} us for {point.size_bytes} bytes is left out")
        sweeps.append(replace(sweep, points=tuple(points)))
    matrices = []
    for matrix in measured.matrices:
        least, most = _CELLS[matrix.quantity]
        cells = tuple(
            tuple(cell if cell is not None and least <= cell <= most else None for cell in row)
            for row in matrix.cells
        )
        lost = sum(cell is not None for row in matrix.cells for cell in row)
        lost -= sum(cell is not None for row in cells for cell in row)
        if lost:
            warnings.append(f"{matrix.place}: {lost} cell(s) that no device reaches are left out")
        matrices.append(replace(matrix, cells=cells))
    kept = tuple(sweep for sweep in sweeps if sweep.points)
    return replace(measured, sweeps=kept, matrices=tuple(matrices), warnings=tuple(warnings))


def together(several: Iterable[Measured]) -> Measured:
    """What several files tell, as one."""
    files = tuple(several)
    return Measured(
        tuple(dict.fromkeys(name for file in files for name in file.formats)),
        tuple(sweep for file in files for sweep in file.sweeps),
        tuple(matrix for file in files for matrix in file.matrices),
        tuple(warning for file in files for warning in file.warnings),
    )
