"""Programs so plain that their times tell what a hop, a thread block, a link and a sum cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from taccl.backend.program import Buffer, Op, Program, Protocol, RankProgram, Step, ThreadBlock

#: Calls of more bytes are not measured; runtimes keep scratch for the largest call.
MOST_BYTES = 2**29

IN, OUT, SCRATCH = Buffer.INPUT, Buffer.OUTPUT, Buffer.SCRATCH


@dataclass(frozen=True)
class Pattern:
    """A way to move data that every machine can run whose GPUs reach each other.

    Parameters
    ----------
    name, collective : how files call it, and what it computes.
    tells : which costs its times depend on, in a few words.
    needs_all_pairs : whether each rank sends to each other; if not, only to the next of a ring.
    build : (order of the ring, protocol, instances) -> program.
    """

    name: str
    collective: str
    tells: str
    needs_all_pairs: bool
    build: Callable[[Sequence[int], Protocol, int], Program]


def ring(order: Sequence[int], protocol: Protocol, instances: int) -> Program:
    """AllGather around a ring: a chain of hops, one thread block for each instance.

    Parameters
    ----------
    order : the ranks as the ring passes them.
    instances : parts that each rank's data is cut into, each with a channel of its own.
    """
    n = len(order)
    place = {rank: at for at, rank in enumerate(order)}
    ranks = []
    for rank in range(n):
        at = place[rank]
        following, before = order[(at + 1) % n], order[(at - 1) % n]
        blocks = []
        for part in range(instances):
            own = [order[(at - hop) % n] * instances + part for hop in range(n)]
            steps = [_send(OUT, own[0])]
            for chunk in own[1:-1]:
                steps += [_receive(OUT, chunk), _send(OUT, chunk)]
            steps.append(_receive(OUT, own[-1]))
            blocks.append(ThreadBlock(part, following, before, part, tuple(steps)))
        ranks.append(RankProgram(rank, 0, n * instances, 0, tuple(blocks)))
    return _program("allgather", "ring", protocol, instances, ranks)


def pairs(order: Sequence[int], protocol: Protocol, instances: int) -> Program:
    """AllGather in one hop, all to all: a thread block sends to a peer, then receives from it."""
    n = len(order)
    ranks = []
    for rank in range(n):
        peers = [(part, peer) for part in range(instances) for peer in range(n) if peer != rank]
        blocks = tuple(
            ThreadBlock(
                *(number, peer, peer, part),
                (_send(OUT, rank * instances + part), _receive(OUT, peer * instances + part)),
            )
            for number, (part, peer) in enumerate(peers)
        )
        ranks.append(RankProgram(rank, 0, n * instances, 0, blocks))
    return _program("allgather", "pairs", protocol, instances, ranks)


def one_way(order: Sequence[int], protocol: Protocol, instances: int) -> Program:
    """As `pairs`, with thread blocks that only send and others that only receive."""
    n = len(order)
    ranks = []
    for rank in range(n):
        peers = [(part, peer) for part in range(instances) for peer in range(n) if peer != rank]
        sending = [
            ThreadBlock(number, peer, -1, part, (_send(OUT, rank * instances + part),))
            for number, (part, peer) in enumerate(peers)
        ]
        receiving = [
            ThreadBlock(number, -1, peer, part, (_receive(OUT, peer * instances + part),))
            for number, (part, peer) in enumerate(peers, start=len(peers))
        ]
        ranks.append(RankProgram(rank, 0, n * instances, 0, (*sending, *receiving)))
    return _program("allgather", "one_way", protocol, instances, ranks)


def sums(order: Sequence[int], protocol: Protocol, instances: int) -> Program:
    """AllReduce in two hops: each rank adds up one part, in a thread block of its own, and sends it."""
    n = len(order)
    ranks = []
    for rank in range(n):
        peers = [(part, peer) for part in range(instances) for peer in range(n) if peer != rank]
        adding = len(peers)  # the first thread block that adds; one for each instance
        kept_at = {peer: at for at, peer in enumerate(peer for peer in range(n) if peer != rank)}
        blocks = []
        for number, (part, peer) in enumerate(peers):
            mine_there = rank if rank < peer else rank - 1
            theirs, mine = peer * instances + part, rank * instances + part
            steps = (
                Step(Op.SEND, IN, theirs, SCRATCH, mine_there * instances + part, 1),
                _receive(SCRATCH, kept_at[peer] * instances + part, awaited=True),
                Step(Op.SEND, OUT, mine, OUT, mine, 1, depends=(adding + part, 2 * n - 4)),
                _receive(OUT, theirs),
            )
            blocks.append(ThreadBlock(number, peer, peer, part, steps))
        for part in range(instances):
            received = [(number, 1) for number, (of, _) in enumerate(peers) if of == part]
            waits = [Step(Op.NOP, IN, -1, OUT, -1, 0, depends=each) for each in received[:-1]]
            added = [
                Step(
                    *(Op.REDUCE, SCRATCH, at * instances + part, OUT, rank * instances + part, 1),
                    depends=received[-1] if at == 0 else None,
                    has_dependent=at == n - 2,
                )
                for at in range(n - 1)
            ]
            blocks.append(ThreadBlock(adding + part, -1, -1, part, (*waits, *added)))
        ranks.append(RankProgram(rank, n * instances, n * instances, (n - 1) * instances, tuple(blocks)))
    return _program("allreduce", "sums", protocol, instances, ranks)


PATTERNS = (
    Pattern("pairs", "allgather", "launch, hop, thread block; then links and shared ports", True, pairs),
    Pattern(
        "one_way", "allgather", "whether a send and a receive share a thread block's time", True, one_way
    ),
    Pattern("ring", "allgather", "hops one after another, and what a slice costs", False, ring),
    Pattern("sums", "allreduce", "what adding up inside a GPU costs", True, sums),
)


def _send(buffer: Buffer, offset: int) -> Step:
    return Step(Op.SEND, buffer, offset, buffer, offset, 1)


def _receive(buffer: Buffer, offset: int, awaited: bool = False) -> Step:
    return Step(Op.RECV, buffer, offset, buffer, offset, 1, has_dependent=awaited)


def _program(
    collective: str, pattern: str, protocol: Protocol, instances: int, ranks: Sequence[RankProgram]
) -> Program:
    """In place, for calls of up to `MOST_BYTES`."""
    return Program(
        name=f"{pattern}_{protocol.value.lower()}_{instances}",
        collective=collective,
        num_ranks=len(ranks),
        num_channels=instances,
        chunks_per_loop=len(ranks) * instances,
        protocol=protocol,
        in_place=True,
        out_of_place=False,
        min_bytes=0,
        max_bytes=MOST_BYTES,
        ranks=tuple(ranks),
    )
