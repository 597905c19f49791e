"""Find the root of a rooted collective: the file format has no word for it."""

from __future__ import annotations

from taccl.backend.machine.expected import Expectation
from taccl.backend.verify.msccl_xml.columns import OUTPUT
from taccl.backend.verify.msccl_xml.memory import Memory
from taccl.backend.verify.msccl_xml.symbolic import Trace


def find_root(expectation: Expectation, memory: Memory, trace: Trace) -> int:
    """The rank that the outputs speak for, from an execution in which every rank had input.

    Broadcast and Scatter: the rank whose data most output chunks hold. Reduce and Gather: the rank
    whose output has the most right chunks. A program that is right for some root is right for this one.

    Parameters
    ----------
    expectation : for any root.
    """
    if expectation.collective in ("reduce", "gather"):
        votes = _right_chunks(expectation, memory, trace)
    else:
        votes = _chunks_of(memory, trace)
    return max(range(len(votes)), key=votes.__getitem__)


def _right_chunks(expectation: Expectation, memory: Memory, trace: Trace) -> list[int]:
    """Per rank, output chunks that hold what the root's should."""
    wanted = [trace.values.number(alternatives[0]) for alternatives in expectation.values]
    return [
        sum(a == b for a, b in zip(_output(memory, trace, rank), wanted, strict=True))
        for rank in range(len(memory.base))
    ]


def _chunks_of(memory: Memory, trace: Trace) -> list[int]:
    """Per rank, output chunks over all ranks that hold a chunk of its input."""
    votes = [0] * len(memory.base)
    for rank in range(len(memory.base)):
        for number in _output(memory, trace, rank):
            offset, ranks, _ = trace.values[number][0]
            if offset >= 0 and ranks & (ranks - 1) == 0:
                votes[ranks.bit_length() - 1] += 1
    return votes


def _output(memory: Memory, trace: Trace, rank: int) -> list[int]:
    base, size = int(memory.base[rank, OUTPUT]), int(memory.size[rank, OUTPUT])
    return trace.cells[base : base + size]
