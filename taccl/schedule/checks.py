"""The rules that every schedule keeps, one function each.

Each rule looks at whole columns and returns a sentence about the first row that breaks it, or None.
`check_schedule` runs them all. They rely on no engine: a schedule is judged by COST_MODEL alone.

A reduced chunk moves in two phases. First every contribution travels once towards one rank, the
*root of the sum*; the transfers marked `reduce` form a tree into it. Then copies of the finished sum
spread from there. A chunk that is not reduced only has the second phase.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.errors import ScheduleError
from taccl.problem import FloatArray
from taccl.schedule.columns import TOLERANCE_US, Schedule

_NEVER = np.inf


def check_schedule(schedule: Schedule) -> None:
    """Raise `ScheduleError` with what is wrong, unless all rules hold."""
    problem = _columns_are_well_formed(schedule)
    if problem is None:
        facts = _Facts.of(schedule)
        problems = [rule(schedule, facts) for rule in _RULES]
    else:
        problems = [problem]
    findings = [finding for finding in problems if finding is not None]
    if findings:
        raise ScheduleError("the schedule is not valid", findings=findings)


@dataclass(frozen=True, eq=False)
class _Facts:
    """When things are where: arrays of shape (num_chunks * num_ranks,), at chunk * num_ranks + rank."""

    src_cell: IntArray
    dst_cell: IntArray
    root_cell: IntArray  # cell of each chunk's root of the sum; -1 if not reduced or not unique
    partial_ready_us: FloatArray  # all contributions expected there have arrived
    held_from_us: FloatArray  # the finished chunk is there from then on; inf: never

    @staticmethod
    def of(schedule: Schedule) -> _Facts:
        collective = schedule.problem.collective
        ranks = schedule.problem.num_ranks
        cells = collective.num_chunks * ranks
        src_cell = schedule.chunk * ranks + schedule.src
        dst_cell = schedule.chunk * ranks + schedule.dst
        adds, copies = schedule.reduce, ~schedule.reduce

        partial_ready = np.zeros(cells)
        np.maximum.at(partial_ready, dst_cell[adds], schedule.end_us[adds])
        root_cell = _roots(schedule, src_cell[adds], dst_cell[adds])

        held = np.full(cells, _NEVER)
        np.minimum.at(held, dst_cell[copies], schedule.end_us[copies])
        held[(collective.pre & ~collective.reduces[:, None]).ravel()] = 0.0
        known = root_cell[root_cell >= 0]
        held[known] = partial_ready[known]
        return _Facts(src_cell, dst_cell, root_cell, partial_ready, held)


def _roots(schedule: Schedule, add_src: IntArray, add_dst: IntArray) -> IntArray:
    """The one cell of each reduced chunk that takes part in its sum and passes nothing on."""
    collective = schedule.problem.collective
    takes_part = (collective.pre & collective.reduces[:, None]).ravel()
    takes_part[add_dst] = True
    passes_on = np.zeros_like(takes_part)
    passes_on[add_src] = True
    ends = np.flatnonzero(takes_part & ~passes_on)
    chunk_of_end = ends // schedule.problem.num_ranks
    root_cell = np.full(collective.num_chunks, -1, dtype=np.int64)
    root_cell[chunk_of_end] = ends
    root_cell[np.bincount(chunk_of_end, minlength=collective.num_chunks) != 1] = -1
    return root_cell


def _columns_are_well_formed(schedule: Schedule) -> str | None:
    problem = schedule.problem
    columns = (schedule.link, schedule.start_us, schedule.end_us, schedule.reduce, schedule.group)
    if any(column.shape != schedule.chunk.shape for column in columns):
        return "the columns differ in length"
    if problem.collective.num_ranks != problem.num_ranks:
        return f"the collective has {problem.collective.num_ranks} ranks, the topology {problem.num_ranks}"
    for name, column, limit in (
        ("chunk", schedule.chunk, problem.num_chunks),
        ("link", schedule.link, problem.topology.num_links),
    ):
        bad = _first((column < 0) | (column >= limit))
        if bad is not None:
            return f"row {bad}: {name} {column[bad]} is outside 0 .. {limit - 1}"
    bad = _first(~(np.isfinite(schedule.start_us) & np.isfinite(schedule.end_us)))
    if bad is not None:
        return f"row {bad}: a time is not finite"
    bad = _first(schedule.start_us < -TOLERANCE_US)
    return None if bad is None else f"row {bad}: starts before 0, at {schedule.start_us[bad]} us"


def _groups_are_one_send(schedule: Schedule, facts: _Facts) -> str | None:
    """A group has one link, start, end and kind, no chunk twice, and no more chunks than a step holds."""
    sends, limit = schedule.sends, schedule.problem.max_group
    first = sends.first_row[sends.of_row]
    differs = (
        (schedule.link != schedule.link[first])
        | (schedule.start_us != schedule.start_us[first])
        | (schedule.end_us != schedule.end_us[first])
        | (schedule.reduce != schedule.reduce[first])
    )
    bad = _first(differs)
    if bad is not None:
        return f"{_row(schedule, bad)}: differs in link, time or kind from the rest of its group"
    twice = _first_repeated(sends.of_row * schedule.problem.num_chunks + schedule.chunk)
    if twice is not None:
        return f"{_row(schedule, twice)}: is in group {schedule.group[twice]} twice"
    large = _first(sends.count > limit)
    if large is not None:
        row = sends.first_row[large]
        return f"{_row(schedule, row)}: its group of {sends.count[large]} chunks is over the limit of {limit}"
    return None


def _durations_follow_the_cost_model(schedule: Schedule, facts: _Facts) -> str | None:
    """A group of n chunks of s MB takes alpha + n * s * beta."""
    sends, problem = schedule.sends, schedule.problem
    expected = problem.topology.duration_us(sends.link, sends.count * problem.chunk_mb)
    actual = sends.end_us - sends.start_us
    bad = _first(np.abs(actual - expected) > TOLERANCE_US + 1e-12 * np.abs(sends.end_us))
    if bad is None:
        return None
    row = sends.first_row[bad]
    return f"{_row(schedule, row)}: takes {actual[bad]:.6f} us, the link's cost is {expected[bad]:.6f} us"


def _ports_serve_one_group_at_a_time(schedule: Schedule, facts: _Facts) -> str | None:
    sends, topology = schedule.sends, schedule.problem.topology
    busy = topology.busy_us(sends.link, sends.count * schedule.problem.chunk_mb)
    link, port = topology.incidence
    ports_per_link = np.bincount(link, minlength=topology.num_links)
    first_pair = np.concatenate([[0], np.cumsum(ports_per_link)[:-1]])
    repeats = ports_per_link[sends.link]
    send = np.repeat(np.arange(len(sends)), repeats)
    within = np.arange(len(send)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    port_of = port[first_pair[sends.link[send]] + within]
    order = np.lexsort((busy[send], sends.start_us[send], port_of))
    send, port_of = send[order], port_of[order]
    end = sends.start_us[send] + busy[send]
    clash = (port_of[1:] == port_of[:-1]) & (sends.start_us[send[1:]] < end[:-1] - TOLERANCE_US)
    bad = _first(clash)
    if bad is None:
        return None
    one, other = (sends.first_row[send[bad + i]] for i in (0, 1))
    return (
        f"{_row(schedule, one)} and {_row(schedule, other)}: "
        f"both use port {topology.port_names[port_of[bad]]} at once"
    )


def _each_contribution_is_added_once(schedule: Schedule, facts: _Facts) -> str | None:
    """For each reduced chunk, the adding transfers are a tree into one rank, in time order."""
    collective, ranks = schedule.problem.collective, schedule.problem.num_ranks
    rows = np.flatnonzero(schedule.reduce)
    src, dst = facts.src_cell[rows], facts.dst_cell[rows]
    bad = _first(~collective.reduces[schedule.chunk[rows]])
    if bad is not None:
        return f"{_row(schedule, rows[bad])}: adds a chunk that is not reduced"
    twice = _first_repeated(src)
    if twice is not None:
        return f"{_row(schedule, rows[twice])}: its sender passes its contribution on twice"
    takes_part = collective.pre.ravel().copy()
    takes_part[dst] = True
    bad = _first(~takes_part[src])
    if bad is not None:
        return f"{_row(schedule, rows[bad])}: its sender has no contribution"
    bad = _first(schedule.start_us[rows] < facts.partial_ready_us[src] - TOLERANCE_US)
    if bad is not None:
        return f"{_row(schedule, rows[bad])}: leaves before all contributions to it have arrived"
    rootless = _first(collective.reduces & (facts.root_cell < 0))
    if rootless is not None:
        return f"{collective.describe_chunk(rootless)}: its contributions do not meet at one rank"
    parent = np.arange(collective.num_chunks * ranks)
    parent[src] = dst
    for _ in range(max(1, ranks).bit_length()):
        parent = parent[parent]
    bad = _first(parent[src] != facts.root_cell[schedule.chunk[rows]])
    return None if bad is None else f"{_row(schedule, rows[bad])}: goes round in a circle of reductions"


def _senders_hold_what_they_copy(schedule: Schedule, facts: _Facts) -> str | None:
    copies = ~schedule.reduce
    held = facts.held_from_us[facts.src_cell]
    bad = _first(copies & (schedule.start_us < held - TOLERANCE_US))
    if bad is None:
        return None
    when = "never does" if held[bad] == _NEVER else f"does from {held[bad]:.3f} us on"
    return f"{_row(schedule, bad)}: its sender does not hold it yet ({when})"


def _each_rank_receives_once(schedule: Schedule, facts: _Facts) -> str | None:
    """No copy arrives where the chunk is already, or arrives a second time."""
    collective = schedule.problem.collective
    rows = np.flatnonzero(~schedule.reduce)
    cell = facts.dst_cell[rows]
    twice = _first_repeated(cell)
    if twice is not None:
        return f"{_row(schedule, rows[twice])}: its receiver gets it twice"
    there: BoolArray = (collective.pre & ~collective.reduces[:, None]).ravel()
    there[facts.root_cell[facts.root_cell >= 0]] = True
    bad = _first(there[cell])
    return None if bad is None else f"{_row(schedule, rows[bad])}: its receiver has it already"


def _demand_is_met(schedule: Schedule, facts: _Facts) -> str | None:
    collective, ranks = schedule.problem.collective, schedule.problem.num_ranks
    wanted = collective.outputs.chunk * ranks + collective.outputs.rank
    missing = facts.held_from_us[wanted] == _NEVER
    bad = _first(missing)
    if bad is None:
        return None
    chunk, rank = divmod(int(wanted[bad]), ranks)
    which = collective.describe_chunk(chunk)
    return f"rank {rank} never gets {which} ({int(missing.sum())} demands are not met)"


def _copies_do_not_move_in_a_circle(schedule: Schedule, facts: _Facts) -> str | None:
    """With links that cost nothing, time order alone does not rule out circles of copies."""
    rows = np.flatnonzero(~schedule.reduce)
    cells = schedule.problem.num_chunks * schedule.problem.num_ranks
    parent = np.arange(cells)
    parent[facts.dst_cell[rows]] = facts.src_cell[rows]
    for _ in range(max(1, schedule.problem.num_ranks).bit_length()):
        parent = parent[parent]
    bad = _first(np.isin(parent[facts.dst_cell[rows]], facts.dst_cell[rows]))
    return None if bad is None else f"{_row(schedule, rows[bad])}: goes round in a circle of copies"


_RULES: tuple[Callable[[Schedule, _Facts], str | None], ...] = (
    _groups_are_one_send,
    _durations_follow_the_cost_model,
    _ports_serve_one_group_at_a_time,
    _each_contribution_is_added_once,
    _senders_hold_what_they_copy,
    _each_rank_receives_once,
    _copies_do_not_move_in_a_circle,
    _demand_is_met,
)


def _first(bad: BoolArray) -> int | None:
    """The first true position."""
    position = int(bad.argmax()) if len(bad) else 0
    return position if len(bad) and bad[position] else None


def _first_repeated(values: IntArray) -> int | None:
    """The position of the first value that stood before."""
    _, first = np.unique(values, return_index=True)
    if len(first) == len(values):
        return None
    repeated = np.ones(len(values), dtype=np.bool_)
    repeated[first] = False
    return _first(repeated)


def _row(schedule: Schedule, row: int) -> str:
    return (
        f"row {row} (chunk {schedule.chunk[row]}, {schedule.src[row]} -> {schedule.dst[row]}, "
        f"{schedule.start_us[row]:.3f} us)"
    )
