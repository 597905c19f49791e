"""Small programs for the tests of the backend, written in a line per step.

`step("rrc", "i2", "i2", count=1, wait=(1, 0), tells=True)` reads like the file: kind, source, target.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from taccl.backend.program import Buffer, Op, Program, Protocol, RankProgram, Step, ThreadBlock

#: Where real MSCCL-XML files lie; README.md there says where each comes from.
REAL_FILES = Path(__file__).parents[1] / "data" / "xml"


def step(kind, source="i0", target=None, count=1, wait=None, tells=False):
    target = source if target is None else target
    return Step(
        Op(kind), Buffer(source[0]), int(source[1:]), Buffer(target[0]), int(target[1:]), count, wait, tells
    )


def nop(wait):
    return Step(Op.NOP, Buffer.INPUT, -1, Buffer.OUTPUT, -1, 0, wait)


def block(number, send, recv, *steps, channel=0):
    return ThreadBlock(number, send, recv, channel, tuple(steps))


def program(collective, chunks, *ranks, scratch=0, **changes):
    """`ranks` are tuples of blocks. Sizes of buffers follow from the collective."""
    n = len(ranks)
    plain = collective.replace("_", "")
    inputs = chunks // n if plain == "allgather" else chunks
    outputs = chunks // n if plain == "reducescatter" else chunks
    if plain == "gather":
        outputs = chunks * n
    if plain == "scatter":
        inputs = chunks * n
    made = Program(
        name="test",
        collective=collective,
        num_ranks=n,
        num_channels=1 + max((b.channel for blocks in ranks for b in blocks), default=0),
        chunks_per_loop=chunks,
        protocol=Protocol.SIMPLE,
        in_place=False,
        out_of_place=True,
        min_bytes=0,
        max_bytes=2**20,
        ranks=tuple(
            RankProgram(rank, inputs, outputs, scratch, tuple(blocks)) for rank, blocks in enumerate(ranks)
        ),
    )
    return replace(made, **changes)


def ring_allreduce(n, **changes):
    """In place, fused: each chunk is summed once around the ring and spread once around it."""
    ranks = []
    for r in range(n):
        at = [f"i{(r - k) % n}" for k in range(2 * n)]
        steps = [step("s", at[0])]
        steps += [step("rrs", at[k]) for k in range(1, n - 1)]
        steps += [step("rrcs", at[n - 1])]
        steps += [step("rcs", at[n + k]) for k in range(n - 2)]
        steps += [step("r", at[2 * n - 2])]
        ranks.append((block(0, (r + 1) % n, (r - 1) % n, *steps),))
    return program("allreduce", n, *ranks, in_place=True, out_of_place=False, **changes)


def ring_allgather(n, **changes):
    """Out of place, one block that sends and one that receives, tied by waits."""
    ranks = []
    for r in range(n):
        sends = [step("s", "i0")]
        receives = []
        for k in range(1, n):
            receives.append(step("r", f"o{(r - k) % n}", tells=k < n - 1))
            if k < n - 1:
                sends.append(step("s", f"o{(r - k) % n}", wait=(1, k - 1)))
        copy = step("cpy", "i0", f"o{r}")
        ranks.append(
            (block(0, (r + 1) % n, -1, *sends), block(1, -1, (r - 1) % n, *receives), block(2, -1, -1, copy))
        )
    return program("allgather", n, *ranks, **changes)


def direct_alltoall(n, **changes):
    """Out of place, every pair of ranks on its own, two blocks per peer on two channels when n is odd."""
    ranks = []
    for r in range(n):
        blocks = [block(0, -1, -1, step("cpy", f"i{r}", f"o{r}"))]
        for k in range(1, n):
            to, from_ = (r + k) % n, (r - k) % n
            blocks.append(block(k, to, from_, step("s", f"i{to}"), step("r", f"o{from_}")))
        ranks.append(tuple(blocks))
    return program("alltoall", n, *ranks, **changes)


def scratch_allreduce(n, **changes):
    """In place, plain steps only: all parts to their owner's scratch, reduced there, and sent back.

    Rank r owns chunk r. Its block 0 waits, by nops, for all receives before it reduces; the sends of
    the result wait for that; block k exchanges with rank r + k.
    """
    ranks = []
    for r in range(n):
        reductions = [nop((k, 1)) for k in range(1, n - 1)]
        reductions += [step("re", "s0", f"i{r}", wait=(n - 1, 1), tells=n == 2)]
        reductions += [step("re", f"s{k}", f"i{r}", tells=k == n - 2) for k in range(1, n - 1)]
        blocks = [block(0, -1, -1, *reductions)]
        for k in range(1, n):
            to, from_ = (r + k) % n, (r - k) % n
            blocks.append(
                block(
                    k,
                    to,
                    from_,
                    step("s", f"i{to}"),
                    step("r", f"s{k - 1}", tells=True),
                    step("s", f"i{r}", wait=(0, len(reductions) - 1)),
                    step("r", f"i{from_}", wait=(n - k, 0)) if k != n - k else step("r", f"i{from_}"),
                )
            )
        for k in range(1, n):
            if k != n - k:
                other = blocks[n - k]
                first = replace(other.steps[0], has_dependent=True)
                blocks[n - k] = replace(other, steps=(first, *other.steps[1:]))
        ranks.append(tuple(blocks))
    return program("allreduce", n, *ranks, scratch=n - 1, in_place=True, out_of_place=False, **changes)


def edit(made, rank, number, index, **changes):
    """The program with one step changed."""
    return with_steps(
        made,
        rank,
        number,
        lambda steps: (*steps[:index], replace(steps[index], **changes), *steps[index + 1 :]),
    )


def with_steps(made, rank, number, change):
    """The program with the steps of one block put through `change`."""
    ranks = list(made.ranks)
    blocks = [
        replace(each, steps=tuple(change(each.steps))) if each.id == number else each
        for each in ranks[rank].thread_blocks
    ]
    ranks[rank] = replace(ranks[rank], thread_blocks=tuple(blocks))
    return replace(made, ranks=tuple(ranks))


def with_block(made, rank, number, **changes):
    """The program with one block changed."""
    ranks = list(made.ranks)
    blocks = [replace(each, **changes) if each.id == number else each for each in ranks[rank].thread_blocks]
    ranks[rank] = replace(ranks[rank], thread_blocks=tuple(blocks))
    return replace(made, ranks=tuple(ranks))


def send_first(ranks, count):
    """An AllGather in which each of two ranks sends all of its part before it receives."""
    made = []
    for r in range(ranks):
        there = (r + 1) % ranks
        copy = step("cpy", "i0", f"o{count * r}", count=count)
        steps = [step("s", "i0", count=count), step("r", f"o{count * there}", count=count)]
        made.append((block(0, there, there, *steps), block(1, -1, -1, copy)))
    return program("allgather", ranks * count, *made)
