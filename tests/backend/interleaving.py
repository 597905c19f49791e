"""Runs a program step by step in a random order that a runtime could choose, on sums of contributions.

A value is a Counter of (rank, input offset); reducing adds Counters. Messages wait in slots, one per
connection, so a send waits until the message before it was taken.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from dataclasses import dataclass, field

from taccl.backend.program import Buffer, Op, Program, Step, ThreadBlock
from taccl.model.collective import Collective

Value = Counter[tuple[int, int]]


@dataclass
class Machine:
    """The state of all ranks; memory[rank, buffer, offset] in place has `i` cells under their `o` name."""

    program: Program
    collective: Collective
    in_place: bool
    dice: random.Random
    memory: dict[tuple[int, Buffer, int], Value] = field(default_factory=dict)
    done: dict[tuple[int, int], int] = field(default_factory=dict)
    slots: dict[tuple[int, int, int], deque[list[Value]]] = field(default_factory=dict)

    def cell(self, rank: int, buffer: Buffer, offset: int) -> tuple[int, Buffer, int]:
        sizes = self.program.ranks[rank]
        size = {
            Buffer.INPUT: sizes.input_chunks,
            Buffer.OUTPUT: sizes.output_chunks,
            Buffer.SCRATCH: sizes.scratch_chunks,
        }
        assert 0 <= offset < size[buffer], f"rank {rank}: {buffer.value}{offset} is outside"
        if self.in_place and buffer is Buffer.INPUT:
            shifted = offset + int(self.collective.in_place_shift[rank])
            if 0 <= shifted < sizes.output_chunks:
                return rank, Buffer.OUTPUT, shifted
        return rank, buffer, offset

    def read(self, rank: int, buffer: Buffer, offset: int, count: int) -> list[Value]:
        return [Counter(self.memory[self.cell(rank, buffer, offset + i)]) for i in range(count)]

    def write(self, rank: int, buffer: Buffer, offset: int, values: list[Value]) -> None:
        assert self.in_place or buffer is not Buffer.INPUT, "the input is written"
        for i, value in enumerate(values):
            self.memory[self.cell(rank, buffer, offset + i)] = value

    def runnable(self, rank: int, block: ThreadBlock) -> bool:
        at = self.done[rank, block.id]
        if at == len(block.steps):
            return False
        step = block.steps[at]
        if step.depends is not None:
            other, needed = step.depends
            assert self.program.ranks[rank].thread_blocks[other].steps[needed].has_dependent
            if self.done[rank, other] <= needed:
                return False
        if step.op.receives and not self.slots.get((block.recv, rank, block.channel)):
            return False
        return not (step.op.sends and self.slots.get((rank, block.send, block.channel)))

    def execute(self, rank: int, block: ThreadBlock) -> None:
        step: Step = block.steps[self.done[rank, block.id]]
        self.done[rank, block.id] += 1
        if step.op is Op.NOP:
            return
        if step.op.receives:
            values = self.slots[block.recv, rank, block.channel].popleft()
            assert len(values) == step.count, "the two ends of a message differ in count"
        else:
            values = self.read(rank, step.src, step.src_offset, step.count)
        if step.op in (Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY_SEND):
            local = self.read(rank, step.src, step.src_offset, step.count)
            values = [a + b for a, b in zip(values, local, strict=True)]
        if step.op is Op.REDUCE:
            local = self.read(rank, step.dst, step.dst_offset, step.count)
            values = [a + b for a, b in zip(values, local, strict=True)]
        if step.op not in (Op.SEND, Op.RECV_REDUCE_SEND):
            self.write(rank, step.dst, step.dst_offset, values)
        if step.op.sends:
            self.slots.setdefault((rank, block.send, block.channel), deque()).append(
                [Counter(value) for value in values]
            )

    def run(self) -> None:
        inputs = self.collective.inputs
        for rank, offset in zip(inputs.rank.tolist(), inputs.offset.tolist(), strict=True):
            self.memory[self.cell(rank, Buffer.INPUT, offset)] = Counter({(rank, offset): 1})
        blocks = [(r.rank, block) for r in self.program.ranks for block in r.thread_blocks]
        self.done = {(rank, block.id): 0 for rank, block in blocks}
        while True:
            ready = [(rank, block) for rank, block in blocks if self.runnable(rank, block)]
            if not ready:
                break
            rank, block = self.dice.choice(ready)
            for _ in range(self.dice.choice([1, 1, 1, 100])):
                if self.runnable(rank, block):
                    self.execute(rank, block)
        stuck = [(rank, block.id) for rank, block in blocks if self.done[rank, block.id] < len(block.steps)]
        assert not stuck, f"these thread blocks are stuck: {stuck}"
        assert not any(self.slots.values()), "a message was never received"


def assert_computes(program: Program, collective: Collective, dice: random.Random) -> None:
    """The program computes the collective in a random order, in each mode that it claims."""
    assert program.in_place or program.out_of_place
    for in_place in (True, False):
        if not (program.in_place if in_place else program.out_of_place):
            continue
        machine = Machine(program, collective, in_place, dice)
        machine.run()
        wanted: dict[int, Value] = {}
        for chunk, rank, offset in zip(
            collective.inputs.chunk.tolist(),
            collective.inputs.rank.tolist(),
            collective.inputs.offset.tolist(),
            strict=True,
        ):
            wanted.setdefault(chunk, Counter())[rank, offset] = 1
        for chunk, rank, offset in zip(
            collective.outputs.chunk.tolist(),
            collective.outputs.rank.tolist(),
            collective.outputs.offset.tolist(),
            strict=True,
        ):
            got = machine.memory.get(machine.cell(rank, Buffer.OUTPUT, offset))
            assert got == wanted[chunk], f"rank {rank}: o{offset} is {got}, not {wanted[chunk]}"
