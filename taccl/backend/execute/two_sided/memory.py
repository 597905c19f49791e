"""The three buffers of a rank as NumPy arrays, and the look before any step is run.

Memory that nobody has written holds NaN (for integers, random numbers), so that reading it shows.
"""

from __future__ import annotations

from dataclasses import dataclass

from taccl.backend.execute.call import Call
from taccl.backend.execute.reference import Array
from taccl.backend.program import Buffer, Op, Program, Step
from taccl.errors import VerificationError

_READS = frozenset(Op) - {Op.RECV, Op.RECV_COPY_SEND, Op.NOP}
_WRITES = frozenset(Op) - {Op.SEND, Op.RECV_REDUCE_SEND, Op.NOP}
_SHOWN = 10


@dataclass(frozen=True, eq=False)
class Memory:
    """Buffers of one rank, each an array of elements of `data`; in place, input and output overlap."""

    data: Array
    buffers: dict[Buffer, Array]

    def view(self, buffer: Buffer, first: int, count: int) -> Array:
        """Elements `first` .. `first + count - 1`, not a copy."""
        return self.buffers[buffer][first : first + count]


def memory_elements(call: Call, program: Program, rank: int) -> int:
    """Elements that all buffers of a rank take together."""
    return _places(call, program, rank)[-1]


def lay_out(call: Call, program: Program, rank: int, data: Array) -> Memory:
    """The buffers of a rank as views of `data`, shape (memory_elements,)."""
    start_in, start_out, start_scratch, _ = _places(call, program, rank)
    return Memory(
        data,
        {
            Buffer.INPUT: data[start_in : start_in + int(call.input_size[rank])],
            Buffer.OUTPUT: data[start_out : start_out + int(call.output_size[rank])],
            Buffer.SCRATCH: data[start_scratch:],
        },
    )


def _places(call: Call, program: Program, rank: int) -> tuple[int, int, int, int]:
    """Where input, output and scratch start, and where all ends."""
    inputs, outputs = int(call.input_size[rank]), int(call.output_size[rank])
    scratch = max(0, program.ranks[rank].scratch_chunks) * call.chunk
    if not call.in_place:
        return 0, inputs, inputs + outputs, inputs + outputs + scratch
    shift = int(call.in_place_shift[rank])
    start_in, start_out = max(shift, 0), max(-shift, 0)
    both = max(start_in + inputs, start_out + outputs)
    return start_in, start_out, both, both + scratch


def check_executable(call: Call, program: Program) -> None:
    """Refuse steps that reach outside their buffers, and ends of connections that do not fit.

    Raises
    ------
    VerificationError : it has; a real runtime would read, write or send where it must not.
    """
    findings = _outside(call, program) + _bad_ends(program)
    if findings:
        more = [f"and {len(findings) - _SHOWN} more"] if len(findings) > _SHOWN else []
        raise VerificationError(
            "the program cannot be executed",
            findings=[*findings[:_SHOWN], *more],
            hint="taccl verify tells more",
        )


def _outside(call: Call, program: Program) -> list[str]:
    findings = []
    for rank in program.ranks:
        room = {
            Buffer.INPUT: int(call.input_size[rank.rank]) // call.chunk,
            Buffer.OUTPUT: int(call.output_size[rank.rank]) // call.chunk,
            Buffer.SCRATCH: max(0, rank.scratch_chunks),
        }
        for block in rank.thread_blocks:
            for index, step in enumerate(block.steps):
                wrong = _step_fault(step, room, block.send, block.recv)
                if wrong is not None:
                    place = f"rank {rank.rank}, thread block {block.id}, step {index} ({step.op.value})"
                    line = "" if step.line is None else f"line {step.line}: "
                    findings.append(f"{line}{place} {wrong}")
    return findings


def _step_fault(step: Step, room: dict[Buffer, int], send: int, recv: int) -> str | None:
    if step.op is Op.NOP:
        return None
    if step.op.sends and send < 0:
        return "sends, but its thread block has no send peer"
    if step.op.receives and recv < 0:
        return "receives, but its thread block has no receive peer"
    if step.count < 1:
        return f"has a cnt of {step.count}"
    for used, buffer, offset, verb in (
        (_READS, step.src, step.src_offset, "reads"),
        (_WRITES, step.dst, step.dst_offset, "writes"),
    ):
        if step.op in used and (offset < 0 or offset + step.count > room[buffer]):
            last = f" .. {offset + step.count - 1}" if step.count > 1 else ""
            return f"{verb} chunk {offset}{last} of buffer {buffer.value}, which has {room[buffer]}"
    return None


def _bad_ends(program: Program) -> list[str]:
    """Peers that are no other rank, and connections with two thread blocks at one end."""
    findings = []
    taken: dict[tuple[str, int, int, int], int] = {}
    for rank in program.ranks:
        for block in rank.thread_blocks:
            for verb, peer in (("send to", block.send), ("receive from", block.recv)):
                if peer < 0:
                    continue
                where = f"rank {rank.rank}, thread block {block.id}"
                if peer >= program.num_ranks or peer == rank.rank:
                    findings.append(f"{where} cannot {verb} rank {peer}")
                other = taken.setdefault((verb, rank.rank, block.channel, peer), block.id)
                if other != block.id:
                    findings.append(
                        f"{where} and thread block {other} both {verb} rank {peer} on channel {block.channel}"
                    )
    return findings
