"""What a simulation says: when each step of a program ran, and how busy each port was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from taccl.backend.program import Op, Program
from taccl.backend.simulate.simulated import Timed
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from taccl.model.schedule.plot import Lanes


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Simulation(Timed):
    """By the costs of links alone: a row per step that does something, by rank, thread block and step.

    A nop has no row: it is part of the wait of the step after it. Of reductions that a runtime merges,
    only the last has one.

    Parameters
    ----------
    program : what ran.
    time_us : when the last step is done; see `Timed`.
    link : the link that a step sends over, else the one that it receives from; -1 for local steps.
    ready_us : when its thread block came to it.
    start_us : when it began to move data: a send, when it got its ports; a receive, when what it takes was
        sent, or `ready_us` if that is later.
    end_us : when it is over: a send (fused or not), when the receiver has it; a receive, when it is taken.
    done_us : when its thread block goes on: for a send, when its ports are free again.
    source : the row of the send that a receive takes, -1 for other steps.
    port_busy_us : shape (num_ports,); for how long each port of `topology` was busy.
    """

    counts_flags: bool = False
    program: Program
    link: IntArray
    ready_us: FloatArray
    done_us: FloatArray
    source: IntArray
    port_busy_us: FloatArray

    def __repr__(self) -> str:
        return f"Simulation({self.program.name}, {len(self)} steps, {self.time_us:.2f} us)"

    def op(self, row: int) -> Op:
        """What the step of a row does."""
        blocks = self.program.ranks[int(self.rank[row])].thread_blocks
        block = next(block for block in blocks if block.id == self.thread_block[row])
        return block.steps[int(self.step[row])].op

    def plot(
        self, by: Lanes = "link", ax: Axes | None = None, *, lower_bound_us: float | None = None
    ) -> Axes:
        """Draw the timeline of its sends with matplotlib; returns the axes.

        Parameters
        ----------
        by : a lane for each `link`, with bars from start to end, or for each `port`, with bars for as long as
            it is busy.
        ax : where to draw; None makes a figure.
        lower_bound_us : what no program can beat, drawn as a line.

        Raises
        ------
        TacclError : other lanes, or matplotlib is not installed.
        """
        from taccl.model.schedule.plot import Bars, plot_bars

        rows = np.unique(self.source[self.source >= 0])
        link = self.link[rows]
        alpha = self.topology.alpha_us[link] if self.topology.occupancy == "serial" else 0.0
        beta = self.topology.beta_us_per_mb[link]
        moving_us = self.done_us[rows] - self.start_us[rows] - alpha
        bars = Bars(
            link=link,
            start_us=self.start_us[rows],
            end_us=self.end_us[rows],
            size_mb=np.divide(moving_us, beta, out=np.zeros(len(rows)), where=beta > 0),
            source=self.topology.src[link],
            adds=np.zeros(len(rows), dtype=np.bool_),
        )
        what = f"{self.program.collective} on {self.topology.name}"
        return plot_bars(self.topology, bars, by, ax, what, lower_bound_us, "sent by rank {rank}")

    @property
    def utilisation(self) -> FloatArray:
        """The fraction of the time that each port was busy, shape (num_ports,)."""
        return np.asarray(self.port_busy_us / self.time_us) if self.time_us else 0 * self.port_busy_us
