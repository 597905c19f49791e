"""Random small machines, valid schedules on them made by placing sends one after another, and mutations."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from taccl.model.collective import Collective, Placement
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule, Send, schedule_from_sends

ROOTED = ("broadcast", "reduce", "gather", "scatter")


def machine(num_ranks: int, links: list[tuple[int, int]], **changes) -> LogicalTopology:
    """Links of alpha 1 us and beta 2 us/MB, each its own port; `changes` replace fields."""
    src, dst = np.array(links, dtype=np.int64).reshape(-1, 2).T
    fields = {
        "name": "test",
        "node_of": np.zeros(num_ranks, dtype=np.int64),
        "src": src,
        "dst": dst,
        "alpha_us": np.full(len(links), 1.0),
        "beta_us_per_mb": np.full(len(links), 2.0),
        "ports": tuple((link,) for link in range(len(links))),
        "port_names": tuple(f"{a}->{b}" for a, b in links),
    }
    return LogicalTopology(**{**fields, **changes})


@st.composite
def topologies(draw, min_ranks: int = 2, max_ranks: int = 4) -> LogicalTopology:
    """A ring and some more links; costs may be zero, ports may be shared and fast, either occupancy."""
    ranks = draw(st.integers(min_ranks, max_ranks))
    links = [(i, (i + 1) % ranks) for i in range(ranks)] if ranks > 1 else []
    others = [(a, b) for a in range(ranks) for b in range(ranks) if a != b and (a, b) not in links]
    links += draw(st.lists(st.sampled_from(others), unique=True)) if others else []
    count, shared = len(links), draw(st.integers(0, 2))
    cost = st.sampled_from(draw(st.sampled_from([[0.0, 0.25, 1.0, 3.0], [1.0, 3.0], [0.0]])))
    ports = tuple((link, *draw(_some_of(range(count, count + shared)))) for link in range(count))
    betas = draw(st.lists(cost, min_size=count, max_size=count))
    share = st.sampled_from(draw(st.sampled_from([[1.0], [1.0, 0.5, 0.25, 0.0]])))
    return machine(
        ranks,
        links,
        node_of=np.array(draw(st.lists(st.integers(0, 1), min_size=ranks, max_size=ranks)), dtype=np.int64),
        alpha_us=np.array(draw(st.lists(cost, min_size=count, max_size=count)), dtype=np.float64),
        beta_us_per_mb=np.array(betas, dtype=np.float64),
        ports=ports,
        port_betas=tuple(
            (beta, *(beta * draw(share) for _ in own[1:])) for beta, own in zip(betas, ports, strict=True)
        ),
        port_names=tuple(f"port {i}" for i in range(count + shared)),
        occupancy=draw(st.sampled_from(["serial", "pipelined"])),
    )


def _some_of(values) -> st.SearchStrategy:
    return st.lists(st.sampled_from(values), unique=True) if len(values) else st.just([])


@st.composite
def collectives(draw, num_ranks: int) -> Collective:
    """A standard collective, or one that copies some chunks and sums others."""
    name = draw(st.sampled_from([*COLLECTIVES, "mixed"]))
    if name != "mixed":
        root = draw(st.integers(0, num_ranks - 1)) if name in ROOTED else None
        return make_collective(name, num_ranks, draw(st.integers(1, 2)), root)
    reduces = np.array(draw(st.lists(st.booleans(), min_size=1, max_size=4)))
    ranks = st.lists(st.integers(0, num_ranks - 1), min_size=1, max_size=num_ranks, unique=True)
    starts, wanted = [draw(ranks) for _ in reduces], [draw(ranks) for _ in reduces]
    return Collective(
        name="mixed",
        num_ranks=num_ranks,
        chunks_per_rank=1,
        chunks_per_size=len(reduces),
        inputs=_placement(starts),
        outputs=_placement(wanted),
        reduces=reduces,
        owner=np.array([ranks[0] for ranks in starts]),
        in_place_shift=np.zeros(num_ranks, dtype=np.int64),
    )


def _placement(ranks_of_chunk: list[list[int]]) -> Placement:
    rows = [(chunk, rank, chunk) for chunk, ranks in enumerate(ranks_of_chunk) for rank in ranks]
    chunk, rank, offset = np.array(rows, dtype=np.int64).T
    return Placement(chunk, rank, offset)


@st.composite
def problems(draw) -> Problem:
    """A random collective on a random machine, with or without limits, helpers, sizes and moments."""
    topology = draw(topologies())
    ranks, links = topology.num_ranks, topology.num_links
    helpers = draw(st.sampled_from([0, 0, 1])) if ranks > 2 else 0
    topology = replace(topology, is_helper=np.arange(ranks) >= ranks - helpers)
    collective = draw(collectives(ranks - helpers)).with_helpers(helpers)

    def some(length: int, values: list[float]) -> st.SearchStrategy:
        return st.none() | st.lists(st.sampled_from(values), min_size=length, max_size=length).map(np.array)

    bits = st.lists(st.booleans(), min_size=links, max_size=links)
    return Problem(
        topology=topology,
        collective=collective,
        chunk_mb=draw(st.sampled_from([0.5, 1.0, 1 / 3])),
        symmetry=tuple(np.array(draw(st.permutations(range(ranks)))) for _ in range(draw(st.integers(0, 2)))),
        limits=RoutingLimits(
            own_first=draw(st.none() | bits.map(np.array)),
            link_preference=draw(st.none() | bits.map(lambda row: np.array(row, dtype=np.float64))),
            spread_load=draw(st.booleans()),
        ),
        max_group=draw(st.integers(2, 71)),
        sizes=draw(some(collective.num_chunks, [0.25, 1.0, 3.0])),
        ready_us=draw(some(len(collective.inputs), [0.0, 0.5, 7.0])),
        tail_us=draw(some(len(collective.outputs), [0.0, 0.5, 7.0])),
    )


@st.composite
def schedules(draw) -> Schedule:
    """A valid schedule of a random problem; often, links that it does not use are ruled out."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    schedule = placed(draw(problems()), chance)
    if draw(st.booleans()):
        schedule = _unable(schedule, chance)
    return _ruled_out(schedule, chance) if draw(st.booleans()) else schedule


def _unable(schedule: Schedule, chance: random.Random) -> Schedule:
    """The schedule among ranks some of which may not sum or not copy, where they do not."""
    collective, topology = schedule.problem.collective, schedule.problem.topology
    parts, uses = Counter(), Counter()
    for chunk, rank in zip(collective.inputs.chunk, collective.inputs.rank, strict=True):
        parts[chunk, rank] += bool(collective.reduces[chunk])
    uses.update(zip(collective.outputs.chunk, collective.outputs.rank, strict=True))
    for row in range(len(schedule)):
        if schedule.reduce[row]:
            parts[schedule.chunk[row], schedule.dst[row]] += 1
        else:
            uses[schedule.chunk[row], schedule.src[row]] += 1

    def may(many: Counter) -> np.ndarray:
        needed = {rank for (_, rank), count in many.items() if count > 1}
        return np.array([rank in needed or chance.random() < 0.5 for rank in range(topology.num_ranks)])

    topology = replace(topology, may_sum=may(parts), may_copy=may(uses))
    return replace(schedule, problem=replace(schedule.problem, topology=topology))


def _ruled_out(schedule: Schedule, chance: random.Random) -> Schedule:
    problem = schedule.problem
    ranks, links = problem.num_ranks, problem.topology.num_links
    may_use = np.array([[chance.random() < 0.5 for _ in range(links)] for _ in range(ranks)], dtype=np.bool_)
    may_use[problem.collective.owner[schedule.chunk], schedule.link] = True
    limits = replace(problem.limits, may_use=may_use)
    return replace(schedule, problem=replace(problem, limits=limits))


@dataclass
class _Board:
    """What stands where, while sends are placed: the slow and plain way."""

    problem: Problem
    chance: random.Random

    def __post_init__(self) -> None:
        self.free = [0.0] * self.problem.topology.num_ports
        self.sends: list[Send] = []

    def send(self, chunks: list[int], link: int, ready: float, reduce: bool = False) -> float:
        topology = self.problem.topology
        start = max([ready, *(self.free[port] for port in topology.ports[link])])
        start += self.chance.choice([0.0, 0.0, 0.0, 0.5])
        size = self.problem.units(chunks) * self.problem.chunk_mb
        first = int(topology.first_pair[link])
        for pair, port in enumerate(topology.ports[link], first):
            self.free[port] = start + float(topology.port_busy_us(np.int64(pair), size))
        self.sends.append(Send(tuple(chunks), link, start, reduce))
        return start + float(topology.duration_us(np.int64(link), size))


def placed(problem: Problem, chance: random.Random) -> Schedule:
    """A valid schedule: sums travel along random trees, then copies spread in random order and groups."""
    collective, board = problem.collective, _Board(problem, chance)
    held = [
        _summed(problem, board, chunk) if collective.reduces[chunk] else _starts(problem, chunk)
        for chunk in range(problem.num_chunks)
    ]
    wanted = {(int(c), int(r)) for c, r in zip(*np.nonzero(collective.post), strict=True)}
    while any(rank not in held[chunk] for chunk, rank in wanted):
        link, chunks = chance.choice(list(_useful(problem, held, wanted)))
        chunks = chance.sample(chunks, chance.randint(1, min(len(chunks), problem.max_group)))
        src, dst = int(problem.topology.src[link]), int(problem.topology.dst[link])
        end = board.send(chunks, link, max(held[chunk][src] for chunk in chunks))
        for chunk in chunks:
            held[chunk][dst] = end
    return schedule_from_sends(problem, board.sends)


def _starts(problem: Problem, chunk: int) -> dict[int, float]:
    """The ranks where a chunk starts, and from when it is there."""
    inputs, ready_us = problem.collective.inputs, problem.ready_us
    rows = np.flatnonzero(inputs.chunk == chunk).tolist()
    return {int(inputs.rank[row]): 0.0 if ready_us is None else float(ready_us[row]) for row in rows}


def _useful(problem: Problem, held: list[dict], wanted: set) -> Iterator[tuple[int, list[int]]]:
    unmet = {chunk for chunk, rank in wanted if rank not in held[chunk]}
    for link in range(problem.topology.num_links):
        src, dst = int(problem.topology.src[link]), int(problem.topology.dst[link])
        chunks = [chunk for chunk in sorted(unmet) if src in held[chunk] and dst not in held[chunk]]
        if chunks:
            yield link, chunks


def _summed(problem: Problem, board: _Board, chunk: int) -> dict[int, float]:
    """Send all contributions along a random tree; returns its root, and when the sum is there."""
    topology, chance = problem.topology, board.chance
    root = chance.randrange(problem.num_ranks)
    parent: dict[int, int] = {}  # rank -> the link that it passes its sum on over
    order = [root]
    while len(order) < problem.num_ranks:
        links = [
            link
            for link in range(topology.num_links)
            if int(topology.dst[link]) in order and int(topology.src[link]) not in order
        ]
        link = chance.choice(links)
        parent[int(topology.src[link])] = link
        order.append(int(topology.src[link]))
    ready = _starts(problem, chunk)
    for rank in reversed(order[1:]):
        if rank in ready:
            end = board.send([chunk], parent[rank], ready.pop(rank), reduce=True)
            target = int(topology.dst[parent[rank]])
            ready[target] = max(ready.get(target, 0.0), end)
    return ready


MUTATIONS = (
    *("drop", "repeat", "chunk", "link", "move", "early", "inside", "end", "kind", "group", "swap"),
    "circle",
)


def mutated(schedule: Schedule, chance: random.Random) -> Schedule:
    """The schedule with one small change, which may or may not make it wrong."""
    if not len(schedule):
        return schedule
    problem, row = schedule.problem, chance.randrange(len(schedule))
    rows = np.flatnonzero(schedule.group == schedule.group[row])
    if chance.random() < 0.3:
        rows = np.array([row])
    other = chance.randrange(len(schedule))
    kind = chance.choice(MUTATIONS)
    if kind == "circle":
        return _with_circle(schedule, chance)
    if kind == "drop":
        return schedule.take(np.setdiff1d(np.arange(len(schedule)), rows))
    if kind == "repeat":
        more = schedule.take(np.concatenate([np.arange(len(schedule)), rows]))
        late = float(schedule.end_us.max()) if chance.random() < 0.5 else 0.0
        changed = {name: getattr(more, name).copy() for name in ("start_us", "end_us", "group")}
        changed["start_us"][len(schedule) :] += late
        changed["end_us"][len(schedule) :] += late
        changed["group"][len(schedule) :] = schedule.group.max() + 1
        return replace(more, **changed)
    columns = {
        name: getattr(schedule, name).copy()
        for name in ("chunk", "link", "start_us", "end_us", "reduce", "group")
    }
    if kind == "chunk":
        columns["chunk"][row] = chance.randrange(problem.num_chunks)
    elif kind == "link":
        columns["link"][rows] = chance.randrange(problem.topology.num_links)
    elif kind == "move":
        shift = chance.choice([-1e-9, 1e-9, -0.1, 0.1, -0.5, 0.5, -2.0, 2.0, 50.0])
        columns["start_us"][rows] += shift
        columns["end_us"][rows] += shift
    elif kind == "early":
        columns["end_us"][rows] -= columns["start_us"][rows]
        columns["start_us"][rows] = 0.0
    elif kind == "inside":
        shift = (schedule.start_us[other] + schedule.end_us[other]) / 2 - columns["start_us"][row]
        columns["start_us"][rows] += shift
        columns["end_us"][rows] += shift
    elif kind == "end":
        columns["end_us"][rows] += chance.choice([-1e-9, 1e-9, -0.1, 0.1])
    elif kind == "kind":
        columns["reduce"][rows] = ~columns["reduce"][rows]
    elif kind == "group":
        columns["group"][row] = columns["group"][other]
    else:
        for name in chance.choice([("chunk",), ("start_us", "end_us"), ("link",)]):
            columns[name][[row, other]] = columns[name][[other, row]]
    return replace(schedule, **columns)


def _with_circle(schedule: Schedule, chance: random.Random) -> Schedule:
    """A chunk to and fro between two ranks, at one moment."""
    index = schedule.problem.topology.link_index
    pairs = [(link, index[b, a]) for (a, b), link in index.items() if (b, a) in index]
    if not pairs:
        return schedule
    chunk, start = chance.randrange(schedule.problem.num_chunks), float(schedule.end_us.max())
    reduce = bool(schedule.problem.collective.reduces[chunk]) and chance.random() < 0.5
    circle = [Send((chunk,), link, start, reduce) for link in chance.choice(pairs)]
    more = schedule_from_sends(schedule.problem, circle)
    joined = {
        name: np.concatenate([getattr(schedule, name), getattr(more, name)])
        for name in ("chunk", "link", "start_us", "end_us", "reduce")
    }
    group = np.concatenate([schedule.group, more.group + schedule.group.max() + 1])
    return replace(schedule, **joined, group=group)
