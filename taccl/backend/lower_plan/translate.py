"""A two-sided program to a plan: who sent writes into the receiver's memory, and tells it so.

It knows the program and the plan, not where the program came from, and it owes nothing to the verifier.
Each pair of thread blocks has a channel of its own, each message a place that nobody else touches meanwhile,
and dependencies between thread blocks of a rank become semaphores. A thread block with too many operations is
taken apart into several, one after the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from taccl.backend.lower_plan.emit import Emitter
from taccl.backend.lower_plan.fits import MAX_OPERATIONS
from taccl.backend.lower_plan.places import (
    ADDING,
    Aliases,
    Landings,
    Place,
    aliases,
    find_landings,
    source,
    target,
    writes,
)
from taccl.backend.lower_plan.resources import Resources
from taccl.backend.lower_plan.steps import Block, Message, Node, Steps, read_steps
from taccl.backend.plan import Channel, ExecutionPlan, OpName, PlanBlock, Range, RankPlan
from taccl.backend.program import Buffer, Op, Program
from taccl.errors import CollectiveError

#: By collective, whether (input, output) is cut into a part for each rank.
_CUT = {
    "allgather": (True, False),
    "reducescatter": (False, True),
    "allreduce": (False, False),
    "alltoall": (False, False),
    "broadcast": (False, False),
}
#: Those that the runtime's callers know.
COLLECTIVES = tuple(_CUT)
#: As PyTorch calls them.
_USUALLY_IN_PLACE = frozenset({"allreduce", "broadcast"})
#: Operations with which parts of a thread block wait for each other.
_BETWEEN_PARTS = 8


def plain_name(collective: str) -> str:
    """A collective as plans spell it."""
    return collective.lower().replace("_", "").replace("-", "")


def translate(
    program: Program, node_of: Sequence[int] | None = None, *, in_place: bool | None = None
) -> ExecutionPlan:
    """The plan that moves and adds up what a program does.

    Parameters
    ----------
    program : one that passed verification.
    node_of : by rank, the node that it is in; None: all are in one.
    in_place : which calls it is for; a plan is never for both. None: those that the program can serve, and
        where it can serve both, those that are usual: AllReduce and Broadcast in place, others not.

    Raises
    ------
    CollectiveError : MSCCL++ has no such collective, or the program cannot serve such calls.
    VerificationError : not a program that any runtime executes.
    ProgramLimitError : more steps than can be looked through.
    """
    name = plain_name(program.collective)
    if name not in _CUT:
        raise CollectiveError(
            f"MSCCL++ knows no {program.collective}", hint=f"it knows {', '.join(COLLECTIVES)}"
        )
    in_place = _in_place(program, name, in_place)
    part = program.chunks_per_loop // program.num_ranks
    names = aliases(name, program.num_ranks, part, in_place)
    where = (0,) * program.num_ranks if node_of is None else node_of
    cuts: dict[tuple[int, int], list[int]] = {}
    while True:
        steps = read_steps(program, cuts)
        translation = _Translation(steps, names, find_landings(steps, names), where)
        ranks = translation.run()
        more = _finer(steps, translation.ends, cuts)
        if more == cuts:
            break
        cuts = more
    sizes = [part if is_cut else program.chunks_per_loop for is_cut in _CUT[name]]
    plan = ExecutionPlan(
        name="",
        collective=name,
        protocol="Simple",
        in_place=in_place,
        ranks=tuple(replace(rank, input_chunks=sizes[0], output_chunks=sizes[1]) for rank in ranks),
        min_bytes=min(program.min_bytes, 2**31 - 1),
        max_bytes=program.max_bytes,
    )
    # Plans of one name share their state.
    digest = hashlib.sha256(repr(plan).encode()).hexdigest()[:8]
    return replace(plan, name=f"{program.name}_{name}_{program.num_ranks}_{digest}")


def _in_place(program: Program, name: str, asked: bool | None) -> bool:
    """Which calls the plan is for. Out of place, a plan leaves the input alone; a program need not."""
    apart = program.out_of_place and not _writes_input(program)
    if asked is None and (apart or program.in_place):
        return program.in_place and (name in _USUALLY_IN_PLACE or not apart)
    if asked and program.in_place or asked is False and apart:
        return bool(asked)
    if asked is not True and program.out_of_place:
        raise CollectiveError(
            "the program writes into the input of calls out of place, which a plan must leave alone",
            hint="a plan for calls in place, if the program can serve them",
        )
    way = "in place" if asked else "out of place"
    raise CollectiveError(f"the program serves no calls {way}", hint="a plan for the other calls")


def _writes_input(program: Program) -> bool:
    return any(
        writes(step) and step.dst is Buffer.INPUT
        for rank in program.ranks
        for block in rank.thread_blocks
        for step in block.steps
    )


def _finer(
    steps: Steps, ends: Sequence[Sequence[int]], cuts: Mapping[tuple[int, int], list[int]]
) -> dict[tuple[int, int], list[int]]:
    """The cuts, and some in all thread blocks with too many operations.

    Parameters
    ----------
    ends : by thread block, how many operations it has after each of its steps.
    """
    finer = {key: list(places) for key, places in cuts.items()}
    for block, counts in zip(steps.blocks, ends, strict=True):
        if not counts or counts[-1] <= MAX_OPERATIONS:
            continue
        parts = -(-counts[-1] // (MAX_OPERATIONS - _BETWEEN_PARTS))
        wanted, start = -(-counts[-1] // parts), 0
        for at in range(1, len(counts)):
            if counts[at] - start > wanted:
                finer.setdefault((block.rank, block.id), []).append(block.first + at)
                start = counts[at - 1]
    return {key: sorted(set(places)) for key, places in finer.items()}


class _Translation:
    """One translation; `ends` has for each thread block how many operations there are after each step."""

    def __init__(self, steps: Steps, names: Aliases, landings: Landings, node_of: Sequence[int]) -> None:
        self.steps, self.names, self.landings = steps, names, landings
        self.resources = Resources(steps, node_of)
        self.semaphores = [0] * steps.program.num_ranks
        self.acquires: dict[int, list[int]] = {}
        self.releases: dict[int, list[int]] = {}
        self._pair_blocks()
        self.handshakes = self._find_handshakes()
        self.ends: list[list[int]] = []

    def run(self) -> list[RankPlan]:
        blocks: list[list[PlanBlock]] = [[] for _ in self.semaphores]
        for number, block in enumerate(self.steps.blocks):
            made = self._block(block)
            if made.operations:
                blocks[block.rank].append(self._plan_block(number, len(blocks[block.rank]), made))
        return [
            RankPlan(
                rank=rank,
                input_chunks=0,
                output_chunks=0,
                scratch_chunks=self.landings.scratch[rank],
                blocks=tuple(mine) or (PlanBlock(0, ()),),
                channels=self.resources.rank_channels(rank),
                remote_buffers=self.resources.remote_buffers(rank),
                semaphores=(0,) * self.semaphores[rank],
            )
            for rank, mine in enumerate(blocks)
        ]

    def _plan_block(self, number: int, block_id: int, made: Emitter) -> PlanBlock:
        names = self.resources.blocks[number]
        return PlanBlock(block_id, tuple(made.operations), names.block_channels(), names.block_remotes())

    def _pair_blocks(self) -> None:
        """A semaphore for each wait for another thread block of the rank that nothing else keeps."""
        nodes, known = self.steps.nodes, self.steps.known
        for node in nodes:
            waits = self.steps.before[node.index]
            for wait in waits:
                other = nodes[wait]
                is_implied = any(known[each, other.block] > other.at for each in waits if each != wait)
                if other.block == node.block or other.rank != node.rank or is_implied:
                    continue
                self.releases.setdefault(wait, []).append(self.semaphores[node.rank])
                self.acquires.setdefault(node.index, []).append(self.semaphores[node.rank])
                self.semaphores[node.rank] += 1

    def _find_handshakes(self) -> frozenset[int]:
        """The messages whose sender must be told first that the receiver's kernel has begun."""
        begun = [0] * len(self.steps.nodes)
        asked = set()
        for index in self.steps.order:
            node = self.steps.nodes[index]
            begun[index] = 1 << node.rank
            for wait in self.steps.before[index]:
                begun[index] |= begun[wait]
            message = self.steps.sent.get(index)
            if message is not None and not begun[index] >> message.dst & 1:
                asked.add(index)
                begun[index] |= 1 << message.dst
        return frozenset(asked)

    def _block(self, block: Block) -> Emitter:
        made = Emitter()
        mine = [self.steps.nodes[index] for index in block.nodes]
        heard = [
            (self.steps.received[node.index], node) for node in mine if node.index in self.steps.received
        ]
        made.tell_started([self._end(each, node) for each, node in heard if each.send in self.handshakes])
        ends = []
        for node in mine:
            self._node(node, made)
            ends.append(len(made.operations))
        made.finish()
        self.ends.append(ends)
        return made

    def _end(self, message: Message, node: Node) -> tuple[Channel, int]:
        """Its thread block's end of the channel of a message."""
        kind = self.resources.kind(message.src, message.dst)
        return kind, self.resources.channel(node.block, message.connection)

    def _node(self, node: Node, made: Emitter) -> None:
        for semaphore in self.acquires.get(node.index, ()):
            made.acquire(semaphore)
        received, sent = self.steps.received.get(node.index), self.steps.sent.get(node.index)
        if received is not None:
            made.wait(*self._end(received, node))
        if sent is not None and node.index in self.handshakes:
            made.wait(*self._end(sent, node), relaxed=True)
        self._work(node, received, sent, made)
        if node.index in self.releases:
            made.release(self.releases[node.index])

    def _work(self, node: Node, received: Message | None, sent: Message | None, made: Emitter) -> None:
        op, step = node.step.op, node.step
        wanted = target(step, node.rank, self.names)
        if op is Op.COPY:
            taken = source(step, node.rank, self.names)
            if taken != wanted:
                made.work(OpName.COPY, [taken], [wanted])
        elif op is Op.REDUCE:
            made.work(OpName.REDUCE, [wanted, source(step, node.rank, self.names)], [wanted])
        elif op is Op.SEND and sent is not None:
            self._put(node, sent, source(step, node.rank, self.names), made)
        elif received is not None and op in ADDING:
            self._add(node, received, sent, made)
        elif received is not None:
            landed = self.landings.at[received.send]
            if sent is not None:
                self._put(node, sent, landed, made)
            if received.send not in self.landings.direct:
                made.work(OpName.COPY, [landed], [wanted])

    def _add(self, node: Node, received: Message, sent: Message | None, made: Emitter) -> None:
        landed = self.landings.at[received.send]
        stored = target(node.step, node.rank, self.names) if writes(node.step) else landed
        reads = [source(node.step, node.rank, self.names), landed]
        if sent is None:
            made.work(OpName.REDUCE, reads, [stored])
            return
        kind, channel = self._end(sent, node)
        if kind is Channel.MEMORY:
            made.work(OpName.REDUCE_SEND, reads, [stored], [self._remote(node, sent)], kind)
            made.signal(kind, channel)
        else:
            made.work(OpName.REDUCE, reads, [stored])
            self._put(node, sent, stored, made)

    def _put(self, node: Node, message: Message, taken: Place, made: Emitter) -> None:
        kind, channel = self._end(message, node)
        there = self._remote(node, message)
        if kind is Channel.MEMORY:
            made.work(OpName.PUT, [taken], [], [there], kind)
            made.signal(kind, channel)
        else:
            made.push(OpName.PUT_SIGNAL_FLUSH, channel, [taken], [there])

    def _remote(self, node: Node, message: Message) -> Range:
        place = self.landings.at[message.send]
        number = self.resources.remote(node.rank, node.block, message.dst, place.buffer)
        return Range(place.index, place.size, remote=number)
