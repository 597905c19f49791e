"""What the thread blocks do, as a runtime's interpreter sees it.

A runtime folds the steps of a file into *executed steps* when it loads it: nops become waits of the step
after them, and runs of `re` with one target become one reduction of many sources. Each executed step that
something may wait for publishes a number, which the interpreter counts by itself.

Written from the description of the device code, and sharing nothing with `verify`, which judges the
same programs by analysis: so each can be held against the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from taccl.backend.execute.call import Call
from taccl.backend.program import Buffer, Op, Program, Step, ThreadBlock

#: A reduction has room for this many sources; the interpreter counts them over the whole thread block.
_FUSED_SOURCES = 16

Key = tuple[int, int, int]  # channel, source rank, destination rank


@dataclass(frozen=True, slots=True)
class ExecutedStep:
    """One act of a thread block.

    Parameters
    ----------
    step : index of the step in its thread block; of a fused reduction, of its last step.
    op, src, dst, dst_offset, count : as in `Step`.
    src_offsets : one offset; several for a fused reduction.
    waits : (index of a thread block in `Workload.blocks`, number): all must have been published, or more.
        The index is -1 where the rank has no such thread block.
    number : what it publishes when it is done, if `publishes`.
    """

    step: int
    op: Op
    src: Buffer
    src_offsets: tuple[int, ...]
    dst: Buffer
    dst_offset: int
    count: int
    waits: tuple[tuple[int, int], ...]
    number: int
    publishes: bool


@dataclass(frozen=True, slots=True)
class BlockWork:
    """A thread block; `incoming` and `outgoing` are indices into `Workload.connections`, -1 for none."""

    index: int
    rank: int
    id: int
    incoming: int
    outgoing: int
    steps: tuple[ExecutedStep, ...]

    def name(self, step: int) -> str:
        """`rank 3, thread block 2, step 5 (rrc)`."""
        where = f"rank {self.rank}, thread block {self.id}"
        if step >= len(self.steps):
            return where
        return f"{where}, step {self.steps[step].step} ({self.steps[step].op.value})"


@dataclass(frozen=True, slots=True)
class Workload:
    """All thread blocks of all ranks, in the order of the program, and the connections between them."""

    num_ranks: int
    blocks: tuple[BlockWork, ...]
    connections: tuple[Key, ...]

    def connection_name(self, connection: int) -> str:
        channel, source, target = self.connections[connection]
        return f"channel {channel} from rank {source} to rank {target}"

    @property
    def most_chunks(self) -> int:
        """Of a step."""
        return max((step.count for block in self.blocks for step in block.steps), default=1)

    def planned_pieces(self, call: Call) -> int:
        """Pieces that all thread blocks together send if they come to their ends."""
        sends = (step for block in self.blocks for step in block.steps if step.op.sends)
        return call.iterations * sum(-(-step.count // call.chunks_per_piece) for step in sends)

    def of_rank(self, rank: int) -> tuple[BlockWork, ...]:
        return tuple(block for block in self.blocks if block.rank == rank)


def make_workload(program: Program) -> Workload:
    """Fold every thread block of a program."""
    blocks = [(rank.rank, block) for rank in program.ranks for block in rank.thread_blocks]
    index_of = {(rank, block.id): index for index, (rank, block) in enumerate(blocks)}
    keys: dict[Key, int] = {}
    works = []
    for index, (rank, block) in enumerate(blocks):
        incoming = _connection(keys, (block.channel, block.recv, rank)) if block.recv >= 0 else -1
        outgoing = _connection(keys, (block.channel, rank, block.send)) if block.send >= 0 else -1
        steps = _fold(rank, block, index_of)
        works.append(BlockWork(index, rank, block.id, incoming, outgoing, steps))
    return Workload(program.num_ranks, tuple(works), tuple(keys))


def _connection(keys: dict[Key, int], key: Key) -> int:
    return keys.setdefault(key, len(keys))


def _fold(rank: int, block: ThreadBlock, index_of: dict[tuple[int, int], int]) -> tuple[ExecutedStep, ...]:
    folded: list[ExecutedStep] = []
    waits: list[tuple[int, int]] = []
    number = fused = 0
    grows = False  # whether a like `re` would be fused into the last step
    for index, step in enumerate(block.steps):
        if step.depends is not None:
            waits.append((index_of.get((rank, step.depends[0]), -1), step.depends[1]))
        if step.op is Op.NOP:
            continue
        last = folded[-1] if folded else None
        if grows and last is not None and step.op is Op.REDUCE and step.depends is None and _like(step, last):
            sources = (*last.src_offsets, step.src_offset)
            folded[-1] = _executed(index, step, sources, last.waits, number, step.has_dependent)
        else:
            number += max(0, len(waits) - 1)
            folded.append(
                _executed(index, step, (step.src_offset,), tuple(waits), number, step.has_dependent)
            )
            waits = []
        number += 1
        fused += step.op is Op.REDUCE
        grows = step.op is Op.REDUCE and not step.has_dependent and fused != _FUSED_SOURCES
    return tuple(folded)


def _like(step: Step, last: ExecutedStep) -> bool:
    return (step.dst, step.dst_offset, step.src) == (last.dst, last.dst_offset, last.src)


def _executed(
    index: int,
    step: Step,
    sources: tuple[int, ...],
    waits: tuple[tuple[int, int], ...],
    number: int,
    publishes: bool,
) -> ExecutedStep:
    return ExecutedStep(
        step=index,
        op=step.op,
        src=step.src,
        src_offsets=sources,
        dst=step.dst,
        dst_offset=step.dst_offset,
        count=step.count,
        waits=waits,
        number=number,
        publishes=publishes,
    )
