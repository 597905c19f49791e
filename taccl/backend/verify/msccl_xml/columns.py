"""A program as columns: one row per thread block and one per step, ranks and blocks in order.

All checks read these arrays; a program of 100,000 steps is looked at with a few array operations
per rule. A *block* is a row of the block columns (unique over all ranks), unlike `block_id`, which
is the number that the file gives it on its rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.backend.machine.report import Finding, Layer, Location, Severity
from taccl.backend.program import Op, Program
from taccl.backend.step_rows import OPS, fields_of_steps
from taccl.model.collective import BoolArray, IntArray
from taccl.model.schedule.numbering import by_value

OP_CODE = {op: code for code, op in enumerate(OPS)}


def _is(*ops: Op) -> BoolArray:
    return np.array([op in ops for op in OPS])


SENDS = np.array([op.sends for op in OPS])
RECEIVES = np.array([op.receives for op in OPS])
READS_SOURCE = ~_is(Op.RECV, Op.RECV_COPY_SEND, Op.NOP)
WRITES_TARGET = ~_is(Op.SEND, Op.RECV_REDUCE_SEND, Op.NOP)
IS_NOP = _is(Op.NOP)
#: Ids are numbers of 32 bits.
_MORE_THAN_IDS = 2**33


@dataclass(frozen=True, eq=False)
class Columns:
    """Blocks: rank, id, send, recv, channel, first step, number of steps. Steps: all their fields.

    `dep_block` is the block id waited for on the same rank, -1 for none. Every array of one kind has
    the same length.
    """

    program: Program
    block_rank: IntArray
    block_id: IntArray
    block_send: IntArray
    block_recv: IntArray
    block_channel: IntArray
    block_first: IntArray
    block_steps: IntArray
    block_line: IntArray
    step_block: IntArray
    position: IntArray
    op: IntArray
    src: IntArray
    src_offset: IntArray
    dst: IntArray
    dst_offset: IntArray
    count: IntArray
    dep_block: IntArray
    dep_step: IntArray
    has_dependent: BoolArray
    line: IntArray

    @property
    def num_blocks(self) -> int:
        return len(self.block_rank)

    @property
    def num_steps(self) -> int:
        return len(self.op)

    @staticmethod
    def of(program: Program) -> Columns:
        blocks = [
            (rank.rank, block.id, block.send, block.recv, block.channel, len(block.steps), block.line or 0)
            for rank in program.ranks
            for block in rank.thread_blocks
        ]
        block_columns = np.array(blocks, dtype=np.int64).reshape(-1, 7).T
        rank, block_id, send, recv, channel, size, block_line = block_columns
        first = np.cumsum(size) - size
        step_block = np.repeat(np.arange(len(rank)), size)
        (op, src, src_offset, dst, dst_offset, count, dep_block, dep_step, has_dependent, line) = (
            fields_of_steps([block.steps for each in program.ranks for block in each.thread_blocks])
        )
        return Columns(
            program=program,
            block_rank=rank,
            block_id=block_id,
            block_send=send,
            block_recv=recv,
            block_channel=channel,
            block_first=first,
            block_steps=size,
            block_line=block_line,
            step_block=step_block,
            position=np.arange(len(step_block)) - first[step_block],
            op=op,
            src=src,
            src_offset=src_offset,
            dst=dst,
            dst_offset=dst_offset,
            count=count,
            dep_block=dep_block,
            dep_step=dep_step,
            has_dependent=has_dependent.astype(np.bool_),
            line=line,
        )

    def block_of(self, rank: IntArray, block_id: IntArray) -> IntArray:
        """The row of a rank's thread block with an id, of several the last; -1 if the rank has none."""
        keys = self.block_rank * _MORE_THAN_IDS + self.block_id
        order = by_value(keys)
        wanted = rank * _MORE_THAN_IDS + block_id
        place = np.searchsorted(keys[order], wanted, side="right") - 1
        if not len(keys):
            return np.asarray(place)
        row = order[place]
        return np.where((place >= 0) & (keys[row] == wanted), row, -1)

    def name_of_step(self, step: int) -> str:
        """`rank 3, thread block 2, step 5 (rrc)`."""
        block = self.step_block[step]
        return f"{self.name_of_block(block)}, step {self.position[step]} ({OPS[self.op[step]].value})"

    def name_of_block(self, block: int) -> str:
        return f"rank {self.block_rank[block]}, thread block {self.block_id[block]}"

    def location(self, block: int) -> Location:
        """Where a thread block is in the file."""
        line = int(self.block_line[block]) or None
        return Location(int(self.block_rank[block]), int(self.block_id[block]), line=line)

    def location_of_step(self, step: int) -> Location:
        """Where a step is in the file."""
        block, line = self.step_block[step], int(self.line[step]) or None
        rank, number = int(self.block_rank[block]), int(self.block_id[block])
        return Location(rank, number, int(self.position[step]), line)

    def at_step(
        self,
        step: int,
        layer: Layer,
        severity: Severity,
        rule: str,
        message: str,
        hint: str | None = None,
        runtimes: tuple[str, ...] = (),
    ) -> Finding:
        """A finding about one step; its name is put before `message`."""
        said = f"{self.name_of_step(step)}: {message}"
        finding = Finding(layer, severity, rule, said, runtimes=runtimes, hint=hint)
        return finding.at(self.location_of_step(step))
