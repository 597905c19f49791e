"""Random damage to plans: one thing changed, as a slip of a writer or of a generator would."""

import random
from collections.abc import Callable
from dataclasses import replace

from taccl.backend.plan import (
    Barrier,
    BlockChannels,
    BlockRemotes,
    Channel,
    ExecutionPlan,
    Operation,
    OpName,
    PlanBlock,
    Range,
    RankChannels,
    RankPlan,
    Share,
    Turns,
)
from taccl.backend.program import Buffer

KIN = (
    {OpName.SIGNAL, OpName.RELAXED_SIGNAL},
    {OpName.WAIT, OpName.RELAXED_WAIT},
    {OpName.PUT, OpName.PUT_SIGNAL, OpName.PUT_SIGNAL_FLUSH},
    {OpName.RELEASE, OpName.ACQUIRE},
    {OpName.REDUCE_PACKETS, OpName.REDUCE_COPY_PACKETS},
    {OpName.READ_REDUCE, OpName.READ_REDUCE_SEND},
    {OpName.REDUCE, OpName.REDUCE_SEND},
    {OpName.NOP, OpName.BARRIER},
    {OpName.SWITCH_STORE, OpName.SWITCH_REDUCE_STORE},
)


def without(plan: ExecutionPlan, rank: int, block: int, step: int) -> ExecutionPlan:
    """A plan that lacks one operation."""

    def lacks(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
        return operations[:step] + operations[step + 1 :]

    return _with_operations(plan, rank, block, lacks)


def mutate(dice: random.Random, plan: ExecutionPlan) -> tuple[str, ExecutionPlan]:
    """What was done (its kind, a colon, and where), and the plan with that done; perhaps the same."""
    most = [_operations, _operations, _operations, _operand, _operand, _field, _field, _block, _block]
    kind = dice.choice([*most, _rank, _kinds, _plan])
    return kind(dice, plan)


def _with_block(
    plan: ExecutionPlan, rank: int, block: int, change: Callable[[PlanBlock], PlanBlock]
) -> ExecutionPlan:
    chosen = plan.ranks[rank]
    blocks = list(chosen.blocks)
    blocks[block] = change(blocks[block])
    return _with_rank(plan, rank, replace(chosen, blocks=tuple(blocks)))


def _with_rank(plan: ExecutionPlan, rank: int, chosen: RankPlan) -> ExecutionPlan:
    return replace(plan, ranks=(*plan.ranks[:rank], chosen, *plan.ranks[rank + 1 :]))


def _with_operations(
    plan: ExecutionPlan,
    rank: int,
    block: int,
    change: Callable[[tuple[Operation, ...]], tuple[Operation, ...]],
) -> ExecutionPlan:
    return _with_block(plan, rank, block, lambda each: replace(each, operations=change(each.operations)))


def _somewhere(dice: random.Random, plan: ExecutionPlan) -> tuple[int, int]:
    rank = dice.randrange(plan.num_ranks)
    return rank, dice.randrange(len(plan.ranks[rank].blocks))


def _inside(
    dice: random.Random, change: Callable[[list[Operation]], str], said: list[str]
) -> Callable[[tuple[Operation, ...]], tuple[Operation, ...]]:
    """A change of the operations of a block, or of those of a pipeline in it."""

    def changed(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
        some = list(operations)
        pipelines = [k for k, each in enumerate(some) if each.inner]
        if pipelines and dice.random() < 0.7:
            at = dice.choice(pipelines)
            inner = list(some[at].inner)
            said.append(f"in pipeline {at}: {change(inner)}")
            some[at] = replace(some[at], inner=tuple(inner))
        elif some:
            said.append(change(some))
        return tuple(some)

    return changed


def _operations(dice: random.Random, plan: ExecutionPlan) -> tuple[str, ExecutionPlan]:
    rank, block = _somewhere(dice, plan)
    said: list[str] = []

    def change(some: list[Operation]) -> str:
        if not some:
            return "nothing"
        at, other = dice.randrange(len(some)), dice.randrange(len(some))
        what = dice.choice(["lose", "lose", "swap", "swap", "move", "repeat", "rename"])
        name = some[at].name.value
        if what == "lose":
            del some[at]
        elif what == "swap":
            other = min(at + 1, len(some) - 1)
            some[at], some[other] = some[other], some[at]
        elif what == "move":
            some.insert(other, some.pop(at))
        elif what == "repeat":
            some.insert(other, some[at])
        else:
            kin = next((each for each in KIN if some[at].name in each), {some[at].name})
            chosen = dice.choice(sorted(kin))
            barrier = Barrier(0, 1) if chosen is OpName.BARRIER else None
            some[at] = replace(some[at], name=chosen, barrier=some[at].barrier or barrier)
        done.append(f"{what} {'a nop' if name == 'nop' else 'an operation'}")
        return f"{what} {at} ({name}) {other}"

    done: list[str] = []
    mutant = _with_operations(plan, rank, block, _inside(dice, change, said))
    return f"{done[0] if done else 'nothing'}: rank {rank}, block {block}, {' '.join(said)}", mutant


def _operand(dice: random.Random, plan: ExecutionPlan) -> tuple[str, ExecutionPlan]:
    rank, block = _somewhere(dice, plan)
    said: list[str] = []

    def change(some: list[Operation]) -> str:
        rows = [k for k, each in enumerate(some) if each.sources or each.targets]
        if not rows:
            return "nothing"
        at = dice.choice(rows)
        key = dice.choice([key for key in ("sources", "targets") if getattr(some[at], key)])
        ranges: list[Range] = list(getattr(some[at], key))
        place = dice.randrange(len(ranges))
        each = ranges[place]
        what = dice.choice(["index", "index", "size", "sizes", "whose", "order", "fewer", "more"])
        if what == "index":
            ranges[place] = replace(each, index=max(0, each.index + dice.choice([-2, -1, 1, 2])))
        elif what == "size":
            ranges[place] = replace(each, size=max(1, each.size + dice.choice([-1, 1])))
        elif what == "sizes":  # of all ranges equivalent
            by = dice.choice([-1, 1])
            for side in ("sources", "targets"):
                equivalent = [replace(one, size=max(1, one.size + by)) for one in getattr(some[at], side)]
                some[at] = replace(some[at], **{side: tuple(equivalent)})
            ranges = list(getattr(some[at], key))
        elif what == "more":
            ranges.append(replace(each, index=max(0, each.index + dice.choice([-1, 0, 1]))))
        elif what == "order":
            dice.shuffle(ranges)
        elif what == "fewer" and len(ranges) > 1:
            del ranges[place]
        elif each.buffer is not None:
            ranges[place] = replace(each, buffer=dice.choice(list(Buffer)))
        elif each.remote is not None:
            ranges[place] = replace(each, remote=max(0, each.remote + dice.choice([-1, 1])))
        elif each.switch is not None:
            ranges[place] = replace(each, switch=max(0, each.switch + dice.choice([-1, 1])))
        some[at] = replace(some[at], **{key: tuple(ranges)})
        done.append(f"{what} of {key}")
        return f"{what} of {key}[{place}] of {at} ({some[at].name.value})"

    done: list[str] = []
    mutant = _with_operations(plan, rank, block, _inside(dice, change, said))
    return f"{done[0] if done else 'nothing'}: rank {rank}, block {block}, {' '.join(said)}", mutant


def _field(dice: random.Random, plan: ExecutionPlan) -> tuple[str, ExecutionPlan]:
    rank, block = _somewhere(dice, plan)
    said: list[str] = []

    def change(some: list[Operation]) -> str:
        if not some:
            return "nothing"
        at = dice.randrange(len(some))
        each = some[at]
        if each.channels:
            numbers = list(each.channels)
            numbers[dice.randrange(len(numbers))] = dice.randrange(4)
            if dice.random() < 0.4:
                dice.shuffle(numbers)
            some[at] = replace(each, channels=tuple(numbers[: dice.choice([1, 8, 8])]))
        elif each.semaphores:
            some[at] = replace(each, semaphores=tuple(dice.randrange(4) for _ in each.semaphores))
        elif each.barrier is not None:
            barrier = Barrier(dice.randrange(3), max(1, each.barrier.num_blocks + dice.choice([-1, 0, 1])))
            some[at] = replace(each, barrier=barrier)
        elif each.turns is not None:
            turns = Turns(each.turns.unit_bytes, max(1, each.turns.num_chunks + dice.choice([-1, 1])))
            some[at] = replace(each, turns=turns)
        if each.share is not None and dice.random() < 0.7:
            parts = max(1, each.share.parts + dice.choice([-1, 0, 1]))
            some[at] = replace(some[at], share=Share(dice.randrange(parts), parts))
        if some[at] != each:
            names = ("channels", "semaphores", "barrier", "turns", "share")
            changed = [name for name in names if getattr(some[at], name) != getattr(each, name)]
            done.append(f"{' and '.join(changed)} of an operation")
        return f"fields of {at} ({each.name.value})"

    done: list[str] = []
    mutant = _with_operations(plan, rank, block, _inside(dice, change, said))
    return f"{done[0] if done else 'nothing'}: rank {rank}, block {block}, {' '.join(said)}", mutant


def _block(dice: random.Random, plan: ExecutionPlan) -> tuple[str, ExecutionPlan]:
    rank, block = _somewhere(dice, plan)
    chosen = plan.ranks[rank]
    what = dice.choice(["channels", "remotes", "peers", "access", "scratch", "semaphore", "two blocks"])

    def shuffled(numbers: tuple[int, ...], most: int) -> tuple[int, ...]:
        some = list(numbers)
        if dice.random() < 0.5 and some and most:
            some[dice.randrange(len(some))] = dice.randrange(most)
        else:
            dice.shuffle(some)
        return tuple(some)

    if what == "channels":
        mutant = _with_block(
            plan,
            rank,
            block,
            lambda each: replace(
                each,
                channels=tuple(
                    BlockChannels(
                        row.kind,
                        shuffled(
                            row.ids,
                            len(chosen.switches if row.kind is Channel.SWITCH else chosen.peers_of(row.kind)),
                        ),
                    )
                    for row in each.channels
                ),
            ),
        )
    elif what == "remotes":
        mutant = _with_block(
            plan,
            rank,
            block,
            lambda each: replace(
                each,
                remotes=tuple(
                    BlockRemotes(row.kind, shuffled(row.ids, len(chosen.remote_buffers)))
                    for row in each.remotes
                ),
            ),
        )
    elif what == "peers":
        rows = tuple(
            RankChannels(
                row.kind,
                shuffled(row.peers, 0),
                row.buffer,
                tuple(shuffled(group, 0) for group in row.groups),
            )
            for row in chosen.channels
        )
        mutant = _with_rank(plan, rank, replace(chosen, channels=rows))
    elif what == "access" and chosen.remote_buffers:
        remotes = list(chosen.remote_buffers)
        at = dice.randrange(len(remotes))
        remotes[at] = replace(remotes[at], buffer=dice.choice(list(Buffer)))
        mutant = _with_rank(plan, rank, replace(chosen, remote_buffers=tuple(remotes)))
    elif what == "semaphore" and chosen.semaphores:
        some = list(chosen.semaphores)
        some[dice.randrange(len(some))] += dice.choice([-1, 1])
        mutant = _with_rank(plan, rank, replace(chosen, semaphores=tuple(some)))
    elif what == "two blocks" and len(chosen.blocks) > 1:
        blocks = list(chosen.blocks)
        other = dice.randrange(len(blocks))
        blocks[block], blocks[other] = (
            replace(blocks[other], id=block),
            replace(blocks[block], id=other),
        )
        mutant = _with_rank(plan, rank, replace(chosen, blocks=tuple(blocks)))
    else:
        fewer = max(0, chosen.scratch_chunks - 1)
        mutant = _with_rank(plan, rank, replace(chosen, scratch_chunks=fewer))
    return f"{what} of a block: rank {rank}, block {block}", mutant


def _rank(dice: random.Random, plan: ExecutionPlan) -> tuple[str, ExecutionPlan]:
    """What a rank says of itself: its channels, its remote buffers, its sizes."""
    rank = dice.randrange(plan.num_ranks)
    chosen = plan.ranks[rank]
    what = dice.choice(
        ["lose a channel", "add a channel", "peer of a channel", "owner", "access", "chunks", "ids"]
    )
    if what.endswith("channel") and chosen.channels:
        at = dice.randrange(len(chosen.channels))
        row = chosen.channels[at]
        peers = list(row.peers)
        if peers:
            place = dice.randrange(len(peers))
            if what == "lose a channel":
                del peers[place]
            elif what == "add a channel":
                peers.insert(place, dice.choice(peers))
            else:
                peers[place] = dice.randrange(plan.num_ranks)
        row = _switch(dice, plan, row, what) if row.groups else replace(row, peers=tuple(peers))
        rows = (*chosen.channels[:at], row, *chosen.channels[at + 1 :])
        chosen = replace(chosen, channels=rows)
    elif what in ("owner", "access") and chosen.remote_buffers:
        remotes = list(chosen.remote_buffers)
        at = dice.randrange(len(remotes))
        if what == "owner":
            remotes[at] = replace(remotes[at], rank=dice.randrange(plan.num_ranks))
        else:
            remotes[at] = replace(remotes[at], access=dice.choice([(), (Channel.MEMORY,), (Channel.PORT,)]))
        chosen = replace(chosen, remote_buffers=tuple(remotes))
    elif what == "chunks":
        key = dice.choice(["input_chunks", "output_chunks", "scratch_chunks", "scratch_chunks"])
        chosen = replace(chosen, **{key: max(0, getattr(chosen, key) + dice.choice([-1, 1]))})
    elif what == "ids":
        at = dice.randrange(len(chosen.blocks))
        blocks = list(chosen.blocks)
        blocks[at] = replace(blocks[at], id=dice.randrange(len(blocks) + 1))
        chosen = replace(chosen, blocks=tuple(blocks))
    return f"{what} of a rank: rank {rank}", _with_rank(plan, rank, chosen)


def _switch(dice: random.Random, plan: ExecutionPlan, row: RankChannels, what: str) -> RankChannels:
    """Switch channels of a rank: a member or a channel fewer, a channel more, another buffer or member."""
    groups = list(row.groups)
    place = dice.randrange(len(groups))
    members = list(groups[place])
    if what == "lose a channel":
        groups[place : place + 1] = [tuple(members[1:])] * dice.randrange(2)
    elif what == "add a channel":
        groups.insert(place, groups[place])
    elif dice.random() < 0.5:
        return replace(row, buffer=dice.choice(list(Buffer)))
    else:
        members[dice.randrange(len(members))] = dice.randrange(plan.num_ranks)
        groups[place] = tuple(members)
    return replace(row, groups=tuple(groups))


def _kinds(dice: random.Random, plan: ExecutionPlan) -> tuple[str, ExecutionPlan]:
    """The kind of channel that an operation names."""
    rank, block = _somewhere(dice, plan)
    said: list[str] = []

    def change(some: list[Operation]) -> str:
        rows = [k for k, each in enumerate(some) if each.channel is not None]
        if not rows:
            return "nothing"
        at = dice.choice(rows)
        some[at] = replace(
            some[at], channel=dice.choice([None, Channel.MEMORY, Channel.PORT, Channel.SWITCH])
        )
        return f"kind of {at} ({some[at].name.value})"

    mutant = _with_operations(plan, rank, block, _inside(dice, change, said))
    return f"channel_type of an operation: rank {rank}, block {block}, {' '.join(said)}", mutant


def _plan(dice: random.Random, plan: ExecutionPlan) -> tuple[str, ExecutionPlan]:
    """What a plan says of itself as a whole."""
    what = dice.choice(["inplace", "halves", "protocol", "reuse", "alignment", "threads", "sizes"])
    if what == "inplace":
        mutant = replace(plan, in_place=not plan.in_place)
    elif what == "halves":
        mutant = replace(plan, double_scratch=not plan.double_scratch)
    elif what == "protocol":
        mutant = replace(plan, protocol="Simple" if plan.moves_packets else "LL")
    elif what == "reuse":
        mutant = replace(plan, reuse_resources=not plan.reuse_resources)
    elif what == "alignment":
        mutant = replace(plan, alignment=dice.choice([0, 4, 8, 32, 64]))
    elif what == "threads":
        mutant = replace(plan, threads=dice.choice([0, 31, 32, 100, 512, 2048]))
    elif dice.random() < 0.5:
        mutant = replace(plan, min_bytes=dice.choice([2**20, 2**31, -1]))
    else:
        mutant = replace(plan, max_bytes=dice.choice([8, 2**20, 2**34]))
    return f"{what} of the plan:", mutant
