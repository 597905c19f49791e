"""Allocations as a scheduler offers them: lists of GPUs of a machine, one a line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from taccl.errors import TacclError, TopologyError
from taccl.support.reading import utf8_text
from taccl.topologies import PhysicalTopology
from taccl.topologies.importers.clusters.hostlist import expanded

MAX_BYTES = 2**26
_NODE = re.compile(r"n(?:ode)?([0-9]{1,6})(?:\.(.+))?")


@dataclass(frozen=True)
class Allocation:
    """GPUs of a machine.

    Parameters
    ----------
    text : as it was written.
    ranks : of the GPUs, in the order in which they were named.
    """

    text: str
    ranks: tuple[int, ...]


def load_allocations(path: str | Path, machine: PhysicalTopology) -> tuple[Allocation, ...]:
    """The allocations of a file, one a line; `#` begins a comment.

    Raises
    ------
    TacclError : with the line: a GPU that the machine lacks, or one that is named twice; no line at all.
    """
    reader, found = AllocationReader(machine), list[Allocation]()
    for number, line in enumerate(utf8_text(path, MAX_BYTES, TacclError).split("\n"), start=1):
        text = line.split("#")[0].strip()
        if text:
            try:
                found.append(reader.read(text))
            except TacclError as fault:
                raise TacclError(fault.message, path=path, line=number, hint=fault.hint) from None
    if not found:
        raise TacclError("there is no allocation", path=path, hint="one a line: n[0-1].gpu[0-3]")
    return tuple(found)


class AllocationReader:
    """Reads allocations of one machine: `n[0-1].gpu[0-3]`, `n0.gpu[0-4],n1`, `gpu[0-3]` on one node."""

    def __init__(self, machine: PhysicalTopology) -> None:
        self._machine = machine
        gpus = machine.gpus[: machine.num_members]
        self._rank_of = {gpu.name: rank for rank, gpu in enumerate(gpus)}
        self._of_node: dict[int, list[int]] = {}
        for rank, gpu in enumerate(gpus):
            self._of_node.setdefault(gpu.node, []).append(rank)

    def read(self, text: str) -> Allocation:
        """The allocation in a text; a node alone stands for all its GPUs.

        Raises
        ------
        TopologyError : a GPU that the machine lacks, or that is named twice.
        """
        ranks: dict[int, str] = {}
        for name in expanded(text):
            for rank in self._ranks(name):
                if rank in ranks:
                    raise TopologyError(f"{self._machine.gpus[rank].name} is named twice")
                ranks[rank] = name
        return Allocation(text, tuple(ranks))

    def _ranks(self, name: str) -> Iterable[int]:
        if name in self._rank_of:
            return (self._rank_of[name],)
        match = _NODE.fullmatch(name)
        if match is not None and match[2] is None and int(match[1]) in self._of_node:
            return self._of_node[int(match[1])]
        full = f"node{match[1]}.{match[2]}" if match is not None else name
        if full not in self._rank_of:
            gpus = self._machine.gpus
            raise TopologyError(
                f"{self._machine.name} has no GPU {name[:60]!r}",
                hint=f"{gpus[0].name} .. {gpus[self._machine.num_members - 1].name}",
            )
        return (self._rank_of[full],)


def compact(machine: PhysicalTopology, count: int) -> Allocation:
    """As many GPUs on as few nodes as can be, the largest first, in the order of the machine.

    Raises
    ------
    TacclError : the machine has fewer.
    """
    if count > machine.num_members:
        raise TacclError(f"{machine.name} has {machine.num_members} GPUs, and not {count}")
    nodes: dict[int, list[int]] = {}
    for rank, gpu in enumerate(machine.gpus[: machine.num_members]):
        nodes.setdefault(gpu.node, []).append(rank)
    ordered = sorted(nodes.values(), key=len, reverse=True)
    ranks = [rank for node in ordered for rank in node][:count]
    return Allocation("compact", tuple(ranks))


def shape_of(machine: PhysicalTopology, ranks: Sequence[int]) -> str:
    """How many GPUs on each node, the most first: `5+3`."""
    counts: dict[int, int] = {}
    for rank in ranks:
        counts[machine.gpus[rank].node] = counts.get(machine.gpus[rank].node, 0) + 1
    return "+".join(map(str, sorted(counts.values(), reverse=True)))
