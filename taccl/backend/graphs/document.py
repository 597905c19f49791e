"""The noun of what a stock library takes from users: a ring or a tree through all GPUs for each channel.

The library cuts a call into equal shares, one for each channel, and brings its own kernels and protocols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Shape = Literal["ring", "tree"]

#: In the parents of a tree, that of its root.
ROOT = -1


@dataclass(frozen=True, slots=True)
class Graphs:
    """One graph for each channel, all through the GPUs 0 .. num_ranks - 1 of one node.

    Parameters
    ----------
    shape : of all channels.
    channels : of a ring its GPUs in the order in which data travels; of a tree the parent of each GPU, `ROOT`
        for its root.
    origin : where they come from, in a few words; empty where a file was read.
    gbps : what AllReduce moves through all channels together, size over time, by the costs of links alone;
        0: not known.
    by_nvlink : whether NVLinks alone join neighbours; False: not known.
    """

    shape: Shape
    num_ranks: int
    channels: tuple[tuple[int, ...], ...]
    origin: str = ""
    gbps: float = 0.0
    by_nvlink: bool = False

    @property
    def name(self) -> str:
        """Such as `7 rings`."""
        return f"{len(self.channels)} {self.shape}{'s' * (len(self.channels) != 1)}"


def children_of(parents: tuple[int, ...]) -> list[list[int]]:
    """The children of each GPU of a tree, smallest first."""
    children: list[list[int]] = [[] for _ in parents]
    for rank, parent in enumerate(parents):
        if parent != ROOT:
            children[parent].append(rank)
    return children
