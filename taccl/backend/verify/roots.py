"""Find the root of a rooted collective: the file format has no word for it."""

from __future__ import annotations

from collections import Counter

from taccl.backend.verify.columns import OUTPUT
from taccl.backend.verify.expected import Expectation
from taccl.backend.verify.memory import Memory
from taccl.backend.verify.symbolic import Trace


def find_root(expectation: Expectation, memory: Memory, trace: Trace) -> int:
    """The rank that the outputs speak for, from an execution in which every rank had input.

    Broadcast and Scatter: the rank whose data most output chunks hold. Reduce and Gather: the rank
    whose output holds the contributions of the most ranks. A program that is right for any root is
    right for this one.
    """
    ranks = len(memory.base)
    votes: Counter[int] = Counter(dict.fromkeys(range(ranks), 0))
    collects = expectation.collective in ("reduce", "gather")
    for rank in range(ranks):
        base, size = int(memory.base[rank, OUTPUT]), int(memory.size[rank, OUTPUT])
        seen = 0
        for number in trace.cells[base : base + size]:
            for offset, contributing, _ in trace.values[number]:
                if offset < 0:
                    continue
                seen |= contributing
                if not collects and contributing & (contributing - 1) == 0:
                    votes[contributing.bit_length() - 1] += 1
        if collects:
            votes[rank] = bin(seen).count("1")
    return max(range(ranks), key=lambda rank: votes[rank])
