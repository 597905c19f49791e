"""A schedule taken apart: who carries what in which send, and what each of that waits for.

Chunks that do everything together are one *bundle*, as wide as they are many; a model has one variable for
all of them. It knows schedules; windows and solvers it must not know.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from taccl.encoding.core.timing import Decision
from taccl.problem import Problem
from taccl.schedule.partial_sums import OWN, Holdings, contributors

#: A bundle at a rank.
Cell = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Row:
    """A bundle in a send.

    Parameters
    ----------
    bundle, link, send : what, over which link, in which of the decisions.
    is_sum : whether it is a partial sum.
    carried : its contributions, 0 for a copy.
    needs : the rows that must have ended before.
    """

    bundle: int
    link: int
    send: int
    is_sum: bool
    carried: int
    needs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Apart:
    """The rows of a schedule, and where each bundle comes from.

    Parameters
    ----------
    problem, decisions : the problem, and the sends in order of their starts.
    explicit : whether the sends name contributions.
    bundles : the chunks of each.
    rows : in the order of the sends.
    copy_into : the one row that brings a copy to a cell; cells to which several come are not in it.
    sum_out_of : the row that passes on the sum of a cell, of bundles in `root`.
    root : of each bundle whose partial sums are a tree into one rank, that rank.
    """

    problem: Problem
    decisions: list[Decision]
    explicit: bool
    bundles: list[tuple[int, ...]]
    rows: list[Row]
    copy_into: dict[Cell, int] = field(default_factory=dict)
    sum_out_of: dict[Cell, int] = field(default_factory=dict)
    root: dict[int, int] = field(default_factory=dict)

    def rows_of(self) -> list[list[int]]:
        """The rows of each send."""
        rows: list[list[int]] = [[] for _ in self.decisions]
        for number, row in enumerate(self.rows):
            rows[row.send].append(number)
        return rows


def bundles_of(problem: Problem, decisions: Sequence[Decision]) -> list[tuple[int, ...]]:
    """Chunks that start together, are wanted together, and always travel together."""
    travels: list[list[tuple[int, int]]] = [[] for _ in range(problem.num_chunks)]
    for number, decision in enumerate(decisions):
        for chunk, carried in zip(decision.chunks, _carried(decision), strict=True):
            travels[chunk].append((number, carried))
    places: list[list[int]] = [[] for _ in range(problem.num_chunks)]
    collective, ranks = problem.collective, problem.num_ranks
    for shift, placement in ((0, collective.inputs), (ranks, collective.outputs)):
        for chunk, rank in zip(placement.chunk.tolist(), placement.rank.tolist(), strict=True):
            places[chunk].append(rank + shift)
    by_rule = problem.limits.may_use is not None or problem.limits.own_first is not None
    alike: dict[object, list[int]] = defaultdict(list)
    for chunk in range(problem.num_chunks):
        owner = int(collective.owner[chunk]) if by_rule else -1
        key = (tuple(travels[chunk]), tuple(sorted(places[chunk])), bool(collective.reduces[chunk]), owner)
        alike[key].append(chunk)
    return [tuple(chunks) for chunks in alike.values()]


def _carried(decision: Decision) -> tuple[int, ...]:
    return decision.sums or (0,) * len(decision.chunks)


def taken_apart(problem: Problem, decisions: list[Decision], bundles: list[tuple[int, ...]]) -> Apart | None:
    """The rows of a schedule's sends, which stand in the order of their starts; None if they are in no order
    in which they can happen.

    `bundles` has each chunk once, and only such together as `bundles_of` has together.
    """
    explicit = any(decision.sums is not None for decision in decisions)
    first = {chunks[0]: number for number, chunks in enumerate(bundles)}
    rows = [
        (first[chunk], decision.link, send, decision.reduce if named is None else named > 0, named or 0)
        for send, decision in enumerate(decisions)
        for chunk, named in zip(decision.chunks, decision.sums or (None,) * len(decision.chunks), strict=True)
        if chunk in first
    ]
    needs = _explicit_needs(problem, bundles, rows) if explicit else _compact_needs(problem, rows)
    if needs is None:
        return None
    apart = Apart(
        problem,
        decisions,
        explicit,
        bundles,
        [Row(*row, needs=each) for row, each in zip(rows, needs, strict=True)],
    )
    _find_ways(apart)
    return apart


def _compact_needs(problem: Problem, rows: list[tuple[int, int, int, bool, int]]) -> list[tuple[int, ...]]:
    """A copy waits for the copy that came, or for all partial sums; a partial sum waits for those."""
    src, dst = problem.topology.src.tolist(), problem.topology.dst.tolist()
    copy_into: dict[Cell, int] = {}
    sums_into: dict[Cell, list[int]] = defaultdict(list)
    for number, (bundle, link, _, is_sum, _) in enumerate(rows):
        if is_sum:
            sums_into[bundle, dst[link]].append(number)
        else:
            copy_into.setdefault((bundle, dst[link]), number)
    needs = []
    for bundle, link, _, is_sum, _ in rows:
        cell = bundle, src[link]
        is_copied_on = not is_sum and cell in copy_into
        needs.append((copy_into[cell],) if is_copied_on else tuple(sums_into.get(cell, ())))
    return needs


def _explicit_needs(
    problem: Problem, bundles: list[tuple[int, ...]], rows: list[tuple[int, int, int, bool, int]]
) -> list[tuple[int, ...]] | None:
    """A row waits for what its own sums are made of."""
    src, dst = problem.topology.src.tolist(), problem.topology.dst.tolist()
    holdings, whole = Holdings(problem), contributors(problem.collective)
    copy_into: dict[Cell, int] = {}
    needs: list[tuple[int, ...]] = []
    for number, (bundle, link, _, _, carried) in enumerate(rows):
        chunk, sender, receiver = bundles[bundle][0], src[link], dst[link]
        if not problem.collective.reduces[chunk]:
            needs.append((copy_into[bundle, sender],) if (bundle, sender) in copy_into else ())
            copy_into.setdefault((bundle, receiver), number)
            continue
        made_of = holdings.sources(chunk, sender, carried or whole[chunk])
        if made_of is None:
            return None
        needs.append(tuple(part for part in made_of if part != OWN))
        holdings.receive(chunk, receiver, carried or whole[chunk], number)
    return needs


def _find_ways(apart: Apart) -> None:
    src, dst = apart.problem.topology.src.tolist(), apart.problem.topology.dst.tolist()
    whole = contributors(apart.problem.collective)
    several: set[Cell] = set()
    passed_on: dict[int, dict[int, int]] = defaultdict(dict)
    no_tree: set[int] = set()
    for number, row in enumerate(apart.rows):
        if not row.is_sum:
            cell = row.bundle, dst[row.link]
            if cell in apart.copy_into:
                several.add(cell)
            apart.copy_into.setdefault(cell, number)
        elif src[row.link] in passed_on[row.bundle]:
            no_tree.add(row.bundle)
        else:
            passed_on[row.bundle][src[row.link]] = number
    for cell in several:
        del apart.copy_into[cell]
    for bundle, rows in passed_on.items():
        root = _root(apart, whole[apart.bundles[bundle][0]], rows)
        if bundle in no_tree or root is None:
            continue
        apart.root[bundle] = root
        apart.sum_out_of.update({(bundle, rank): row for rank, row in rows.items()})


def _root(apart: Apart, whole: int, passed_on: dict[int, int]) -> int | None:
    """Where a bundle's sum is made, if its partial sums are a tree of its contributors and nothing else."""
    topology = apart.problem.topology
    senders = sum(1 << rank for rank in passed_on)
    left = whole & ~senders
    if senders & ~whole or left.bit_count() != 1:
        return None
    if apart.explicit:
        carried = {rank: 1 << rank for rank in passed_on}
        for rank, number in sorted(passed_on.items(), key=lambda each: each[1]):
            row = apart.rows[number]
            if row.carried != carried[rank]:
                return None
            receiver = int(topology.dst[row.link])
            if receiver in carried:
                carried[receiver] |= row.carried
            elif receiver != left.bit_length() - 1:
                return None
    return left.bit_length() - 1
