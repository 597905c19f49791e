"""Napkin machines and random tiny problems for the tests of the engines and the bounds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from strategies import random_schedule

from taccl.model.collective import Collective, Placement
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule import Schedule

#: A directed link: (source, destination, alpha in us, beta in us per MB).
Link = tuple[int, int, float, float]


def machine(
    ranks: int,
    links: Sequence[Link],
    occupancy: Occupancy = "serial",
    shared: Sequence[Sequence[int]] = (),
    node_of: Sequence[int] | None = None,
    rates: Sequence[float] = (),
) -> LogicalTopology:
    """Each link is its own port; each entry of `shared` is one more port of several links.

    `rates` says for each of these what part of its links' time it is busy; without, all of it.
    """
    ports = [[link] for link in range(len(links))]
    betas = [[link[3]] for link in links]
    for port, users in enumerate(shared):
        for link in users:
            ports[link].append(len(links) + port)
            betas[link].append(links[link][3] * (rates[port] if rates else 1.0))
    return LogicalTopology(
        name="napkin",
        node_of=np.zeros(ranks, dtype=np.int64) if node_of is None else np.array(node_of),
        src=np.array([link[0] for link in links], dtype=np.int64),
        dst=np.array([link[1] for link in links], dtype=np.int64),
        alpha_us=np.array([link[2] for link in links], dtype=np.float64),
        beta_us_per_mb=np.array([link[3] for link in links], dtype=np.float64),
        ports=tuple(map(tuple, ports)),
        port_names=(*(f"{a}-{b}" for a, b, *_ in links), *(f"port {i}" for i in range(len(shared)))),
        occupancy=occupancy,
        port_betas=tuple(map(tuple, betas)),
    )


def grid(rows: int, columns: int, closed: bool = True) -> LogicalTopology:
    """Links between neighbours, both directions; `closed`: around the edges too."""
    links = []
    for row in range(rows):
        for column in range(columns):
            for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                other = (row + down) % rows, (column + right) % columns
                if closed or other == (row + down, column + right):
                    links.append((row * columns + column, other[0] * columns + other[1], 0.5, 2.0))
    return machine(rows * columns, links)


def ring(
    ranks: int, alpha_us: float = 1.0, beta: float = 1.0, both: bool = False, occupancy: Occupancy = "serial"
) -> LogicalTopology:
    """Links r -> r + 1, and back if `both`."""
    links: list[Link] = [(r, (r + 1) % ranks, alpha_us, beta) for r in range(ranks)]
    if both:
        links += [((r + 1) % ranks, r, alpha_us, beta) for r in range(ranks)]
    return machine(ranks, links, occupancy)


def full(ranks: int, alpha_us: float = 1.0, beta: float = 1.0) -> LogicalTopology:
    """A link from every rank to every other."""
    return machine(ranks, [(a, b, alpha_us, beta) for a in range(ranks) for b in range(ranks) if a != b])


def two_nodes(beta_between: float = 10.0, occupancy: Occupancy = "serial") -> LogicalTopology:
    """Ranks 0, 1 and 2, 3; all that crosses goes 1 -> 2 or 3 -> 0, with alpha 2; inside: alpha 1, beta 1."""
    inside: list[Link] = [(0, 1, 1.0, 1.0), (1, 0, 1.0, 1.0), (2, 3, 1.0, 1.0), (3, 2, 1.0, 1.0)]
    across: list[Link] = [(1, 2, 2.0, beta_between), (3, 0, 2.0, beta_between)]
    return machine(4, inside + across, occupancy, node_of=[0, 0, 1, 1])


def ndv2_node() -> LogicalTopology:
    """One NDv2 node: NVLinks of alpha 0.3 us; 46 us per MB over one, 23 where two are bundled."""
    single = [(0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6)]
    double = [(0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7)]
    links = [
        (a, b, 0.3, beta)
        for pairs, beta in ((single, 46.0), (double, 23.0))
        for one, other in pairs
        for a, b in ((one, other), (other, one))
    ]
    return machine(8, sorted(links))


def problem(
    topology: LogicalTopology,
    name: str,
    chunks_per_rank: int = 1,
    chunk_mb: float = 1.0,
    symmetry: Sequence[Sequence[int]] = (),
    limits: RoutingLimits | None = None,
    max_group: int = 71,
) -> Problem:
    """A problem of a standard collective."""
    return Problem(
        topology,
        make_collective(name, topology.num_ranks, chunks_per_rank),
        chunk_mb,
        tuple(np.array(element) for element in symmetry),
        limits or RoutingLimits(),
        max_group,
    )


#: Costs that meet in ties, and measured ones with many decimals.
_ALPHAS = (0.0, 1.0, 2.0, 0.7318529411764706)
_BETAS = (0.0, 1.0, 2.0, 3.0, 1.0489130434782609)
#: Files of machines have no links that cost nothing, and the engines need none.
ENGINE_BETAS = _BETAS[1:]


#: Units of work for bounds next to random schedules: for all there are one time in 16, else for those that
#: are cheap. `test_bounds_brute_force` holds all of them against every program that there is.
WORK_FOR_BOUNDS = st.sampled_from([*(50,) * 15, 100_000])


@st.composite
def networks(
    draw: st.DrawFn,
    most_ranks: int = 4,
    alphas: Sequence[float] = _ALPHAS,
    betas: Sequence[float] = _BETAS,
) -> LogicalTopology:
    """A ring with some chords; some links share ports, fast or not; perhaps two nodes; either occupancy."""
    ranks = draw(st.integers(2, most_ranks))
    pairs = {(r, (r + 1) % ranks) for r in range(ranks)}
    pairs |= draw(st.sets(st.sampled_from([(a, b) for a in range(ranks) for b in range(ranks) if a != b])))
    alpha, beta = st.sampled_from(list(alphas)), st.sampled_from(list(betas))
    links = [(a, b, draw(alpha), draw(beta)) for a, b in sorted(pairs)]
    users = st.lists(st.integers(0, len(links) - 1), min_size=2, max_size=3, unique=True)
    shared = draw(st.lists(users, max_size=2))
    nodes = draw(st.sampled_from([[0] * ranks, [int(r >= ranks / 2) for r in range(ranks)]]))
    rates = draw(st.lists(st.sampled_from((1.0, 1.0, 0.5, 0.25)), min_size=2, max_size=2))
    return machine(ranks, links, draw(st.sampled_from(["serial", "pipelined"])), shared, nodes, rates)


@st.composite
def random_schedules(draw: st.DrawFn, names: Sequence[str]) -> Schedule:
    """Valid schedules, by no engine, on networks whose links all cost time."""
    topology = draw(networks(betas=ENGINE_BETAS))
    collective = make_collective(
        draw(st.sampled_from(list(names))), topology.num_ranks, draw(st.integers(1, 2))
    )
    return random_schedule(collective, topology, random.Random(draw(st.integers(0, 2**32 - 1))))


@st.composite
def problems(
    draw: st.DrawFn,
    most_ranks: int = 4,
    names: Sequence[str] = COLLECTIVES,
    most_sends: int = 12,
    limited: bool = False,
    betas: Sequence[float] = _BETAS,
) -> Problem:
    """Tiny problems that take about `most_sends` transfers at most, with and without groups."""
    topology = draw(networks(most_ranks, betas=betas))
    name = draw(st.sampled_from(list(names)))
    pieces = draw(st.integers(1, 2))
    while pieces > 1 and _fewest_sends(name, topology.num_ranks, pieces) > most_sends:
        pieces -= 1
    limits = RoutingLimits()
    if limited and draw(st.booleans()):
        limits = RoutingLimits(may_use=draw(_may_use(topology)))
    return Problem(
        topology,
        make_collective(name, topology.num_ranks, pieces),
        draw(st.sampled_from([1.0, 0.5, 0.3125])),
        limits=limits,
        max_group=draw(st.sampled_from([1, 2, 71])),
    )


@st.composite
def custom_problems(draw: st.DrawFn, most_ranks: int = 3, betas: Sequence[float] = _BETAS) -> Problem:
    """One or two chunks, each copied from some ranks, or summed over some ranks, to some ranks."""
    topology = draw(networks(most_ranks, betas=betas))
    some_ranks = st.lists(st.integers(0, topology.num_ranks - 1), min_size=1, unique=True)
    chunks = draw(st.lists(st.tuples(some_ranks, some_ranks, st.booleans()), min_size=1, max_size=2))
    return Problem(topology, custom(topology.num_ranks, chunks), 1.0)


def custom(ranks: int, chunks: Sequence[tuple[Sequence[int], Sequence[int], bool]]) -> Collective:
    """Chunks given as (where it starts, where it is wanted, whether it is summed)."""
    starts = [(chunk, rank) for chunk, (pre, _, _) in enumerate(chunks) for rank in pre]
    wanted = [(chunk, rank) for chunk, (_, post, _) in enumerate(chunks) for rank in post]
    return Collective(
        name="custom",
        num_ranks=ranks,
        chunks_per_rank=1,
        chunks_per_size=len(chunks),
        inputs=_at_own_offset(starts),
        outputs=_at_own_offset(wanted),
        reduces=np.array([reduces for *_, reduces in chunks]),
        owner=np.array([(post if reduces else pre)[0] for pre, post, reduces in chunks], dtype=np.int64),
        in_place_shift=np.zeros(ranks, dtype=np.int64),
    )


def _at_own_offset(cells: Sequence[tuple[int, int]]) -> Placement:
    chunk, rank = np.array(cells, dtype=np.int64).reshape(-1, 2).T
    return Placement(chunk, rank, chunk)


def _fewest_sends(name: str, ranks: int, pieces: int) -> int:
    parts = 1 if name in ("broadcast", "reduce", "gather", "scatter") else ranks
    return (ranks - 1) * pieces * parts * (2 if name == "allreduce" else 1)


@st.composite
def _may_use(draw: st.DrawFn, topology: LogicalTopology) -> np.ndarray:
    """The ring for everyone, each other link for some owners only."""
    ranks, links = topology.num_ranks, topology.num_links
    on_ring = (topology.src + 1) % ranks == topology.dst
    cells = draw(st.lists(st.booleans(), min_size=ranks * links, max_size=ranks * links))
    return np.asarray(np.array(cells).reshape(ranks, links) | on_ring)


@st.composite
def featured_problems(
    draw: st.DrawFn,
    most_ranks: int = 4,
    names: Sequence[str] = COLLECTIVES,
    able: bool = False,
    may: Sequence[bool] = (True, True, False),
    works: Sequence[float] = (0.0,),
) -> Problem:
    """Tiny problems with unequal chunks, late inputs, tails, and perhaps a helper as the last rank.

    Unless `able`, some ranks may not sum, or not copy: each has one of `may`. Work on a finished sum takes
    one of `works`, us.
    """
    topology = draw(networks(most_ranks, betas=ENGINE_BETAS))
    ranks = topology.num_ranks
    helpers = draw(st.integers(0, 1)) if ranks > 2 else 0
    collective = make_collective(draw(st.sampled_from(list(names))), ranks - helpers).with_helpers(helpers)

    def some(length: int, values: Sequence[float]) -> np.ndarray | None:
        column = st.lists(st.sampled_from(list(values)), min_size=length, max_size=length).map(np.array)
        return draw(st.none() | column)

    abilities = {} if able else {name: some(ranks, may) for name in ("may_sum", "may_copy")}
    work = some(collective.num_chunks, works)
    return Problem(
        replace(topology, is_helper=np.arange(ranks) >= ranks - helpers, **abilities),
        collective,
        1.0,
        sizes=some(collective.num_chunks, [0.5, 1.0, 2.0]),
        ready_us=some(len(collective.inputs), [0.0, 1.0, 5.0]),
        tail_us=some(len(collective.outputs), [0.0, 1.0, 5.0]),
        sum_work_us=None if work is None or not work.any() else work * collective.reduces,
    )


def helped_switch(
    members: int,
    helpers: Sequence[tuple[bool, bool]],
    beta: float = 1.0,
    helper_beta: float | None = None,
    *,
    own_ports: bool = False,
    reads_itself: bool = False,
) -> LogicalTopology:
    """Members with one way in and one out below a switch, and helpers there: (may sum, may copy) for each.

    Helpers have ways of their own, or are parts of the switch. What a face that only sums sends to a member
    can pass that member's way out too, and what a member sends to one that only copies its way in: NVLink
    SHARP reads and writes all members, the one that asks for it, too.
    """
    ranks, names = members + len(helpers), [f"{way} {r}" for way in ("out", "in") for r in range(members)]
    costs = {(a, b): ((a, members + b), beta) for a in range(members) for b in range(members) if a != b}
    for helper, (may_sum, may_copy) in enumerate(helpers, members):
        into, out_of = ((len(names),), (len(names) + 1,)) if own_ports else ((), ())
        names += [f"into {helper}", f"out of {helper}"] if own_ports else []
        slow = beta if helper_beta is None else helper_beta
        for r in range(members):
            up, down = [(r, *into), (members + r, *out_of)]
            if reads_itself and may_sum != may_copy:
                up, down = (up, (*down, r)) if may_sum else ((*up, members + r), down)
            costs |= {(r, helper): (up, slow), (helper, r): (down, slow)}
    ends = np.array(sorted(costs), dtype=np.int64).reshape(-1, 2)
    ports, betas = zip(*(costs[pair] for pair in sorted(costs)), strict=True)
    may = np.array([(True, True)] * members + list(helpers), dtype=np.bool_).reshape(-1, 2)
    return LogicalTopology(
        name="napkin",
        node_of=np.zeros(ranks, dtype=np.int64),
        src=ends[:, 0],
        dst=ends[:, 1],
        alpha_us=np.zeros(len(ends)),
        beta_us_per_mb=np.array(betas),
        ports=ports,
        port_names=tuple(names),
        occupancy="pipelined",
        port_betas=tuple((each,) * len(way) for each, way in zip(betas, ports, strict=True)),
        is_helper=np.arange(ranks) >= members,
        may_sum=may[:, 0],
        may_copy=may[:, 1],
    )
