"""The rules that every schedule keeps, one function each.

Each rule looks at whole columns and returns a sentence about the first row that breaks it, or None.
`check_schedule` runs them all. A schedule is judged by its columns, the cost model and
the problem's `may_use` alone. What only partial sums must keep stands in `sum_rules`.

A reduced chunk moves as partial sums and as copies of the whole sum. Where the schedule says which
contributions each row carries (`sums`), a rank may pass on any sum that it can make of what it holds, as
often as it likes, and each output must hold each contribution exactly once. In the compact form each sum
is made once: first every contribution travels once towards one rank, the *root of the sum*, the transfers
marked `reduce` forming a tree into it; then copies of the finished sum spread from there. A chunk that is
not reduced only has copies.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from taccl.errors import ScheduleError
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray
from taccl.model.schedule.blocks import column_of, first_row
from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.facts import (
    NEVER,
    ScheduleFacts,
    first_true,
    followed_to_the_end,
    in_words,
    is_later,
)
from taccl.model.schedule.finish import makespan_us
from taccl.model.schedule.memory import helpers_hold_no_more_than_their_memory
from taccl.model.schedule.numbering import ascends, by_value, first_repeated
from taccl.model.schedule.sum_rules import (
    each_contribution_is_added_once,
    ranks_sum_only_where_they_may,
    sums_are_well_formed,
)
from taccl.model.tolerance import ULPS, lasts, over_us, takes_time


def check_schedule(schedule: Transfers) -> None:
    """Raise `ScheduleError` with what is wrong, unless all rules hold."""
    problem = _columns_are_well_formed(schedule)
    if problem is None:
        facts = ScheduleFacts.of(schedule)
        problems = [rule(schedule, facts) for rule in _RULES]
    else:
        problems = [problem]
    findings = [finding for finding in problems if finding is not None]
    if findings:
        raise ScheduleError("the schedule is not valid", findings=findings)


def _columns_are_well_formed(schedule: Transfers) -> str | None:
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
        bad = first_true((column < 0) | (column >= limit))
        if bad is not None:
            return f"row {bad}: {name} {column[bad]} is outside 0 .. {limit - 1}"
    bad = first_true(~(np.isfinite(schedule.start_us) & np.isfinite(schedule.end_us)))
    if bad is not None:
        return f"row {bad}: a time is not finite"
    bad = first_true(schedule.start_us < -ULPS * np.spacing(makespan_us(schedule)))
    if bad is not None:
        return f"row {bad}: starts before 0, at {schedule.start_us[bad]} us"
    if schedule.sums is not None and problem.sum_work_us is not None:
        return (
            "sums that are worked on before they are copied are made once, and these name their contributions"
        )
    return None if schedule.sums is None else sums_are_well_formed(schedule, schedule.sums)


def _groups_are_one_send(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """A group has one link, start and end, no chunk twice, and no more chunks than a step holds."""
    sends, limit = schedule.sends, schedule.problem.max_group
    if len(sends) == len(schedule):  # each row is a group
        return None
    bad = _differs_from_its_group(schedule)
    if bad is not None:
        return f"{in_words(schedule, bad)}: differs in link or time from the rest of its group"
    twice = first_repeated(sends.of_row * schedule.problem.num_chunks + schedule.chunk)
    if twice is not None:
        return f"{in_words(schedule, twice)}: is in group {schedule.group[twice]} twice"
    large = first_true(sends.count > limit)
    if large is not None:
        row = sends.first_row[large]
        many = sends.count[large]
        return f"{in_words(schedule, row)}: its group of {many} chunks is over the limit of {limit}"
    return None


def _differs_from_its_group(schedule: Transfers) -> int | None:
    """The first row whose link or times are not those of the first row of its group."""
    sends, columns = schedule.sends, (schedule.link, schedule.start_us, schedule.end_us)

    def differs(rows: slice) -> BoolArray:
        first = sends.first_row[sends.of_row[rows]]
        link, start, end = (column[rows] != column[first] for column in columns)
        return np.asarray(link | start | end)

    return first_row(len(schedule), differs)


def _durations_follow_the_cost_model(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """A group of s MB in all takes alpha + s * beta."""
    sends, topology = schedule.sends, schedule.problem.topology

    def expected_us(rows: slice) -> FloatArray:
        return topology.duration_us(sends.link[rows], sends.size_mb[rows])

    bad = first_row(
        len(sends), lambda rows: ~lasts(sends.start_us[rows], sends.end_us[rows], expected_us(rows))
    )
    if bad is None:
        return None
    actual = sends.end_us[bad] - sends.start_us[bad]
    cost = expected_us(slice(bad, bad + 1))[0]
    row = sends.first_row[bad]
    return f"{in_words(schedule, row)}: takes {actual:.6f} us, the link's cost is {cost:.6f} us"


def _ports_serve_one_group_at_a_time(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """Of two groups on a port, one has its busy time there before the other starts.

    However short they are: what takes time is in the way. What is forgiven is a part of each one's
    own busy time and some steps of the clock, which `tolerance.over_us` adds up: of n groups within t, a part
    of t of 1e-9 + 2.5e-15 * n.
    """
    sends, topology = schedule.sends, schedule.problem.topology
    send, pair = topology.pairs_of(sends.link)
    busy = column_of(
        *(len(pair), np.float64),
        lambda rows: topology.port_busy_us(pair[rows], sends.size_mb[send[rows]]),
    )
    # Ports are few: a column of 16 bits is sorted by counting.
    number = np.uint16 if topology.num_ports <= 2**16 else np.int64
    port = column_of(len(pair), number, lambda rows: topology.incidence[1][pair[rows]])
    counts = takes_time(busy)
    if not counts.all():
        send, busy, port = send[counts], busy[counts], port[counts]
    start = sends.start_us if len(port) == len(pair) == len(sends) else sends.start_us[send]
    order = _in_turn(port, start, busy)

    def clash(rows: slice) -> BoolArray:
        both = order[rows.start : rows.stop + 1]
        where, begins, lasting = port[both], start[both], busy[both]
        over = over_us(begins[:-1] + lasting[:-1], lasting[:-1])
        return np.asarray((where[1:] == where[:-1]) & (begins[1:] < over))

    bad = first_row(len(order) - 1, clash)
    if bad is None:
        return None
    one, other = (sends.first_row[send[order[bad + i]]] for i in (0, 1))
    return (
        f"{in_words(schedule, one)} and {in_words(schedule, other)}: "
        f"both use port {topology.port_names[port[order[bad]]]} at once"
    )


def _in_turn(port: NDArray[np.integer], start_us: FloatArray, busy_us: FloatArray) -> IntArray:
    """The order by port, then start, then busy time."""
    if ascends(start_us):
        order = by_value(port)

        def together(rows: slice) -> BoolArray:
            both = order[rows.start : rows.stop + 1]
            where, begins = port[both], start_us[both]
            return np.asarray((where[1:] == where[:-1]) & (begins[1:] == begins[:-1]))

        if first_row(len(order) - 1, together) is None:  # so busy times do not matter
            return order
    return np.lexsort((busy_us, start_us, port))


def _links_are_allowed(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """No chunk travels over a link that the designer rules out for its owner."""
    may_use = schedule.problem.limits.may_use
    if may_use is None:
        return None
    owner = schedule.problem.collective.owner[schedule.chunk]
    bad = first_true(~may_use[owner, schedule.link])
    return (
        None
        if bad is None
        else f"{in_words(schedule, bad)}: rank {owner[bad]}'s chunks may not use this link"
    )


def _senders_hold_what_they_copy(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    held_us, start_us = facts.held_from_us, schedule.start_us
    bad = first_row(
        len(schedule), lambda rows: facts.copies[rows] & (start_us[rows] < held_us[facts.src[rows]])
    )
    if bad is None:
        return None
    held = held_us[facts.src[bad]]
    when = "never does" if held == NEVER else f"does from {held:.3f} us on"
    return f"{in_words(schedule, bad)}: its sender does not hold it yet ({when})"


def _ranks_copy_only_where_they_may(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """A rank that may not copy does one thing with each chunk or part: it keeps it, or sends it, once."""
    may_copy = schedule.problem.topology.may_copy
    if may_copy is None:
        return None
    collective = schedule.problem.collective
    if facts.derivation is not None:
        used: set[tuple[int, int, int]] = set()
        rows, src = facts.derivation.rows.items(), schedule.src
        takes = [(int(schedule.chunk[row]), int(src[row]), parts) for row, parts in rows]
        takes += [(chunk, rank, parts) for (chunk, rank), parts in facts.derivation.outputs.items()]
        for chunk, rank, parts in takes:
            for part in parts:
                if (chunk, rank, part) in used and not may_copy[rank]:
                    return f"rank {rank} copies {collective.describe_chunk(chunk)}, and may not"
                used.add((chunk, rank, part))
    uses = np.bincount(facts.src[facts.copies], minlength=len(facts.held_from_us))
    uses += np.bincount(facts.wanted, minlength=len(facts.held_from_us))
    several = np.flatnonzero(uses > 1)
    bad = first_true(~may_copy[facts.rank_of(several)])
    if bad is None:
        return None
    rank, chunk = facts.rank_of(several)[bad], facts.chunk_of(several)[bad]
    which = collective.describe_chunk(int(chunk))
    return f"rank {rank} makes {uses[several[bad]]} of {which}, and may not copy"


def _each_rank_receives_once(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """No copy arrives where the chunk is already, or arrives a second time; nor does an explicit sum."""
    if schedule.sums is not None:
        key = facts.dst * (len(schedule.sums.members) + 1) + schedule.sums.numbers() + 1
        twice = first_repeated(key)
        if twice is not None:
            return f"{in_words(schedule, twice)}: its receiver gets it twice"
    cell = facts.dst if facts.copies.all() else facts.dst[facts.copies]
    bad, why = first_repeated(cell), "gets it twice"
    if bad is None:
        bad, why = first_true(facts.is_origin[cell]), "has it already"
    if bad is None:
        return None
    return f"{in_words(schedule, np.flatnonzero(facts.copies)[bad])}: its receiver {why}"


def _demand_is_met(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    missing = facts.held_from_us[facts.wanted] == NEVER
    bad = first_true(missing)
    if bad is None:
        return None
    chunk, rank = facts.chunk_of(facts.wanted)[bad], facts.rank_of(facts.wanted)[bad]
    which = schedule.problem.collective.describe_chunk(int(chunk))
    return f"rank {rank} never gets {which} ({int(missing.sum())} demands are not met)"


def _copies_do_not_move_in_a_circle(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """With links that cost nothing, time order alone does not rule out circles of copies."""
    if is_later(facts.held_from_us, facts.dst, facts.src, facts.copies):
        return None
    rows = np.flatnonzero(facts.copies & ~facts.is_origin[facts.dst])
    first = followed_to_the_end(facts.src[rows], facts.dst[rows], facts)
    is_dst = np.zeros(len(first), dtype=np.bool_)
    is_dst[facts.dst[rows]] = True
    bad = first_true(is_dst[first[facts.dst[rows]]])
    return None if bad is None else f"{in_words(schedule, rows[bad])}: goes round in a circle of copies"


_RULES: tuple[Callable[[Transfers, ScheduleFacts], str | None], ...] = (
    _groups_are_one_send,
    _durations_follow_the_cost_model,
    _ports_serve_one_group_at_a_time,
    _links_are_allowed,
    each_contribution_is_added_once,
    _senders_hold_what_they_copy,
    ranks_sum_only_where_they_may,
    _ranks_copy_only_where_they_may,
    helpers_hold_no_more_than_their_memory,
    _each_rank_receives_once,
    _copies_do_not_move_in_a_circle,
    _demand_is_met,
)
