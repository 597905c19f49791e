"""The runtime's interpreter in miniature: run a program with numbers, in a random order.

Written from the description of the device code, step by step, with no thought of analysis, so that
`verify` can be judged by it. One iteration, whole steps, bounded connections. Outcomes: "right",
"wrong" (some output, or an input that must stay, is off) or "hangs".
"""

from __future__ import annotations

import random
from collections import defaultdict, deque

from taccl.backend.program import Buffer, Op

PRIME = 2**61 - 1
SLOTS = {"Simple": 2, "LL": 8, "LL128": 8}


class OutOfBounds(Exception):
    pass


class _Buffers:
    """Memory of all ranks in one mode; in place, `i` and `o` of a rank share it."""

    def __init__(self, program, in_place, dice):
        n, chunks = program.num_ranks, program.chunks_per_loop
        name = program.collective.replace("_", "")
        part = chunks // n
        self.inputs = part if name == "allgather" else chunks
        self.outputs = part if name == "reducescatter" else chunks
        self.scratch = [rank.scratch_chunks for rank in program.ranks]
        self.in_place = in_place
        shift = {"allgather": part, "reducescatter": -part}.get(name, 0)
        self.shift = [rank * shift for rank in range(n)]
        self.cells = defaultdict(lambda: dice.randrange(PRIME))  # garbage until written
        self.initial = [[dice.randrange(PRIME) for _ in range(self.inputs)] for _ in range(n)]
        for rank in range(n):
            for k in range(self.inputs):
                self.cells[self.address(rank, Buffer.INPUT, k)] = self.initial[rank][k]
        data = self.initial
        total = [sum(data[r][k] for r in range(n)) % PRIME for k in range(self.inputs)]
        self.wanted = {
            "allreduce": lambda r, k: total[k],
            "reducescatter": lambda r, k: total[r * part + k],
            "allgather": lambda r, k: data[k // part][k % part],
            "alltoall": lambda r, k: data[k // part][r * part + k % part],
        }[name]

    def address(self, rank, buffer, offset):
        size = {Buffer.INPUT: self.inputs, Buffer.OUTPUT: self.outputs, Buffer.SCRATCH: self.scratch[rank]}
        if not 0 <= offset < size[buffer]:
            raise OutOfBounds
        if buffer is Buffer.SCRATCH:
            return rank, "s", offset
        if self.in_place and buffer is Buffer.INPUT:
            return rank, "o", offset + self.shift[rank]
        return rank, buffer.value, offset

    def verdict(self, program):
        for rank in range(program.num_ranks):
            for k in range(self.outputs):
                if self.cells[self.address(rank, Buffer.OUTPUT, k)] != self.wanted(rank, k):
                    return "wrong"
            if not self.in_place:
                for k in range(self.inputs):
                    if self.cells[rank, "i", k] != self.initial[rank][k]:
                        return "wrong"
        return "right"


def _transfers(steps):
    """What a parser makes of the steps of a block: [kind, step, waits, sources, number, publishes]."""
    made, pending, mergeable, reductions, number = [], [], None, 0, 0
    for step in steps:
        if step.depends is not None:
            pending.append(step.depends)
        if step.op is Op.NOP:
            continue
        key = (step.dst, step.dst_offset, step.src)
        if step.op is Op.REDUCE and step.depends is None and mergeable == key:
            made[-1]["sources"].append(step.src_offset)
            made[-1].update(step=step, number=made[-1]["number"] + 1)
            number += 1
        else:
            number += max(0, len(pending) - 1)
            made.append({"step": step, "waits": pending, "sources": [step.src_offset], "number": number})
            number += 1
            pending = []
        mergeable = None
        if step.op is Op.REDUCE:
            reductions += 1
            if not step.has_dependent and reductions != 16:
                mergeable = key
    return made


def run(program, in_place, seed, slots=None):
    """One execution in a random order: "right", "wrong" or "hangs"."""
    dice = random.Random(seed)
    slots = SLOTS[program.protocol.value] if slots is None else slots
    memory = _Buffers(program, in_place, dice)
    connections = defaultdict(deque)
    flags = defaultdict(lambda: -1)
    blocks = [
        (rank.rank, block, _transfers(block.steps), [0])
        for rank in program.ranks
        for block in rank.thread_blocks
    ]
    # A few blocks are favoured, so that orders far from lockstep come up too.
    weights = [dice.choice((1, 1, 10, 100)) for _ in blocks]
    waiting = set(range(len(blocks)))
    try:
        while waiting:
            candidates = sorted(waiting)
            turn = dice.choices(candidates, [weights[c] for c in candidates])[0]
            rank, block, transfers, at = blocks[turn]
            if at[0] == len(transfers):
                waiting.discard(turn)
                continue
            if _try(memory, connections, flags, slots, rank, block, transfers[at[0]]):
                at[0] += 1
                waiting = set(range(len(blocks)))
            else:
                waiting.discard(turn)
    except OutOfBounds:
        return "wrong"
    if any(at[0] < len(transfers) for _, _, transfers, at in blocks):
        return "hangs"
    if any(connections.values()):
        return "wrong"  # pieces left over go to the next call
    return memory.verdict(program)


def _try(memory, connections, flags, slots, rank, block, transfer):
    """Do one transfer if it can be done now."""
    step = transfer["step"]
    if any(flags[rank, b] < s for b, s in transfer["waits"]):
        return False
    into = (block.channel, block.recv, rank) if step.op.receives else None
    out = (block.channel, rank, block.send) if step.op.sends else None
    if into and (block.recv < 0 or not connections[into]):
        return False
    if out and (block.send < 0 or len(connections[out]) >= slots):
        return False

    def load(buffer, offset):
        return [memory.cells[memory.address(rank, buffer, offset + k)] for k in range(step.count)]

    def plus(a, b):
        return [(x + y) % PRIME for x, y in zip(a, b, strict=True)]

    content = connections[into].popleft() if into else None
    if content is not None and len(content) != step.count:
        raise OutOfBounds
    if step.op in (Op.SEND, Op.COPY):
        content = load(step.src, step.src_offset)
    elif step.op is Op.REDUCE:
        content = load(step.dst, step.dst_offset)
        for offset in transfer["sources"]:
            content = plus(content, load(step.src, offset))
    elif step.op not in (Op.RECV, Op.RECV_COPY_SEND):
        content = plus(content, load(step.src, step.src_offset))
    if step.op not in (Op.SEND, Op.RECV_REDUCE_SEND):
        for k, value in enumerate(content):
            memory.cells[memory.address(rank, step.dst, step.dst_offset + k)] = value
    if out:
        connections[out].append(content)
    if step.has_dependent:
        flags[rank, block.id] = transfer["number"]
    return True


def outcomes(program, runs, seed=0):
    """The outcomes that occur in some random orders, in the mode in which microsoft/msccl calls it."""
    if program.in_place and program.collective == "alltoall":
        return set()  # the library refuses such calls
    return {run(program, program.in_place, seed + k) for k in range(runs)}
