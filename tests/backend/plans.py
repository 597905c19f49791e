"""Plans for the tests of the backend: real files changed in one place, and plans drawn at random."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from taccl.backend.mscclpp import read_plan
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
    RemoteBuffer,
    Share,
    Turns,
)
from taccl.backend.program import Buffer
from taccl.model.executor import Executor
from taccl.model.network import LogicalTopology

DATA = Path(__file__).parents[1] / "data" / "mscclpp"
#: Plans of the runtime's own tests and examples.
PUBLISHED = tuple(sorted((DATA / "published").glob("*.json")))
EVERY_PLAN = (*sorted(DATA.glob("*.json")), *PUBLISHED)

ALLGATHER = "napkin-allgather_2"
ALLREDUCE = "napkin-allreduce_2"
RELAY = "napkin-relay_3"
PACKETS = "repo-allreduce_packet_2"
NOP = Operation(OpName.NOP)
#: Of a link of `everyone`, in us and us/MB.
ALPHA, BETA = 1.0, 10.0
#: Takes a key or an entry of a list away.
REMOVED = object()


def content(name: str) -> dict[str, Any]:
    """What is in a file of tests/data/mscclpp."""
    plan: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return plan


def plan_of(name: str) -> ExecutionPlan:
    """The plan in a file of tests/data/mscclpp."""
    return read_plan(DATA / f"{name}.json")


def with_operations(plan: ExecutionPlan, rank: int, operations: tuple[Operation, ...]) -> ExecutionPlan:
    """The plan with other operations in the first thread block of a rank."""
    chosen = plan.ranks[rank]
    block = replace(chosen.blocks[0], operations=operations)
    changed = replace(chosen, blocks=(block, *chosen.blocks[1:]))
    return replace(plan, ranks=tuple(changed if each is chosen else each for each in plan.ranks))


def changed(name: str, places: dict[str, Any]) -> str:
    """The text of a file with other values; see `edited`."""
    return json.dumps(edited(content(name), places), indent=1)


def edited(plan: dict[str, Any], places: dict[str, Any]) -> dict[str, Any]:
    """A plan with other values at some places.

    Places are written as in messages, shortened: `g0.b1.o2` is `gpus[0].threadblocks[1].ops[2]`, and a number
    between points is a place in a list. Where a list ends, a value is added to it.
    """
    plan = deepcopy(plan)
    for place, value in places.items():
        steps = _steps(place)
        inner: Any = plan
        for step in steps[:-1]:
            inner = inner[step]
        if value is REMOVED:
            del inner[steps[-1]]
        elif isinstance(inner, list) and steps[-1] == len(inner):
            inner.append(value)
        else:
            inner[steps[-1]] = value
    return plan


_LONG = {"g": "gpus", "b": "threadblocks", "o": "ops"}


def _steps(place: str) -> list[str | int]:
    steps: list[str | int] = []
    for word in place.split("."):
        match = re.fullmatch(r"([gbo])(\d+)", word)
        if match:
            steps += [_LONG[match[1]], int(match[2])]
        else:
            steps.append(int(word) if word.isdecimal() else word)
    return steps


def alone(*operations: Operation, chunks: int = 4, semaphores: tuple[int, ...] = ()) -> ExecutionPlan:
    """A plan of one rank with one thread block."""
    return among((operations,), chunks=chunks, semaphores=semaphores)


def among(
    blocks: tuple[tuple[Operation, ...], ...], chunks: int = 4, semaphores: tuple[int, ...] = ()
) -> ExecutionPlan:
    """A plan of one rank with several thread blocks."""
    made = tuple(PlanBlock(number, each) for number, each in enumerate(blocks))
    rank = RankPlan(0, chunks, chunks, chunks, made, semaphores=semaphores)
    return ExecutionPlan("mine", "allreduce", "Simple", False, (rank,))


def own(buffer: Buffer, index: int, size: int) -> Range:
    return Range(index, size, buffer=buffer)


def copy(size: int = 4, first: int = 0, to: int | None = None, **more) -> Operation:
    target = own(Buffer.OUTPUT, first if to is None else to, size)
    return Operation(OpName.COPY, sources=(own(Buffer.INPUT, first, size),), targets=(target,), **more)


def exchange_of_packets(double_scratch: bool) -> ExecutionPlan:
    """An AllGather of two ranks: each sends its part as packets and reads the other's."""
    ranks = []
    for me in (0, 1):
        send = Operation(
            OpName.PUT_PACKETS, Channel.MEMORY, (), (own(Buffer.INPUT, 0, 1),), (Range(me, 1, remote=0),)
        )
        read = Operation(
            OpName.COPY_FROM_PACKETS,
            sources=(own(Buffer.SCRATCH, 1 - me, 1),),
            targets=(own(Buffer.OUTPUT, 1 - me, 1),),
        )
        block = PlanBlock(0, (send, read, copy(1, to=me)), remotes=(BlockRemotes(Channel.MEMORY, (0,)),))
        channels = (RankChannels(Channel.MEMORY, peers=(1 - me,)),)
        remotes = (RemoteBuffer(1 - me, Buffer.SCRATCH, (Channel.MEMORY,)),)
        ranks.append(RankPlan(me, 1, 2, 2, (block,), channels, remotes))
    return ExecutionPlan("ll", "allgather", "LL", False, tuple(ranks), double_scratch=double_scratch)


def exchange_over_ports() -> ExecutionPlan:
    """An AllGather of two ranks: each puts its part from scratch, and overwrites it without a flush."""
    ranks = []
    for me in (0, 1):
        ready = Operation(OpName.SIGNAL, Channel.PORT, (0,))
        awaits = Operation(OpName.WAIT, Channel.PORT, (0,))
        put = Operation(
            OpName.PUT_SIGNAL,
            Channel.PORT,
            (0,),
            sources=(own(Buffer.SCRATCH, 0, 1),),
            targets=(Range(me, 1, remote=0),),
        )
        keep = Operation(
            OpName.COPY, sources=(own(Buffer.INPUT, 0, 1),), targets=(own(Buffer.SCRATCH, 0, 1),)
        )
        spoil = Operation(
            OpName.REDUCE,
            sources=(own(Buffer.INPUT, 0, 1), own(Buffer.INPUT, 0, 1)),
            targets=(own(Buffer.SCRATCH, 0, 1),),
        )
        mine = copy(1, to=me)
        block = PlanBlock(
            0,
            (ready, awaits, keep, NOP, put, NOP, spoil, mine, awaits),
            (BlockChannels(Channel.PORT, (0,)),),
            (BlockRemotes(Channel.PORT, (0,)),),
        )
        ranks.append(
            RankPlan(
                me,
                1,
                2,
                1,
                (block,),
                (RankChannels(Channel.PORT, peers=(1 - me,)),),
                (RemoteBuffer(1 - me, Buffer.OUTPUT, (Channel.PORT,)),),
            )
        )
    return ExecutionPlan("late", "allgather", "Simple", False, tuple(ranks))


def everyone(num_ranks: int, one_way_out: bool = False, executor: Executor | None = None) -> LogicalTopology:
    """A link of 1 us + 10 us/MB from each rank to each; with one way out, those of a rank share a port."""
    pairs = [(a, b) for a in range(num_ranks) for b in range(num_ranks) if a != b]
    ports = [(a if one_way_out else link,) for link, (a, _) in enumerate(pairs)]
    return LogicalTopology(
        name="everyone",
        node_of=np.zeros(num_ranks, dtype=np.int64),
        src=np.array([a for a, _ in pairs]),
        dst=np.array([b for _, b in pairs]),
        alpha_us=np.full(len(pairs), ALPHA),
        beta_us_per_mb=np.full(len(pairs), BETA),
        ports=tuple(ports),
        port_names=tuple(str(port) for port in range(len({port for (port,) in ports}))),
        executor=executor,
    )


_numbers = st.integers(0, 40)
_several = st.lists(_numbers, max_size=3).map(tuple)
_ranges = st.builds(
    lambda index, size, what: Range(index, size, **what),
    _numbers,
    st.integers(1, 9),
    st.one_of(
        st.sampled_from(Buffer).map(lambda buffer: {"buffer": buffer}),
        _numbers.map(lambda number: {"remote": number}),
        _numbers.map(lambda number: {"switch": number}),
    ),
)
_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def _operations(inner: st.SearchStrategy[tuple[Operation, ...]]) -> st.SearchStrategy[Operation]:
    return st.builds(
        Operation,
        name=st.sampled_from(OpName),
        channel=st.none() | st.sampled_from(Channel),
        channels=_several,
        sources=st.lists(_ranges, max_size=2).map(tuple),
        targets=st.lists(_ranges, max_size=2).map(tuple),
        share=st.none() | st.builds(Share, _numbers, _numbers),
        barrier=st.none() | st.builds(Barrier, _numbers, _numbers),
        semaphores=_several,
        turns=st.none() | st.builds(Turns, st.integers(0, 2**32), _numbers),
        inner=inner,
        reduce_op=st.none() | _names,
    )


_blocks = st.builds(
    PlanBlock,
    id=_numbers,
    operations=st.lists(
        _operations(st.lists(_operations(st.just(())), max_size=2).map(tuple)), max_size=3
    ).map(tuple),
    channels=st.lists(st.builds(BlockChannels, st.sampled_from(Channel), _several), max_size=2).map(tuple),
    remotes=st.lists(
        st.builds(BlockRemotes, st.sampled_from((Channel.MEMORY, Channel.PORT)), _several), max_size=2
    ).map(tuple),
)
_channels = st.one_of(
    st.builds(RankChannels, st.sampled_from((Channel.MEMORY, Channel.PORT)), peers=_several),
    st.builds(
        RankChannels,
        st.just(Channel.SWITCH),
        buffer=st.sampled_from(Buffer),
        groups=st.lists(_several, max_size=2).map(tuple),
    ),
)
_remotes = st.builds(
    RemoteBuffer,
    _numbers,
    st.sampled_from(Buffer),
    st.lists(st.sampled_from((Channel.MEMORY, Channel.PORT)), max_size=2).map(tuple),
)
_ranks = st.builds(
    RankPlan,
    rank=_numbers,
    input_chunks=_numbers,
    output_chunks=_numbers,
    scratch_chunks=_numbers,
    blocks=st.lists(_blocks, max_size=2).map(tuple),
    channels=st.lists(_channels, max_size=2).map(tuple),
    remote_buffers=st.lists(_remotes, max_size=2).map(tuple),
    semaphores=st.lists(st.integers(-3, 3), max_size=2).map(tuple),
)
#: Plans that can be written, most of which mean nothing.
drawn_plans = st.builds(
    ExecutionPlan,
    name=_names,
    collective=_names,
    protocol=_names,
    in_place=st.booleans(),
    ranks=st.lists(_ranks, max_size=3).map(tuple),
    reuse_resources=st.booleans(),
    threads=_numbers,
    double_scratch=st.booleans(),
    alignment=_numbers,
    min_bytes=st.integers(0, 2**40),
    max_bytes=st.integers(0, 2**64 - 1),
)
