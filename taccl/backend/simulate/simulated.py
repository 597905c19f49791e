"""What every simulation says of a call, whatever the file and whatever the model."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology


@dataclass(frozen=True, eq=False, repr=False)
class Simulated:
    """One call.

    Parameters
    ----------
    topology, chunk_mb : where it ran, with chunks of this many MB.
    time_us : from the call until nothing moves any more.
    launch_us : what of it passes before anything moves; None: the machine does not say what executing costs,
        or that was left out.
    rounds : how often the program runs through its steps, each time for a piece of every chunk; None: once.
    is_extrapolated : whether fewer rounds were executed, and the rest was taken to go on like these.
    counts_flags : whether what the protocol adds to the bytes of data takes its share of the links.
    """

    topology: LogicalTopology
    chunk_mb: float
    time_us: float
    launch_us: float | None = None
    rounds: int | None = None
    is_extrapolated: bool = False
    counts_flags: bool = True


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Timed(Simulated):
    """One that knows when each step ran: a row per step, or operation; arrays of equal length.

    Parameters
    ----------
    rank, thread_block, step : which one; `step` counts from 0 in the order of the file.
    start_us, end_us : when it began, and when it was over.
    """

    rank: IntArray
    thread_block: IntArray
    step: IntArray
    start_us: FloatArray
    end_us: FloatArray

    def __len__(self) -> int:
        return len(self.rank)

    @property
    def spans(self) -> dict[tuple[int, int, int], tuple[float, float]]:
        """Start and end by rank, thread block and step."""
        names = zip(self.rank.tolist(), self.thread_block.tolist(), self.step.tolist(), strict=True)
        times = zip(self.start_us.tolist(), self.end_us.tolist(), strict=True)
        return dict(zip(names, times, strict=True))
