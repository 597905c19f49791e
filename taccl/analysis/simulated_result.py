"""What a simulation of a file comes to: times at several sizes, each with its bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from taccl.backend.program import Protocol
from taccl.backend.simulate import Simulation
from taccl.backend.simulate.settings import Arbitration
from taccl.backend.simulate.simulated import Simulated
from taccl.backend.unfolded import Unfolded
from taccl.errors import TacclError, VerificationError
from taccl.model import units
from taccl.model.collective import Collective
from taccl.model.tolerance import contradicts
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.search import relative_gap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from taccl.model.schedule.plot import Lanes


@dataclass(frozen=True)
class SimulatedSize:
    """One run.

    Parameters
    ----------
    size_bytes : what nccl-tests prints as `size`.
    simulation : all that happened; where the machine has an executor, what that says.
    lower_bound_us, bound_source : no program with these chunks is faster on these links, and why; where the
        machine has an executor, none with this protocol and this many thread blocks. None: no bound holds for
        this file (`SimulatedFile.notes` says why).
    schedule_us : the time of the schedule that the program was made from, where one is known.
    """

    size_bytes: int
    simulation: Simulated
    lower_bound_us: float | None
    bound_source: str | None
    schedule_us: float | None
    busbw_factor: float

    @property
    def time_us(self) -> float:
        """When the last step is done, microseconds."""
        return self.simulation.time_us

    @property
    def gap(self) -> float | None:
        """(time - bound) / time, a fraction; None without a bound."""
        if self.lower_bound_us is None:
            return None
        return relative_gap(self.time_us, self.lower_bound_us)

    @property
    def algbw_gbps(self) -> float:
        """Size divided by time, 10**9 bytes per second."""
        return units.bandwidth_gbps(self.size_bytes, self.time_us)

    @property
    def busbw_gbps(self) -> float:
        """The algbw times nccl-tests' factor for the collective."""
        return self.algbw_gbps * self.busbw_factor

    @property
    def is_too_fast(self) -> bool:
        """Whether the time is below the bound, which no program that computes its collective is."""
        return self.lower_bound_us is not None and contradicts(self.lower_bound_us, self.time_us)

    @property
    def bound_words(self) -> tuple[str, str]:
        """The bound and the gap for a table; a dash for each where no bound holds."""
        if self.lower_bound_us is None or self.gap is None:
            return "-", "-"
        return f"{self.lower_bound_us:.2f}", f"{100 * self.gap:.2f}%"

    def without_bound(self) -> SimulatedSize:
        """The same where no bound holds for the file."""
        return replace(self, lower_bound_us=None, bound_source=None)

    def plot(self, by: Lanes = "link", ax: Axes | None = None) -> Axes:
        """Draw the timeline of its sends and its bound: see `Simulation.plot`.

        Raises
        ------
        TacclError : see `steps`.
        """
        return self.steps.plot(by, ax, lower_bound_us=self.lower_bound_us)

    @property
    def steps(self) -> Simulation:
        """When each step ran, by the costs of links alone.

        Raises
        ------
        TacclError : the run was predicted by the machine's executor, in which steps of many rounds overlap,
            or it is one of a one-sided plan (`simulation` has when its operations ran).
        """
        if isinstance(self.simulation, Simulation):
            return self.simulation
        raise TacclError(
            "no timeline of steps: it is a run of a one-sided plan, or the machine's executor predicts it",
            hint="simulate_file(..., links_only=True), or taccl show",
        )

    def figures(self) -> dict[str, object]:
        """All that is known, as plain values that JSON can hold; keys carry their units."""
        return {
            "size_bytes": self.size_bytes,
            "chunk_bytes": self.simulation.chunk_mb * units.MB,
            "time_us": self.time_us,
            "algbw_gbps": finite(self.algbw_gbps),
            "busbw_gbps": finite(self.busbw_gbps),
            "lower_bound_us": self.lower_bound_us,
            "bound_source": self.bound_source,
            "gap": self.gap,
            "schedule_time_us": self.schedule_us,
            "launch_us": self.simulation.launch_us,
            "rounds": self.simulation.rounds,
        }


@dataclass(frozen=True, eq=False)
class SimulatedFile(Reported):
    """A program, the collective that it is for (cut as it cuts), its runs, and what the user should know.

    `path`, `protocol`, `arbitration` : what was requested; a protocol of None is the file's own, without
    flags. `wrong` : what verification finds in a file that is faster than any that computes its collective.
    `sums_at` : where sums are made other than at GPUs (`PhysicalTopology.sums_for`).
    """

    program: Unfolded
    collective: Collective
    topology: str
    sizes: tuple[SimulatedSize, ...]
    notes: tuple[str, ...] = ()
    path: str | None = None
    protocol: Protocol | None = None
    arbitration: Arbitration = "urgent"
    wrong: tuple[str, ...] = ()
    sums_at: str = ""

    def check(self) -> None:
        """Raise unless the file may compute its collective.

        Raises
        ------
        VerificationError : it is faster than any file that does; with what verification finds.
        """
        if self.wrong:
            raise VerificationError(
                f"the file does not compute {self.collective.name}, so no bound holds for it",
                path=self.path,
                findings=list(self.wrong),
                hint="taccl verify says all that is wrong",
            )

    @property
    def is_executed(self) -> bool:
        """Whether the machine's executor predicts the times, and not its links alone."""
        return any(run.simulation.launch_us is not None for run in self.sizes)

    @property
    def protocol_name(self) -> str:
        """The protocol that was requested, else the file's own."""
        return self.program.protocol if self.protocol is None else self.protocol.value

    def report(self) -> Report:
        """The simulation as figures, one row per size, and a table."""
        rows = [run.figures() for run in self.sizes]
        figures = {
            "file": self.path,
            "collective": self.collective.name,
            "root": self.collective.root,
            "ranks": self.program.num_ranks,
            "topology": self.topology,
            "protocol": self.protocol_name,
            "protocol_overhead": any(run.simulation.counts_flags for run in self.sizes),
            "executor": self.is_executed,
            "arbitration": self.arbitration,
            "results": rows,
            "notes": list(self.notes),
        }
        header = ("size (B)", "time (us)", "bound (us)", "gap", "algbw (GB/s)", "busbw (GB/s)")
        cells = [
            (
                *(run.size_bytes, f"{run.time_us:.2f}", *run.bound_words),
                *(f"{run.algbw_gbps:.2f}", f"{run.busbw_gbps:.2f}"),
            )
            for run in self.sizes
        ]
        on = f"{self.topology}{self.sums_at}"
        title = f"{self.collective.name}, {self.program.num_ranks} ranks, on {on}"
        return Report("taccl.simulate/1", figures, list(rows[0]), rows, Table(title, cells, header))
