"""Rings and trees as the AllReduce that a library makes of them, as a program of sends and receives.

A library cuts a share into pieces that follow each other through its channel; a program has a few of them, in
steps, so that it can be verified, run, shown and simulated like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from taccl.backend.graphs.document import ROOT, Graphs, children_of
from taccl.backend.graphs.found import GraphsDocument
from taccl.backend.graphs.verify import verify_graphs
from taccl.backend.program import Buffer, Op, Program, Protocol, RankProgram, Step, ThreadBlock
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.simulate.simulated import Simulated
from taccl.backend.two_sided import TwoSided
from taccl.model.network import LogicalTopology

#: Pieces of the share of a tree that follow each other, where nobody says; the most of all trees together.
PIECES, _MOST_PIECES = 16, 256
#: The sizes of a call: a library has no limits.
_LEAST_BYTES, _MOST_BYTES = 0, 2**40

#: Of a rank (place of its thread block) -> peers and steps.
_Block = tuple[int, int, int, list[Step]]


def graphs_in(document: GraphsDocument) -> tuple[Graphs, ...]:
    """The graphs of a file through all GPUs of a node, in its order.

    Raises
    ------
    VerificationError : the file is not right.
    FileError : none of its graphs is such a one, or its channels lead to other nodes.
    """
    verify_graphs(document).raise_for_findings()
    if document.has_nets:
        message = "its channels lead through network cards to other nodes, of which it says nothing"
        raise document.refuse(message, "taccl verify checks it")
    found = document.whole()
    if not found:
        raise document.refuse("none of its graphs goes through all GPUs", "a ring (id 0) or a tree (id 1)")
    return found


def program_of(graphs: Graphs, pieces: int = PIECES) -> Program:
    """AllReduce in place through all channels, each with an equal share, of a tree in this many pieces."""
    channels, ranks = len(graphs.channels), graphs.num_ranks
    blocks: list[list[_Block]] = [[] for _ in range(ranks)]
    pieces = max(1, min(pieces, _MOST_PIECES // channels))
    share = ranks if graphs.shape == "ring" else pieces
    for index, channel in enumerate(graphs.channels):
        if graphs.shape == "ring":
            _ring(channel, index, share, blocks)
        else:
            _tree(channel, index, share, blocks)
    return Program(
        name=graphs.name,
        collective="allreduce",
        num_ranks=ranks,
        num_channels=channels,
        chunks_per_loop=channels * share,
        protocol=Protocol.SIMPLE,
        in_place=True,
        out_of_place=False,
        min_bytes=_LEAST_BYTES,
        max_bytes=_MOST_BYTES,
        ranks=tuple(_rank(rank, channels * share, of_rank) for rank, of_rank in enumerate(blocks)),
    )


def _step(op: Op, chunk: int, depends: tuple[int, int] | None = None) -> Step:
    return Step(op, Buffer.OUTPUT, chunk, Buffer.OUTPUT, chunk, 1, depends)


def _rank(rank: int, chunks: int, blocks: list[_Block]) -> RankProgram:
    """The rank's thread blocks, with marks at the steps that others wait for."""
    awaited = {step.depends for *_, steps in blocks for step in steps}
    made = tuple(
        ThreadBlock(
            place,
            send,
            recv,
            channel,
            tuple(replace(step, has_dependent=(place, at) in awaited) for at, step in enumerate(steps)),
        )
        for place, (send, recv, channel, steps) in enumerate(blocks)
    )
    return RankProgram(rank, chunks, chunks, 0, made)


def _ring(ring: tuple[int, ...], channel: int, share: int, blocks: list[list[_Block]]) -> None:
    """Sums go once round and end where they belong, results go round once more."""
    num, first = len(ring), channel * share
    for place, rank in enumerate(ring):
        steps = [_step(Op.SEND, first + (place - 1) % num)]
        steps += [_step(Op.RECV_REDUCE_SEND, first + (place - turn) % num) for turn in range(2, num)]
        steps.append(_step(Op.RECV_REDUCE_COPY_SEND, first + place))
        steps += [_step(Op.RECV_COPY_SEND, first + (place - turn) % num) for turn in range(1, num - 1)]
        steps.append(_step(Op.RECV, first + (place + 1) % num))
        blocks[rank].append((ring[(place + 1) % num], ring[place - 1], channel, steps))


def _tree(parents: tuple[int, ...], channel: int, share: int, blocks: list[list[_Block]]) -> None:
    """Piece by piece sums go up and results come down, each edge with a thread block at both ends."""
    children, pieces = children_of(parents), [channel * share + piece for piece in range(share)]
    for rank, parent in enumerate(parents):
        mine = blocks[rank]
        waits: list[int | None] = [None]
        for child in children[rank]:
            before = waits[-1]
            mine.append((ROOT, child, channel, _steps(Op.RECV_REDUCE_COPY, pieces, before)))
            waits.append(len(mine) - 1)
        summed = waits[-1]
        if parent != ROOT:
            mine.append((parent, ROOT, channel, _steps(Op.SEND, pieces, summed)))
            mine.append((ROOT, parent, channel, _steps(Op.RECV, pieces, len(mine) - 1)))
            summed = len(mine) - 1
        mine += [(child, ROOT, channel, _steps(Op.SEND, pieces, summed)) for child in children[rank]]


def _steps(op: Op, pieces: list[int], after: int | None) -> list[Step]:
    """A step a piece, which waits for the same step of another thread block."""
    return [_step(op, piece, None if after is None else (after, step)) for step, piece in enumerate(pieces)]


@dataclass(frozen=True, eq=False)
class Channels(TwoSided):
    """The AllReduce that a library makes of its graphs: run like any program, simulated by links alone.

    A library brings its own kernels, whose costs are not those of an interpreter of programs.
    """

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
