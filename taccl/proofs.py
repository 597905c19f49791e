"""What no schedule can beat, without running any engine."""

from __future__ import annotations

from pathlib import Path

from taccl.api import Symmetry, make_problem
from taccl.collectives import Collective
from taccl.encoding.bounds import Bound, Kind, all_bounds
from taccl.problem import Occupancy
from taccl.sketch import Sketch
from taccl.sketch.model import NicSharing
from taccl.topologies import PhysicalTopology

#: What would move a bound of each kind: a change of the machine, the sketch or the request.
REMEDIES: dict[Kind, str] = {
    "latency": "a more direct or a faster way for that chunk, or more --chunks, each of them smaller",
    "cut": "more or faster links there, or shorter ways to and from there",
    "volume": "more or faster links anywhere; the ports are busy until then in any order",
    "flow": "more or faster links on the busiest ways; a number of chunks does not",
    "whole-flow": "more or faster links on the busiest ways, shorter alphas, or more --chunks",
    "spread": "shorter alphas, or more ports at each rank, so that it has more copies sooner",
    "holdings": "shorter alphas, or more ports into that rank; larger groups do not come sooner",
    "entry": "more or faster links there, or shorter ways to and from there",
    "meeting": "shorter ways or more ports between that rank and the others",
    "two-way": "more or faster links there, or shorter ways to and from there",
    "throughput": "more or faster links there; a number of chunks does not",
}


def bounds(
    collective: str | Path | Collective = "allgather",
    *,
    topology: str | Path | PhysicalTopology | None = None,
    sketch: str | Path | Sketch | None = None,
    size: str | int | None = None,
    nodes: int | None = None,
    profile: str | Path | None = None,
    chunks: int | None = None,
    root: int | None = None,
    occupancy: Occupancy | None = None,
    nic_sharing: NicSharing | None = None,
    symmetry: Symmetry = "sketch",
) -> tuple[Bound, ...]:
    """The best lower bound of each kind in microseconds, largest first, each with its witness.

    Parameters and errors are those of `taccl.make_problem`.
    """
    stated = make_problem(
        collective,
        topology=topology,
        sketch=sketch,
        size=size,
        nodes=nodes,
        profile=profile,
        chunks=chunks,
        root=root,
        occupancy=occupancy,
        nic_sharing=nic_sharing,
        symmetry=symmetry,
    )
    return all_bounds(stated.problem)
