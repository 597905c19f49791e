"""What the runtime takes of a plan: which calls, where their memory is, and which operands it looks at.

Written from the contract alone. Memory is words of 8 bytes, one allocation after another. What operations do
it must not know.
"""

from dataclasses import dataclass
from functools import cached_property

from taccl.backend.plan import ExecutionPlan, Operation, OpName
from taccl.backend.program import Buffer

UNIT = 16

PUTS = {OpName.PUT, OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH}
SUMS = {OpName.REDUCE, OpName.REDUCE_SEND, OpName.READ_REDUCE, OpName.READ_REDUCE_SEND}
PAIRED = {*PUTS, OpName.GET, OpName.PUT_PACKETS}
NEVER = 10**6
#: From which source, and from which target on, operands are packets.
PACKETS = {
    OpName.PUT_PACKETS: (NEVER, 0),
    OpName.COPY_TO_PACKETS: (NEVER, 0),
    OpName.COPY_FROM_PACKETS: (0, NEVER),
    OpName.READ_PUT_PACKETS: (0, 0),
    OpName.REDUCE_PACKETS: (1, NEVER),
    OpName.REDUCE_SEND_PACKETS: (1, 1),
    OpName.REDUCE_COPY_PACKETS: (1, 1),
    OpName.REDUCE_COPY_SEND_PACKETS: (1, 1),
    OpName.SWITCH_STORE_PACKETS: (0, 0),
}
#: How many targets the kernel looks at, where it does not look at all.
TARGETS = {
    OpName.COPY: 1,
    OpName.REDUCE: 1,
    OpName.READ_REDUCE: 1,
    OpName.REDUCE_PACKETS: 1,
    OpName.REDUCE_COPY_PACKETS: 2,
    OpName.COPY_TO_PACKETS: 1,
    OpName.COPY_FROM_PACKETS: 1,
    OpName.SWITCH_STORE: 1,
    OpName.SWITCH_REDUCE_STORE: 1,
    OpName.SWITCH_STORE_PACKETS: 1,
}
SOURCES = {
    OpName.COPY: 1,
    OpName.COPY_TO_PACKETS: 1,
    OpName.COPY_FROM_PACKETS: 1,
    OpName.READ_PUT_PACKETS: 1,
    OpName.SWITCH_STORE: 1,
    OpName.SWITCH_REDUCE_STORE: 1,
    OpName.SWITCH_STORE_PACKETS: 1,
}


class CannotRun(Exception):
    """The runtime would refuse the plan, crash, or touch memory that is not meant."""


def check_call(plan: ExecutionPlan, units: int) -> None:
    """Refuse what the runtime or its callers refuse: sizes and ids that cannot be."""
    ranks = plan.num_ranks
    shapes = {"allgather": (1, ranks), "reducescatter": (ranks, 1)}
    of_input, of_output = shapes.get(plan.collective, (1, 1))
    first = plan.ranks[0]
    for number, each in enumerate(plan.ranks):
        if each.rank != number or min(each.input_chunks, each.output_chunks) < 1 or not each.blocks:
            raise CannotRun("rank")
        if (
            each.input_chunks * of_output != each.output_chunks * of_input
            or each.input_chunks != first.input_chunks
        ):
            raise CannotRun("chunks of two sizes")
        if plan.collective == "alltoall" and each.input_chunks % ranks:
            raise CannotRun("no alltoall")
    if plan.alignment < 1 or plan.alignment % 4:
        raise CannotRun("alignment")
    if plan.alignment % UNIT and any(map(_needs_whole_units, _operations(plan))):
        raise CannotRun("alignment")
    if units * UNIT % plan.alignment:
        raise CannotRun("size")
    chunks = first.output_chunks if plan.collective == "allgather" else first.input_chunks
    if not plan.min_bytes <= chunks * units * UNIT <= plan.max_bytes:
        raise CannotRun("size")
    if not 32 <= plan.threads <= 1024:
        raise CannotRun("threads")


def _operations(plan: ExecutionPlan) -> list[Operation]:
    every = [each for rank in plan.ranks for block in rank.blocks for each in block.operations]
    return every + [inner for each in every for inner in each.inner]


def _needs_whole_units(operation: Operation) -> bool:
    """Sums and packets have tails that are addressed wrongly; parts of other lengths are not modelled."""
    return operation.name in {*SUMS, *PACKETS} or operation.share is not None


def pick(some, number):
    """An entry, if there is one of that number."""
    if not 0 <= number < len(some):
        raise CannotRun("a number that leads nowhere")
    return some[number]


@dataclass(eq=False)
class Memory:
    """The allocations of all ranks for a call with chunks of this many times 16 bytes."""

    plan: ExecutionPlan
    units: int

    @cached_property
    def chunk(self) -> int:
        return self.units * UNIT

    @cached_property
    def allocations(self) -> list[dict[Buffer, tuple[int, int]]]:
        """Per rank and buffer the first word of its allocation, and the word after its last."""
        found, word = [], 0
        for each in self.plan.ranks:
            inputs, outputs = each.input_chunks * self.chunk // 8, each.output_chunks * self.chunk // 8
            scratch = self.half(each.rank) * (2 if self.plan.double_scratch else 1)
            if self.plan.in_place:
                size = max(
                    inputs + self.shift(each.rank, Buffer.INPUT),
                    outputs + self.shift(each.rank, Buffer.OUTPUT),
                )
                both = (word, word + size)
                row = {Buffer.INPUT: both, Buffer.OUTPUT: both}
                word += size
            else:
                row = {
                    Buffer.INPUT: (word, word + inputs),
                    Buffer.OUTPUT: (word + inputs, word + inputs + outputs),
                }
                word += inputs + outputs
            row[Buffer.SCRATCH] = (word, word + scratch)
            word += scratch
            found.append(row)
        return found

    def half(self, rank: int) -> int:
        """Words of scratch that one call uses."""
        return self.plan.ranks[rank].scratch_chunks * self.chunk // 8 * (2 if self.plan.moves_packets else 1)

    def shift(self, rank: int, buffer: Buffer) -> int:
        """Words from the beginning of an allocation to a user's buffer in it."""
        if not self.plan.in_place:
            return 0
        if self.plan.collective == "allgather" and buffer is Buffer.INPUT:
            return rank * self.plan.ranks[rank].input_chunks * self.chunk // 8
        if self.plan.collective == "reducescatter" and buffer is Buffer.OUTPUT:
            return rank * self.plan.ranks[rank].output_chunks * self.chunk // 8
        return 0
