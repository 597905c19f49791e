"""A machine that the catalogue has by name, and what stands behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from taccl.topologies.machines.figures import Bandwidth, Figure
from taccl.topologies.model import PhysicalTopology

Confidence = Literal["measured", "dump", "vendor", "model", "shape"]

#: What stands behind a machine, from what is surest to what is nobody's machine.
CONFIDENCE: dict[Confidence, str] = {
    "measured": "its costs were measured and published",
    "dump": "its counts were read from a real machine's dump; its speeds are a library's constants",
    "vendor": "its counts are the vendor's or the cloud's; its speeds a library's, else the vendor's",
    "model": "a study published it as its model of a machine",
    "shape": "no machine, but a shape",
}


@dataclass(frozen=True)
class Machine:
    """A machine of any number of nodes.

    Parameters
    ----------
    build : takes the name, the number of nodes, and of two speeds of each link, where it has two, which
        counts.
    summary : what it is.
    confidence, source : a key of `CONFIDENCE`, and who says what it is like.
    figures : its numbers, each with its source.
    default_nodes : how many, if nobody says.
    has_peak : whether its links have two speeds.
    """

    build: Callable[[str, int, Bandwidth], PhysicalTopology]
    summary: str
    confidence: Confidence
    source: str
    figures: tuple[Figure, ...]
    default_nodes: int = 2
    has_peak: bool = True
