"""What a file of graphs says, as it is written: channels, and what could not be understood."""

from __future__ import annotations

from dataclasses import dataclass, field

from taccl.backend.graphs.document import ROOT, Graphs, Shape
from taccl.errors import FileError


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the form of a file: a rule, a sentence, what to do, and the line."""

    rule: str
    message: str
    hint: str
    line: int | None = None


@dataclass(slots=True)
class FoundChannel:
    """A channel as it is written.

    Parameters
    ----------
    name : for messages, such as `ring 2`.
    ranks : in the order of the file, twice where it has one twice.
    parents : of a tree, for each of `ranks` the rank above it; of a ring, empty.
    has_nets : whether network cards stand at its ends.
    """

    name: str
    line: int | None
    ranks: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    has_nets: bool = False


@dataclass(slots=True)
class FoundGraph:
    """Channels of one shape; `whole`: whether each goes through all GPUs, as all but NVLS's do."""

    name: str
    shape: Shape
    channels: list[FoundChannel] = field(default_factory=list)
    whole: bool = True


@dataclass(frozen=True, eq=False)
class GraphsDocument:
    """All graphs of a file, whoever made it.

    Parameters
    ----------
    runtimes : who reads such files.
    """

    runtimes: tuple[str, ...]
    graphs: tuple[FoundGraph, ...]
    faults: tuple[Fault, ...]
    path: str | None = None

    @property
    def num_ranks(self) -> int:
        """GPUs that the file names, or one more than the largest where network cards name no node."""
        named = {rank for graph in self.graphs for channel in graph.channels for rank in channel.ranks}
        return len(named) if self.has_nets else max(named, default=-1) + 1

    @property
    def has_nets(self) -> bool:
        """Whether some channel begins or ends at a network card."""
        return any(channel.has_nets for graph in self.graphs for channel in graph.channels)

    def whole(self) -> tuple[Graphs, ...]:
        """The graphs through all GPUs of a node that a program can be made of, in the order of the file."""
        first = min((r for g in self.graphs for c in g.channels for r in c.ranks), default=0)
        return tuple(
            Graphs(
                graph.shape,
                self.num_ranks,
                tuple(_channel(each, graph.shape, first) for each in graph.channels),
            )
            for graph in self.graphs
            if graph.whole
        )

    def refuse(self, message: str, hint: str) -> FileError:
        """An error about this file."""
        return FileError(message, path=self.path, hint=hint)


def _channel(found: FoundChannel, shape: Shape, first: int) -> tuple[int, ...]:
    if shape == "ring":
        return tuple(rank - first for rank in found.ranks)
    above = dict(zip(found.ranks, found.parents, strict=True))
    return tuple(above[rank] - first if above[rank] != ROOT else ROOT for rank in sorted(above))
