"""The timeline of a plan: a lane per thread block and per port channel, bars for what moves and for waits.

Nobody receives in a plan: a bar stands for what a block writes or reads over a link, what it does at home, or
a wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from taccl.backend.plan import Channel, ExecutionPlan, Operation, OpName, ends_of
from taccl.backend.program import Buffer
from taccl.backend.show.of_plan import detail_words, plan_facts, range_words
from taccl.backend.show.timeline import COPY, READ, REDUCE, RELAY, SEND, WAIT, Bars, Timeline, labelled_bars
from taccl.backend.simulate import PlanSimulation, simulate_plan
from taccl.backend.verify.mscclpp.header import smallest_chunk
from taccl.backend.verify.mscclpp.operands import behind
from taccl.backend.verify.mscclpp.subject import At
from taccl.model import units
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.units import format_count

#: Those that a block may have to wait in, and that do nothing else.
_WAITING = frozenset(
    {OpName.WAIT, OpName.RELAXED_WAIT, OpName.ACQUIRE, OpName.BARRIER, OpName.FLUSH, OpName.NOP}
)
_TELLING = frozenset({OpName.SIGNAL, OpName.RELAXED_SIGNAL, OpName.RELEASE})
_COPIES = frozenset({OpName.COPY, OpName.COPY_TO_PACKETS, OpName.COPY_FROM_PACKETS})
_SUMS_OWN = frozenset({OpName.REDUCE, OpName.REDUCE_PACKETS, OpName.REDUCE_COPY_PACKETS})
#: These send on what has come.
_RELAYS = frozenset(
    {
        *(OpName.REDUCE_SEND, OpName.READ_REDUCE_SEND, OpName.READ_PUT_PACKETS),
        *(OpName.REDUCE_SEND_PACKETS, OpName.REDUCE_COPY_SEND_PACKETS),
    }
)
_UNTIMED = (
    "No times are known: each link carries a chunk in one unit of time here, whatever the others do, and "
    "nothing else takes any. Give a topology or a sketch and a size for times in microseconds."
)


def plan_timeline(
    plan: ExecutionPlan,
    simulation: PlanSimulation | None = None,
    facts: Iterable[tuple[str, str]] = (),
    notes: Iterable[str] = (),
) -> Timeline:
    """What a plan does, when it does so in a simulation of it.

    Parameters
    ----------
    plan : one in which every number leads somewhere.
    simulation : of this plan; without one, each link carries a chunk in a unit of time, and the timeline says
        so.
    facts : what else to put at its top: the size, the time, its bound and gap.
    notes : what else the reader must not miss.

    Raises
    ------
    VerificationError : it hangs.
    """
    ran = _in_steps(plan) if simulation is None else simulation
    lanes = _Lanes.of(ran)
    rows = sorted(_rows(ran, lanes), key=lambda row: (row.lane, row.start, row.end))
    path = _critical(ran)
    bars, labels = _bars(ran, rows, path)
    return Timeline(
        title=plan.name or f"{plan.collective}, {plan.num_ranks} ranks",
        facts=(*plan_facts(plan), *facts, ("critical path", format_count(int(path.sum()), "operation"))),
        notes=(*notes, *([_UNTIMED] if simulation is None else [])),
        unit="step" if simulation is None else "us",
        span=max(ran.time_us, float(bars.end.max(initial=0.0))),
        transfers=len(ran.moves),
        node_of=ran.topology.node_of,
        lane_rank=np.array(lanes.rank, dtype=np.int64),
        lane_name=tuple(lanes.name),
        bars=bars,
        labels=labels,
        arrows=_arrows(ran, rows),
        # A link is free when the bytes have left it, and that is where bars end.
        topology=None if simulation is None else replace(ran.topology, occupancy="serial"),
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A bar to be: of an act, perhaps of a move of it."""

    lane: int
    start: float
    end: float
    act: int
    kind: int
    link: int = -1
    size: float = 0.0


@dataclass(frozen=True)
class _Lanes:
    """Blocks of a rank, then those of its port channels that move something."""

    rank: list[int]
    name: list[str]
    of_block: dict[tuple[int, int], int]
    of_port: dict[int, int]

    @staticmethod
    def of(ran: PlanSimulation) -> _Lanes:
        lanes = _Lanes([], [], {}, {})
        used = set(ran.moves.port.tolist())
        ends = ends_of(ran.plan)
        for number, rank in enumerate(ran.plan.ranks):
            for place, block in enumerate(rank.blocks):
                peers = {
                    rank.peers_of(kind)[each]
                    for kind in (Channel.MEMORY, Channel.PORT)
                    for each in block.channels_of(kind)
                }
                with_whom = f"with {', '.join(map(str, sorted(peers)))}" if peers else "local"
                lanes.of_block[number, place] = lanes._add(number, f"block {block.id}: {with_whom}")
            for channel, end in enumerate(ends.get((number, Channel.PORT), ())):
                if end.number in used:
                    lanes.of_port[end.number] = lanes._add(number, f"port channel {channel}: to {end.peer}")
        return lanes

    def _add(self, rank: int, name: str) -> int:
        self.rank.append(rank)
        self.name.append(name)
        return len(self.rank) - 1


def _rows(ran: PlanSimulation, lanes: _Lanes) -> Iterator[_Row]:
    acts, moves = ran.acts, ran.moves
    moving = set(moves.act.tolist())
    rank, block = acts.rank.tolist(), acts.block.tolist()
    start, end = acts.start_us.tolist(), acts.end_us.tolist()
    names = [operation.name for operation in _operations(ran)]
    for act, name in enumerate(names):
        kind = COPY if name in _COPIES else REDUCE if name in _SUMS_OWN else -1
        if name in _WAITING and end[act] > start[act]:
            kind = WAIT
        elif act not in moving and name not in _WAITING and name not in _TELLING and kind < 0:
            kind = REDUCE  # a sum that sends to nobody else
        if kind >= 0 and act not in moving:
            yield _Row(lanes.of_block[rank[act], block[act]], start[act], end[act], act, kind)
    for act, link, size, began, left, port in zip(
        *(column.tolist() for column in (moves.act, moves.link, moves.size_bytes)),
        *(column.tolist() for column in (moves.start_us, moves.left_us, moves.port)),
        strict=True,
    ):
        lane = lanes.of_block[rank[act], block[act]] if port < 0 else lanes.of_port[port]
        kind = RELAY if names[act] in _RELAYS else SEND
        if ran.topology.src[link] != rank[act]:
            kind = READ
        yield _Row(lane, began, left, act, kind, link, size)


def _operations(ran: PlanSimulation) -> Iterator[Operation]:
    """The operation of each act."""
    acts = ran.acts
    for rank, block, step, inner in zip(
        *(column.tolist() for column in (acts.rank, acts.block, acts.step, acts.inner)), strict=True
    ):
        operation = ran.plan.ranks[rank].blocks[block].operations[step]
        yield operation if inner < 0 else operation.inner[inner]


def _bars(ran: PlanSimulation, rows: list[_Row], path: BoolArray) -> tuple[Bars, tuple[str, ...]]:
    """Bars in the order of the rows, and what they say."""
    acts, topology = ran.acts, ran.topology
    places = list(zip(*(c.tolist() for c in (acts.rank, acts.block, acts.step, acts.inner)), strict=True))
    operations = list(_operations(ran))
    said: dict[tuple[int, int, int, int], tuple[str, int]] = {}
    for row in rows:
        place = places[row.act]
        if place not in said:
            rank, block, step, inner = place
            at = At(rank, block, step, inner if inner >= 0 else None, operations[row.act])
            said[place] = (_words(ran.plan, at), _part(ran.plan, at))
    of_row = [said[places[row.act]] for row in rows]
    lane, act, link, kind = (
        _whole([getattr(row, name) for row in rows]) for name in ("lane", "act", "link", "kind")
    )
    start, end, size = (_real([getattr(row, name) for row in rows]) for name in ("start", "end", "size"))
    there = link >= 0
    peer = np.full(len(rows), -1, dtype=np.int64)
    peer[there] = np.where(kind[there] == READ, topology.src[link[there]], topology.dst[link[there]])
    return labelled_bars(
        [words for words, _ in of_row],
        lane=lane,
        start=start,
        end=end,
        source=_whole([part for _, part in of_row]),
        bytes=size,
        link=link,
        peer=peer,
        kind=kind,
        number=acts.step[act],
        critical=path[act],
    )


def _whole(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


def _real(values: list[float]) -> FloatArray:
    return np.array(values, dtype=np.float64)


def _words(plan: ExecutionPlan, at: At) -> str:
    """`put i[0..3] to rank 2 o[4..7]`, `wait: memory channel 0 (rank 1)`."""
    rank, operation = plan.ranks[at.rank], at.operation
    block = rank.blocks[at.block]
    sources = ", ".join(range_words(rank, block, operation, source) for source in operation.sources)
    targets = ", ".join(range_words(rank, block, operation, target) for target in operation.targets)
    if targets:
        return f"{operation.name.value} {sources} to {targets}"
    details = ", ".join(detail_words(rank, block, operation))
    return f"{operation.name.value}: {details}" if details else operation.name.value


def _part(plan: ExecutionPlan, at: At) -> int:
    """Whose part an operation moves, as its first range in user memory tells; -1 if only scratch is named."""
    for each in (*at.operation.targets, *at.operation.sources):
        memory = behind(plan, at, each)
        if memory is None or memory.buffer is Buffer.SCRATCH:
            continue
        owner = plan.ranks[memory.owners[0]]
        is_input = memory.buffer is Buffer.INPUT
        chunks = owner.input_chunks if is_input else owner.output_chunks
        # of an AllGather an input, of a ReduceScatter an output is one part; all else has those of all ranks
        if (plan.collective, is_input) in (("allgather", True), ("reducescatter", False)):
            return memory.owners[0]
        return min(each.index * plan.num_ranks // max(1, chunks), plan.num_ranks - 1)
    return -1


def _critical(ran: PlanSimulation) -> BoolArray:
    """The acts of one critical path: from the last byte back to who let each go on, else to those before."""
    path = np.zeros(len(ran.acts), dtype=np.bool_)
    act = ran.last
    while act >= 0 and not path[act]:
        path[act] = True
        released = int(ran.acts.released_by[act])
        act = int(ran.acts.before[act]) if released < 0 else released
    return path


def _arrows(ran: PlanSimulation, rows: list[_Row]) -> tuple[IntArray, IntArray]:
    """From the last that a block sent before it let another go on, to that one's wait."""
    bar_of = {row.act: bar for bar, row in enumerate(rows)}
    pairs = []
    for bar, row in enumerate(rows):
        act = int(ran.acts.released_by[row.act])
        while act >= 0 and (act not in bar_of or rows[bar_of[act]].link < 0):
            act = int(ran.acts.before[act])
        if act >= 0 and rows[bar_of[act]].end <= row.end:
            pairs.append((bar_of[act], bar))
    return _whole([sent for sent, _ in pairs]), _whole([waited for _, waited in pairs])


def _in_steps(plan: ExecutionPlan) -> PlanSimulation:
    """Each link that the plan names carries a chunk in one unit of time."""
    chunk_mb = (smallest_chunk(plan) or plan.alignment) / units.MB
    pairs = sorted(_pairs(plan))
    links = len(pairs)
    network = LogicalTopology(
        name="links of one unit",
        node_of=np.zeros(plan.num_ranks, dtype=np.int64),
        src=_whole([source for source, _ in pairs]),
        dst=_whole([target for _, target in pairs]),
        alpha_us=np.zeros(links),
        beta_us_per_mb=np.full(links, 1.0 / chunk_mb),
        ports=tuple((link,) for link in range(links)),
        port_names=tuple(f"{source} → {target}" for source, target in pairs),
    )
    return simulate_plan(plan, network, chunk_mb)


def _pairs(plan: ExecutionPlan) -> set[tuple[int, int]]:
    """Ranks that have to do with each other, both directions."""
    pairs = set()
    for number, rank in enumerate(plan.ranks):
        others = {remote_buffer.rank for remote_buffer in rank.remote_buffers}
        for row in rank.channels:
            others |= {*row.peers, *(member for group in row.groups for member in group)}
        for other in others - {number}:
            pairs |= {(number, other), (other, number)}
    return pairs
