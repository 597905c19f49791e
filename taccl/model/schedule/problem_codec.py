"""The problem that a schedule answers, as a part of its file.

A standard collective is written by its name, any other by its placements. `may_use` holds one text
per rank: its character l tells whether chunks of that owner may travel over link l.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.errors import CollectiveError, ScheduleError
from taccl.model.collective import BoolArray, Collective, Placement
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.network import LogicalTopology, Occupancy
from taccl.model.problem import Problem, RoutingLimits
from taccl.model.schedule.fields import Fields

#: A file that names its collective makes the reader build it, so its size is bounded by this and by
#: the transfers that the file really has.
_MAX_CHUNKS_PER_RANK = 2**20

_PLACEMENT = ("chunk", "rank", "offset")
_NUMBERS = ("name", "num_ranks", "num_helpers", "chunks_per_rank", "chunks_per_size", "root")
_BY_NAME = ("name", "num_ranks", "chunks_per_rank", "root")
_BY_COLUMNS = (*_BY_NAME, "chunks_per_size", "inputs", "outputs", "reduces", "home", "in_place_shift")
_TOPOLOGY = (
    *("name", "occupancy", "node_of", "src", "dst", "alpha_us", "beta_us_per_mb"),
    *("ports", "port_names"),
)
#: What is written only where a problem uses it, so files from before are read as they were.
_PORT_BETAS = "port_betas"
_DOMAINS = "domain_of"
_HELPERS = ("is_helper", "may_sum", "may_copy")
_NAMES = "helper_names"
#: MB that each rank can hold; null: anything.
_MEMORY = "memory_mb"
_MOMENTS = ("sizes", "ready_us", "tail_us", "sum_work_us")
_LIMITS = ("may_use", "own_first", "link_preference", "spread_load")
#: The keys of a problem in a file, and those that it may have.
PROBLEM_KEYS = ("topology", "collective", "chunk_mb", "max_group", "symmetry", "limits")
OPTIONAL_PROBLEM_KEYS = _MOMENTS


def problem_values(problem: Problem) -> dict[str, object]:
    """A problem as values that JSON can hold."""
    return {
        "topology": _topology_values(problem.topology),
        "collective": _collective_values(problem.collective),
        "chunk_mb": float(problem.chunk_mb),
        "max_group": int(problem.max_group),
        "symmetry": [np.asarray(element).tolist() for element in problem.symmetry],
        "limits": _limits_values(problem.limits),
        **_given(problem, _MOMENTS),
    }


def _given(of: LogicalTopology | Problem, names: tuple[str, ...]) -> dict[str, object]:
    """The columns that are not None."""
    return {name: getattr(of, name).tolist() for name in names if getattr(of, name) is not None}


def read_problem(fields: Fields, rows: int) -> Problem:
    """The problem in a file whose schedule has this many rows.

    Raises
    ------
    FileError, CollectiveError, TopologyError : a value is wrong, by itself or next to the others.
    ScheduleError : so few rows cannot be a schedule of the collective that the file names.
    """
    topology = _topology(fields.inner("topology"))
    return _problem(fields, topology, _collective(fields.inner("collective"), topology, rows))


def _topology_values(topology: LogicalTopology) -> dict[str, object]:
    values = {
        "name": topology.name,
        "occupancy": topology.occupancy,
        **{name: getattr(topology, name).tolist() for name in _TOPOLOGY[2:7]},
        "ports": [[int(port) for port in ports] for ports in topology.ports],
        "port_names": list(topology.port_names),
        **_given(topology, (*_HELPERS, _DOMAINS)),
    }
    if topology.helper_names:
        values[_NAMES] = list(topology.helper_names)
    if topology.memory_mb is not None:
        values[_MEMORY] = [None if np.isinf(most) else float(most) for most in topology.memory_mb]
    if topology.port_betas is None:
        return values
    return values | {_PORT_BETAS: [[float(beta) for beta in betas] for betas in topology.port_betas]}


def _topology(fields: Fields) -> LogicalTopology:
    fields.expect(_TOPOLOGY, optional=(_PORT_BETAS, *_HELPERS, _NAMES, _MEMORY, _DOMAINS))
    node_of = fields.integers("node_of")
    can = [fields.booleans(name, len(node_of)) if name in fields.values else None for name in _HELPERS]
    src = fields.integers("src")
    port_betas = None
    if _PORT_BETAS in fields.values:
        port_betas = tuple(tuple(betas.tolist()) for betas in fields.float_lists(_PORT_BETAS, len(src)))
    return LogicalTopology(
        name=fields.text("name"),
        node_of=node_of,
        src=src,
        dst=fields.integers("dst", len(src)),
        alpha_us=fields.floats("alpha_us", len(src)),
        beta_us_per_mb=fields.floats("beta_us_per_mb", len(src)),
        ports=tuple(tuple(ports.tolist()) for ports in fields.integer_lists("ports", len(src))),
        port_names=fields.texts("port_names"),
        occupancy=_occupancy(fields),
        port_betas=port_betas,
        is_helper=can[0],
        may_sum=can[1],
        may_copy=can[2],
        domain_of=fields.integers(_DOMAINS, len(node_of)) if _DOMAINS in fields.values else None,
        helper_names=fields.texts(_NAMES) if _NAMES in fields.values else (),
        memory_mb=fields.limits(_MEMORY, len(node_of)) if _MEMORY in fields.values else None,
    )


def _occupancy(fields: Fields) -> Occupancy:
    word = fields.text("occupancy")
    if word == "serial":
        return "serial"
    if word != "pipelined":
        fields.fail(f"topology.occupancy must be serial or pipelined, not {word!r}")
    return "pipelined"


def _collective_values(collective: Collective) -> dict[str, object]:
    values: dict[str, object] = {
        "name": collective.name,
        "num_ranks": int(collective.num_ranks),
        "chunks_per_rank": int(collective.chunks_per_rank),
        "root": None if collective.root is None else int(collective.root),
    }
    if _is_standard(collective):
        return values
    return values | {
        "chunks_per_size": int(collective.chunks_per_size),
        "inputs": {name: getattr(collective.inputs, name).tolist() for name in _PLACEMENT},
        "outputs": {name: getattr(collective.outputs, name).tolist() for name in _PLACEMENT},
        "reduces": collective.reduces.tolist(),
        "home": collective.owner.tolist(),
        "in_place_shift": collective.in_place_shift.tolist(),
    }


def _is_standard(collective: Collective) -> bool:
    """Whether name, ranks, chunks and root say all there is to say."""
    if collective.name not in COLLECTIVES:
        return False
    try:
        other = make_collective(
            collective.name, collective.num_members, collective.chunks_per_rank, collective.root
        )
    except CollectiveError:
        return False
    return same_collective(collective, other.with_helpers(collective.num_helpers))


def same_collective(one: Collective, other: Collective) -> bool:
    """Whether two collectives are equal, value for value."""
    return (
        all(getattr(one, name) == getattr(other, name) for name in _NUMBERS)
        and all(np.array_equal(getattr(one.inputs, c), getattr(other.inputs, c)) for c in _PLACEMENT)
        and all(np.array_equal(getattr(one.outputs, c), getattr(other.outputs, c)) for c in _PLACEMENT)
        and np.array_equal(one.reduces, other.reduces)
        and np.array_equal(one.owner, other.owner)
        and np.array_equal(one.in_place_shift, other.in_place_shift)
    )


def _collective(fields: Fields, topology: LogicalTopology, rows: int) -> Collective:
    num_ranks, members = topology.num_ranks, topology.num_members
    if fields.integer("num_ranks", 1, 2**31) != num_ranks:
        fields.fail(f"collective.num_ranks must be {num_ranks}, as many as topology.node_of has entries")
    if "inputs" in fields.values:
        return replace(_collective_by_columns(fields, num_ranks), num_helpers=topology.num_helpers)
    fields.expect(_BY_NAME)
    name, pieces = fields.text("name"), fields.integer("chunks_per_rank", 1, _MAX_CHUNKS_PER_RANK)
    root = None if fields.values["root"] is None else fields.integer("root", 0, members - 1)
    if name not in COLLECTIVES:
        raise CollectiveError(f"unknown collective {name!r}", hint="one of " + ", ".join(COLLECTIVES))
    rooted = name in ("broadcast", "reduce", "gather", "scatter")
    fewest = (members - 1) * pieces * (1 if rooted else members)
    if rows < fewest:
        raise ScheduleError(
            "the schedule is not valid",
            findings=[f"{name} in {pieces} chunks per rank takes at least {fewest} transfers, not {rows}"],
            path=fields.path,
        )
    return make_collective(name, members, pieces, root).with_helpers(topology.num_helpers)


def _collective_by_columns(fields: Fields, num_ranks: int) -> Collective:
    fields.expect(_BY_COLUMNS)
    reduces = fields.booleans("reduces")
    return Collective(
        name=fields.text("name"),
        num_ranks=num_ranks,
        chunks_per_rank=fields.integer("chunks_per_rank", 1, 2**62),
        chunks_per_size=fields.integer("chunks_per_size", 1, 2**62),
        inputs=_placement(fields.inner("inputs"), len(reduces), num_ranks),
        outputs=_placement(fields.inner("outputs"), len(reduces), num_ranks),
        reduces=reduces,
        owner=fields.integers("home", len(reduces), num_ranks),
        in_place_shift=fields.shifts("in_place_shift", num_ranks),
        root=None if fields.values["root"] is None else fields.integer("root", 0, num_ranks - 1),
    )


def _placement(fields: Fields, num_chunks: int, num_ranks: int) -> Placement:
    fields.expect(_PLACEMENT)
    chunk = fields.integers("chunk", limit=num_chunks)
    return Placement(
        chunk, fields.integers("rank", len(chunk), num_ranks), fields.integers("offset", len(chunk))
    )


def _problem(fields: Fields, topology: LogicalTopology, collective: Collective) -> Problem:
    chunk_mb = fields.number("chunk_mb")
    if chunk_mb <= 0:
        fields.fail(f"chunk_mb must be positive, not {chunk_mb}")
    symmetry = fields.integer_lists("symmetry")
    for i, element in enumerate(symmetry):
        if not np.array_equal(np.sort(element), np.arange(topology.num_ranks)):
            fields.fail(f"symmetry[{i}] is no permutation of the ranks")
    return Problem(
        topology=topology,
        collective=collective,
        chunk_mb=chunk_mb,
        symmetry=tuple(symmetry),
        limits=_limits(fields.inner("limits"), topology),
        max_group=fields.integer("max_group", 1, 2**31),
        **{name: fields.floats(name) for name in _MOMENTS if name in fields.values},
    )


def _limits_values(limits: RoutingLimits) -> dict[str, object]:
    return {
        "may_use": None if limits.may_use is None else _may_use_values(limits.may_use),
        "own_first": None if limits.own_first is None else limits.own_first.tolist(),
        "link_preference": None if limits.link_preference is None else limits.link_preference.tolist(),
        "spread_load": bool(limits.spread_load),
    }


def _limits(fields: Fields, topology: LogicalTopology) -> RoutingLimits:
    fields.expect(_LIMITS)
    links = topology.num_links
    none = {key for key, value in fields.values.items() if value is None}
    return RoutingLimits(
        may_use=None if "may_use" in none else _may_use(fields, topology),
        own_first=None if "own_first" in none else fields.booleans("own_first", links),
        link_preference=None if "link_preference" in none else fields.floats("link_preference", links),
        spread_load=fields.boolean("spread_load"),
    )


def _may_use_values(may_use: BoolArray) -> list[str]:
    characters = np.where(may_use, ord("1"), ord("0")).astype(np.uint8)
    return [row.tobytes().decode("ascii") for row in characters]


def _may_use(fields: Fields, topology: LogicalTopology) -> BoolArray:
    rows = fields.texts("may_use", topology.num_ranks)
    for i, row in enumerate(rows):
        if len(row) != topology.num_links or row.strip("01"):
            fields.fail(f"limits.may_use[{i}] must be {topology.num_links} characters, each 0 or 1")
    cells = np.frombuffer("".join(rows).encode("ascii"), dtype=np.uint8)
    return np.asarray(cells == ord("1")).reshape(topology.num_ranks, topology.num_links)
