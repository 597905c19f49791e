"""The rules that every schedule keeps, one function each.

Each rule looks at whole columns and returns a sentence about the first row that breaks it, or None.
`check_schedule` runs them all. They rely on no engine: a schedule is judged by the cost model and by
the problem's `may_use` alone.

A reduced chunk moves as partial sums and as copies of the whole sum. Where the schedule says which
contributions each row carries (`sums`), a rank may pass on any sum that it can make of what it holds, as
often as it likes, and each output must hold each contribution exactly once. In the compact form each sum
is made once: first every contribution travels once towards one rank, the *root of the sum*, the transfers
marked `reduce` forming a tree into it; then copies of the finished sum spread from there. A chunk that is
not reduced only has copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from taccl.collective import BoolArray, IntArray
from taccl.errors import ScheduleError
from taccl.network import FloatArray
from taccl.schedule.columns import Schedule
from taccl.schedule.derivation import Derivation, derive
from taccl.schedule.numbering import different, first_repeated
from taccl.schedule.partial_sums import PartialSums, as_sets, ranks_of
from taccl.tolerance import ULPS, lasts, over_us, takes_time

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
    """When things are where.

    A *cell* is a chunk at a rank. Only cells that matter are numbered: where a chunk starts, is wanted,
    comes from or goes to. So an AlltoAll over a thousand ranks has a few million and not 10**9.
    """

    chunk: IntArray  # of each cell
    rank: IntArray  # of each cell
    src: IntArray  # cell that each row comes from
    dst: IntArray  # cell that each row goes to
    wanted: IntArray  # cell of each row of the postcondition, but for explicit sums
    is_start: BoolArray  # per cell: in the precondition
    is_origin: BoolArray  # per cell: the finished chunk is there without being copied to it
    copies: BoolArray  # per row: a copy, but for those of chunks whose sums are explicit
    derivation: Derivation | None  # of a schedule whose sums are explicit
    root: IntArray  # cell of each chunk's root of the sum; -1 if not reduced or not unique
    partial_ready_us: FloatArray  # per cell: all contributions expected there count as arrived
    held_from_us: FloatArray  # per cell: the finished chunk counts as there from then on; inf: never

    @staticmethod
    def of(schedule: Schedule) -> _Facts:
        collective, ranks = schedule.problem.collective, schedule.problem.num_ranks
        parts = (
            collective.inputs.chunk * ranks + collective.inputs.rank,
            collective.outputs.chunk * ranks + collective.outputs.rank,
            schedule.chunk.astype(np.int64) * ranks + schedule.src,
            schedule.chunk.astype(np.int64) * ranks + schedule.dst,
        )
        keys, inverse = different(np.concatenate(parts))
        starts, wanted, src, dst = np.split(inverse, np.cumsum([len(part) for part in parts])[:-1])
        chunk, rank = np.divmod(keys, ranks)
        is_start = np.zeros(len(keys), dtype=np.bool_)
        is_start[starts] = True
        explicit = schedule.sums is not None
        compact = ~collective.reduces[chunk] if explicit else np.ones(len(keys), dtype=np.bool_)
        adds = schedule.reduce & collective.reduces[schedule.chunk] & (not explicit)
        copies = ~schedule.reduce & compact[src]

        arrives = over_us(schedule.end_us, schedule.end_us - schedule.start_us)
        partial_ready = np.full(len(keys), -np.inf)
        if schedule.problem.ready_us is not None:
            partial_ready[starts] = over_us(schedule.problem.ready_us, 0.0)
        np.maximum.at(partial_ready, dst[adds], arrives[adds])
        root = _roots(
            collective.num_chunks, chunk, is_start & collective.reduces[chunk], src[adds], dst[adds]
        )

        is_origin = is_start & ~collective.reduces[chunk]
        is_origin[root[root >= 0]] = True
        held = np.where(is_origin, partial_ready, _NEVER)
        np.minimum.at(held, dst[copies], arrives[copies])
        derivation = derive(schedule) if explicit else None
        wanted = wanted[compact[wanted]]
        return _Facts(
            chunk, rank, src, dst, wanted, is_start, is_origin, copies, derivation, root, partial_ready, held
        )


def _roots(
    num_chunks: int, chunk: IntArray, contributes: BoolArray, add_src: IntArray, add_dst: IntArray
) -> IntArray:
    """For each chunk, the one cell that takes part in its sum and passes nothing on; else -1."""
    root = np.full(num_chunks, -1, dtype=np.int64)
    ends = _ends(contributes, add_src, add_dst)
    root[chunk[ends]] = ends
    root[np.bincount(chunk[ends], minlength=num_chunks) != 1] = -1
    return root


def _ends(contributes: BoolArray, add_src: IntArray, add_dst: IntArray) -> IntArray:
    takes_part = contributes.copy()
    takes_part[add_dst] = True
    takes_part[add_src] = False
    return np.flatnonzero(takes_part)


def _columns_are_well_formed(schedule: Schedule) -> str | None:
    problem = schedule.problem
    columns = (schedule.link, schedule.start_us, schedule.end_us, schedule.reduce, schedule.group)
    if any(column.shape != schedule.chunk.shape for column in columns):
        return "the columns differ in length"
    for name, kind in (("chunk", "i"), ("link", "i"), ("group", "i"), ("reduce", "b")):
        dtype = getattr(schedule, name).dtype
        if dtype.kind != kind:
            return f"column {name} must be {'booleans' if kind == 'b' else 'integers'}, not {dtype}"
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
    bad = _first(schedule.start_us < -ULPS * np.spacing(schedule.makespan_us))
    if bad is not None:
        return f"row {bad}: starts before 0, at {schedule.start_us[bad]} us"
    return None if schedule.sums is None else _sums_are_well_formed(schedule, schedule.sums)


def _sums_are_well_formed(schedule: Schedule, sums: PartialSums) -> str | None:
    if sums.members.ndim != 2 or sums.members.shape[1] != schedule.problem.num_ranks:
        return "the contributions of a sum are not given for each rank"
    if sums.of_row.shape != schedule.chunk.shape or sums.of_row.dtype.kind != "i":
        return "the column of sums must have an integer for each row"
    bad = _first((sums.of_row < -1) | (sums.of_row >= len(sums.members)))
    if bad is not None:
        return f"row {bad}: sum {sums.of_row[bad]} is outside -1 .. {len(sums.members) - 1}"
    bad = _first((sums.of_row >= 0) != schedule.reduce)
    return None if bad is None else f"row {bad}: only a partial sum names its contributions, and it has to"


def _groups_are_one_send(schedule: Schedule, facts: _Facts) -> str | None:
    """A group has one link, start and end, no chunk twice, and no more chunks than a step holds."""
    sends, limit = schedule.sends, schedule.problem.max_group
    first = sends.first_row[sends.of_row]
    differs = (
        (schedule.link != schedule.link[first])
        | (schedule.start_us != schedule.start_us[first])
        | (schedule.end_us != schedule.end_us[first])
    )
    bad = _first(differs)
    if bad is not None:
        return f"{_row(schedule, bad)}: differs in link or time from the rest of its group"
    twice = first_repeated(sends.of_row * schedule.problem.num_chunks + schedule.chunk)
    if twice is not None:
        return f"{_row(schedule, twice)}: is in group {schedule.group[twice]} twice"
    large = _first(sends.count > limit)
    if large is not None:
        row = sends.first_row[large]
        return f"{_row(schedule, row)}: its group of {sends.count[large]} chunks is over the limit of {limit}"
    return None


def _durations_follow_the_cost_model(schedule: Schedule, facts: _Facts) -> str | None:
    """A group of s MB in all takes alpha + s * beta."""
    sends, problem = schedule.sends, schedule.problem
    expected = problem.topology.duration_us(sends.link, sends.size_mb)
    bad = _first(~lasts(sends.start_us, sends.end_us, expected))
    if bad is None:
        return None
    actual = sends.end_us - sends.start_us
    row = sends.first_row[bad]
    return f"{_row(schedule, row)}: takes {actual[bad]:.6f} us, the link's cost is {expected[bad]:.6f} us"


def _ports_serve_one_group_at_a_time(schedule: Schedule, facts: _Facts) -> str | None:
    """Of two groups on a port, one has its busy time there before the other starts.

    However short they are: what takes time is in the way. What is forgiven is a part of each one's
    own busy time and the rounding of the clock, so over any stretch of time the groups on a port need no
    more time, in all, than it has and the same part of it.
    """
    sends, topology = schedule.sends, schedule.problem.topology
    send, pair = topology.pairs_of(sends.link)
    busy = topology.port_busy_us(pair, sends.size_mb[send])
    counts = takes_time(busy)
    send, busy, port = send[counts], busy[counts], topology.incidence[1][pair[counts]]
    order = np.lexsort((busy, sends.start_us[send], port))
    send, busy, port = send[order], busy[order], port[order]
    start = sends.start_us[send]
    end = over_us(start + busy, busy)
    bad = _first((port[1:] == port[:-1]) & (start[1:] < end[:-1]))
    if bad is None:
        return None
    one, other = (sends.first_row[send[bad + i]] for i in (0, 1))
    return (
        f"{_row(schedule, one)} and {_row(schedule, other)}: "
        f"both use port {topology.port_names[port[bad]]} at once"
    )


def _each_contribution_is_added_once(schedule: Schedule, facts: _Facts) -> str | None:
    """For each reduced chunk, the adding transfers are a tree into one rank, in time order."""
    collective = schedule.problem.collective
    rows = np.flatnonzero(schedule.reduce)
    src, dst = facts.src[rows], facts.dst[rows]
    bad = _first(~collective.reduces[schedule.chunk[rows]])
    if bad is not None:
        return f"{_row(schedule, rows[bad])}: adds a chunk that is not reduced"
    if facts.derivation is not None:
        return _explicit_sums_can_be_made(schedule, facts.derivation)
    twice = first_repeated(src)
    if twice is not None:
        return f"{_row(schedule, rows[twice])}: its sender passes its contribution on twice"
    takes_part = facts.is_start.copy()
    takes_part[dst] = True
    bad = _first(~takes_part[src])
    if bad is not None:
        return f"{_row(schedule, rows[bad])}: its sender has no contribution"
    bad = _first(schedule.start_us[rows] < facts.partial_ready_us[src])
    if bad is not None:
        return f"{_row(schedule, rows[bad])}: leaves before all contributions to it have arrived"
    rootless = _first(collective.reduces & (facts.root < 0))
    if rootless is not None:
        ends = _ends(facts.is_start, src, dst)
        ranks = ", ".join(str(rank) for rank in facts.rank[ends[facts.chunk[ends] == rootless]][:8])
        where = f"they end at ranks {ranks}" if ranks else "they end nowhere"
        return f"{collective.describe_chunk(rootless)}: its contributions do not meet at one rank; {where}"
    last = _followed_to_the_end(dst, src, facts, schedule.problem.num_ranks)
    bad = _first(last[src] != facts.root[schedule.chunk[rows]])
    return None if bad is None else f"{_row(schedule, rows[bad])}: goes round in a circle of reductions"


def _explicit_sums_can_be_made(schedule: Schedule, derivation: Derivation) -> str | None:
    """A sender has disjoint sets that make up what it sends, and every output each contribution once."""
    if derivation.impossible:
        row, sums = derivation.impossible[0], schedule.sums
        assert sums is not None
        number = int(sums.of_row[row])
        what = "the whole sum" if number < 0 else f"the sum of ranks {_some(as_sets(sums.members)[number])}"
        return f"{_row(schedule, row)}: its sender cannot make {what} from what it holds by then"
    for (chunk, rank), ranks in derivation.missing.items():
        which = schedule.problem.collective.describe_chunk(chunk)
        why = f"it lacks those of ranks {', '.join(map(str, ranks[:8]))}" if ranks else "no disjoint sets do"
        return f"rank {rank} never gets all contributions to {which} once: {why}"
    return None


def _some(contributions: int) -> str:
    ranks = ranks_of(contributions)
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")


def _links_are_allowed(schedule: Schedule, facts: _Facts) -> str | None:
    """No chunk travels over a link that the designer rules out for its owner."""
    may_use = schedule.problem.limits.may_use
    if may_use is None:
        return None
    owner = schedule.problem.collective.owner[schedule.chunk]
    bad = _first(~may_use[owner, schedule.link])
    return None if bad is None else f"{_row(schedule, bad)}: rank {owner[bad]}'s chunks may not use this link"


def _senders_hold_what_they_copy(schedule: Schedule, facts: _Facts) -> str | None:
    held = facts.held_from_us[facts.src]
    bad = _first(facts.copies & (schedule.start_us < held))
    if bad is None:
        return None
    when = "never does" if held[bad] == _NEVER else f"does from {held[bad]:.3f} us on"
    return f"{_row(schedule, bad)}: its sender does not hold it yet ({when})"


def _ranks_sum_only_where_they_may(schedule: Schedule, facts: _Facts) -> str | None:
    """A rank that may not sum has one part of each sum: its own contribution, or one that comes."""
    may_sum = schedule.problem.topology.may_sum
    if may_sum is None:
        return None
    collective = schedule.problem.collective
    if facts.derivation is not None:
        made = [(row, int(schedule.src[row]), parts) for row, parts in facts.derivation.rows.items()]
        bad_row = next((row for row, rank, parts in made if len(parts) > 1 and not may_sum[rank]), None)
        if bad_row is not None:
            return f"{_row(schedule, bad_row)}: its sender sums, and may not"
        outputs = facts.derivation.outputs.items()
        bad_rank = next((rank for (_, rank), parts in outputs if len(parts) > 1 and not may_sum[rank]), None)
        return None if bad_rank is None else f"rank {bad_rank} sums, and may not"
    into = facts.dst[schedule.reduce & collective.reduces[schedule.chunk]]
    parts = np.bincount(into, minlength=len(facts.rank))
    parts += facts.is_start & collective.reduces[facts.chunk]
    bad = _first((parts > 1) & ~may_sum[facts.rank])
    if bad is None:
        return None
    which = collective.describe_chunk(int(facts.chunk[bad]))
    return f"rank {facts.rank[bad]} sums {parts[bad]} parts of {which}, and may not sum"


def _ranks_copy_only_where_they_may(schedule: Schedule, facts: _Facts) -> str | None:
    """A rank that may not copy does one thing with each chunk or part: it keeps it, or sends it, once."""
    may_copy = schedule.problem.topology.may_copy
    if may_copy is None:
        return None
    collective = schedule.problem.collective
    if facts.derivation is not None:
        used: set[tuple[int, int, int]] = set()
        rows = facts.derivation.rows.items()
        takes = [(int(schedule.chunk[row]), int(schedule.src[row]), parts) for row, parts in rows]
        takes += [(chunk, rank, parts) for (chunk, rank), parts in facts.derivation.outputs.items()]
        for chunk, rank, parts in takes:
            for part in parts:
                if (chunk, rank, part) in used and not may_copy[rank]:
                    return f"rank {rank} copies {collective.describe_chunk(chunk)}, and may not"
                used.add((chunk, rank, part))
    uses = np.bincount(facts.src[facts.copies], minlength=len(facts.rank))
    uses += np.bincount(facts.wanted, minlength=len(facts.rank))
    bad = _first((uses > 1) & ~may_copy[facts.rank])
    if bad is None:
        return None
    which = collective.describe_chunk(int(facts.chunk[bad]))
    return f"rank {facts.rank[bad]} makes {uses[bad]} of {which}, and may not copy"


def _each_rank_receives_once(schedule: Schedule, facts: _Facts) -> str | None:
    """No copy arrives where the chunk is already, or arrives a second time; nor does an explicit sum."""
    if schedule.sums is not None:
        key = facts.dst * (len(schedule.sums.members) + 1) + schedule.sums.of_row + 1
        twice = first_repeated(key)
        if twice is not None:
            return f"{_row(schedule, twice)}: its receiver gets it twice"
    rows = np.flatnonzero(facts.copies)
    cell = facts.dst[rows]
    twice = first_repeated(cell)
    if twice is not None:
        return f"{_row(schedule, rows[twice])}: its receiver gets it twice"
    bad = _first(facts.is_origin[cell])
    return None if bad is None else f"{_row(schedule, rows[bad])}: its receiver has it already"


def _demand_is_met(schedule: Schedule, facts: _Facts) -> str | None:
    missing = facts.held_from_us[facts.wanted] == _NEVER
    bad = _first(missing)
    if bad is None:
        return None
    cell = facts.wanted[bad]
    which = schedule.problem.collective.describe_chunk(int(facts.chunk[cell]))
    return f"rank {facts.rank[cell]} never gets {which} ({int(missing.sum())} demands are not met)"


def _copies_do_not_move_in_a_circle(schedule: Schedule, facts: _Facts) -> str | None:
    """With links that cost nothing, time order alone does not rule out circles of copies."""
    rows = np.flatnonzero(facts.copies & ~facts.is_origin[facts.dst])
    first = _followed_to_the_end(facts.src[rows], facts.dst[rows], facts, schedule.problem.num_ranks)
    is_dst = np.zeros(len(facts.rank), dtype=np.bool_)
    is_dst[facts.dst[rows]] = True
    bad = _first(is_dst[first[facts.dst[rows]]])
    return None if bad is None else f"{_row(schedule, rows[bad])}: goes round in a circle of copies"


def _followed_to_the_end(to: IntArray, cell: IntArray, facts: _Facts, num_ranks: int) -> IntArray:
    """Where each cell leads if `cell` leads on to `to`, again and again; inside a circle, anywhere in it."""
    leads_to = np.arange(len(facts.rank))
    leads_to[cell] = to
    for _ in range(max(1, num_ranks).bit_length()):
        leads_to = leads_to[leads_to]
    return leads_to


_RULES: tuple[Callable[[Schedule, _Facts], str | None], ...] = (
    _groups_are_one_send,
    _durations_follow_the_cost_model,
    _ports_serve_one_group_at_a_time,
    _links_are_allowed,
    _each_contribution_is_added_once,
    _senders_hold_what_they_copy,
    _ranks_sum_only_where_they_may,
    _ranks_copy_only_where_they_may,
    _each_rank_receives_once,
    _copies_do_not_move_in_a_circle,
    _demand_is_met,
)


def _first(bad: BoolArray) -> int | None:
    """The first true position."""
    position = int(bad.argmax()) if len(bad) else 0
    return position if len(bad) and bad[position] else None


def _row(schedule: Schedule, row: int) -> str:
    return (
        f"row {row} (chunk {schedule.chunk[row]}, {schedule.src[row]} -> {schedule.dst[row]}, "
        f"{schedule.start_us[row]:.3f} us)"
    )
