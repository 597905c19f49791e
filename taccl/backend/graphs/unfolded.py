"""Rings and trees, unfolded: their program is shown and run like any other, and simulated by links alone.

A library brings its own kernels, whose costs are not those of an interpreter of programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from taccl.backend.graphs.document import Graphs
from taccl.backend.graphs.programs import PIECES, program_of
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.simulate.simulated import Simulated
from taccl.backend.two_sided import TwoSided
from taccl.model.network import LogicalTopology


@dataclass(frozen=True, eq=False)
class Channels(TwoSided):
    """The AllReduce that a library makes of its graphs."""

    @staticmethod
    def of_graphs(graphs: Graphs, pieces: int = PIECES) -> Channels:
        """All channels together, each with an equal share of the call, of a tree in this many pieces."""
        plain = TwoSided.of(program_of(graphs, pieces))
        return Channels(**{name: getattr(plain, name) for name in plain.__dataclass_fields__})

    @property
    def executed_by(self) -> None:
        """No runtime whose costs are known."""
        return None

    def simulate(self, network: LogicalTopology, chunk_mb: float, settings: SimulationSettings) -> Simulated:
        """Step by step, by the network's links."""
        return super().simulate(replace(network, executor=None), chunk_mb, settings)
