"""What every simulation says of a call, whatever the file and whatever the model."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.model.network import LogicalTopology


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
