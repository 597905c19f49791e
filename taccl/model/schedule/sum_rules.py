"""The rules of partial sums: each contribution is added once, by ranks that may, at the right time."""

from __future__ import annotations

import numpy as np

from taccl.model.schedule.columns import Transfers
from taccl.model.schedule.derivation import Derivation
from taccl.model.schedule.facts import (
    ScheduleFacts,
    ends_of,
    first_true,
    followed_to_the_end,
    in_words,
    is_later,
)
from taccl.model.schedule.numbering import first_repeated
from taccl.model.schedule.partial_sums import PartialSums, as_sets, ranks_of


def sums_are_well_formed(schedule: Transfers, sums: PartialSums) -> str | None:
    """The table of sums fits the problem, and the rows that are partial sums name one of it each."""
    if sums.members.ndim != 2 or sums.members.shape[1] != schedule.problem.num_ranks:
        return "the contributions of a sum are not given for each rank"
    if sums.of_row.shape != schedule.chunk.shape or sums.of_row.dtype.kind != "i":
        return "the column of sums must have an integer for each row"
    bad = first_true((sums.of_row < -1) | (sums.of_row >= len(sums.members)))
    if bad is not None:
        return f"row {bad}: sum {sums.of_row[bad]} is outside -1 .. {len(sums.members) - 1}"
    bad = first_true((sums.of_row >= 0) != schedule.reduce)
    if bad is not None:
        return f"row {bad}: only a partial sum names its contributions, and it has to"
    is_empty = np.append(~sums.members.any(axis=1), False)  # the last is for -1, which is a copy
    bad = first_true(is_empty[sums.of_row])
    return None if bad is None else f"row {bad}: a partial sum of no contributions"


def each_contribution_is_added_once(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """For each reduced chunk, the adding transfers are a tree into one rank, in time order."""
    collective = schedule.problem.collective
    rows = np.flatnonzero(schedule.reduce)
    src, dst = facts.src[rows], facts.dst[rows]
    bad = first_true(~collective.reduces[schedule.chunk[rows]])
    if bad is not None:
        return f"{in_words(schedule, rows[bad])}: adds a chunk that is not reduced"
    if facts.derivation is not None:
        return _explicit_sums_can_be_made(schedule, facts.derivation)
    twice = first_repeated(src)
    if twice is not None:
        return f"{in_words(schedule, rows[twice])}: its sender passes its contribution on twice"
    takes_part = facts.contributes.copy()
    takes_part[dst] = True
    bad = first_true(~takes_part[src])
    if bad is not None:
        return f"{in_words(schedule, rows[bad])}: its sender has no contribution"
    bad = first_true(schedule.start_us[rows] < facts.partial_ready_us[src])
    if bad is not None:
        return f"{in_words(schedule, rows[bad])}: leaves before all contributions to it have arrived"
    rootless = first_true(collective.reduces & (facts.root < 0))
    if rootless is not None:
        ends = ends_of(facts.contributes, src, dst)
        of_chunk = ends[facts.chunk_of(ends) == rootless]
        ranks = ", ".join(str(rank) for rank in facts.rank_of(of_chunk)[:8])
        where = f"they end at ranks {ranks}" if ranks else "they end nowhere"
        return f"{collective.describe_chunk(rootless)}: its contributions do not meet at one rank; {where}"
    if is_later(facts.partial_ready_us, dst, src):
        return None
    last = followed_to_the_end(dst, src, facts)
    bad = first_true(last[src] != facts.root[schedule.chunk[rows]])
    return None if bad is None else f"{in_words(schedule, rows[bad])}: goes round in a circle of reductions"


def _explicit_sums_can_be_made(schedule: Transfers, derivation: Derivation) -> str | None:
    """A sender has disjoint sets that make up what it sends, and every output each contribution once."""
    if derivation.impossible:
        row, sums = derivation.impossible[0], schedule.sums
        assert sums is not None
        number = int(sums.of_row[row])
        what = "the whole sum" if number < 0 else f"the sum of ranks {_some(as_sets(sums.members)[number])}"
        return f"{in_words(schedule, row)}: its sender cannot make {what} from what it holds by then"
    for (chunk, rank), ranks in derivation.missing.items():
        which = schedule.problem.collective.describe_chunk(chunk)
        why = f"it lacks those of ranks {', '.join(map(str, ranks[:8]))}" if ranks else "no disjoint sets do"
        return f"rank {rank} never gets all contributions to {which} once: {why}"
    return None


def _some(contributions: int) -> str:
    ranks = ranks_of(contributions)
    return ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")


def ranks_sum_only_where_they_may(schedule: Transfers, facts: ScheduleFacts) -> str | None:
    """A rank that may not sum has one part of each sum: its own contribution, or one that comes."""
    may_sum = schedule.problem.topology.may_sum
    if may_sum is None:
        return None
    collective = schedule.problem.collective
    if facts.derivation is not None:
        src = schedule.src
        made = [(row, int(src[row]), parts) for row, parts in facts.derivation.rows.items()]
        bad_row = next((row for row, rank, parts in made if len(parts) > 1 and not may_sum[rank]), None)
        if bad_row is not None:
            return f"{in_words(schedule, bad_row)}: its sender sums, and may not"
        outputs = facts.derivation.outputs.items()
        bad_rank = next((rank for (_, rank), parts in outputs if len(parts) > 1 and not may_sum[rank]), None)
        return None if bad_rank is None else f"rank {bad_rank} sums, and may not"
    into = facts.dst[schedule.reduce & collective.reduces[schedule.chunk]]
    parts = np.bincount(into, minlength=len(facts.contributes))
    parts += facts.contributes
    several = np.flatnonzero(parts > 1)
    bad = first_true(~may_sum[facts.rank_of(several)])
    if bad is None:
        return None
    rank, chunk = facts.rank_of(several)[bad], facts.chunk_of(several)[bad]
    which = collective.describe_chunk(int(chunk))
    return f"rank {rank} sums {parts[several[bad]]} parts of {which}, and may not sum"
