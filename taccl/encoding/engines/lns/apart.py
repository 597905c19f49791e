"""A schedule taken apart: who carries what in which send, and what each of that waits for.

Chunks that do everything together are one *bundle*, as wide as they are many; a model has one variable for
all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from taccl.encoding.core.timing import Decision
from taccl.model.problem import Problem
from taccl.model.schedule.partial_sums import OWN, Holdings, contributors

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
    made : of cells where a whole sum is made, the rows that it is made of.
    sum_out_of : the row that passes on the sum of a cell of a tree: it carries all that comes there, and
        nothing else leaves. Any other tree of the same cells into the same rank would do as well.
    sink : of each such cell, the rank where its tree ends.
    root : of each bundle of which all partial sums are one tree, its sink.
    """

    problem: Problem
    decisions: list[Decision]
    explicit: bool
    bundles: list[tuple[int, ...]]
    rows: list[Row]
    copy_into: dict[Cell, int] = field(default_factory=dict)
    made: dict[Cell, tuple[int, ...]] = field(default_factory=dict)
    sum_out_of: dict[Cell, int] = field(default_factory=dict)
    sink: dict[Cell, int] = field(default_factory=dict)
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
    places: list[list[tuple[int, float]]] = [[] for _ in range(problem.num_chunks)]
    size_mb = problem.size_mb.tolist()
    collective, ranks = problem.collective, problem.num_ranks
    for shift, placement, moment in (
        (0, collective.inputs, problem.ready_at),
        (ranks, collective.outputs, problem.tail_at),
    ):
        for chunk, rank in zip(placement.chunk.tolist(), placement.rank.tolist(), strict=True):
            places[chunk].append((rank + shift, moment.get((chunk, rank), 0.0)))
    by_rule = problem.limits.may_use is not None or problem.limits.own_first is not None
    equivalent: dict[object, list[int]] = defaultdict(list)
    for chunk in range(problem.num_chunks):
        owner = int(collective.owner[chunk]) if by_rule else -1
        reduces = bool(collective.reduces[chunk])
        key = (tuple(travels[chunk]), tuple(sorted(places[chunk])), size_mb[chunk], reduces, owner)
        equivalent[key].append(chunk)
    return [tuple(chunks) for chunks in equivalent.values()]


def _carried(decision: Decision) -> tuple[int, ...]:
    return decision.sums or (0,) * len(decision.chunks)


def taken_apart(problem: Problem, decisions: list[Decision], bundles: list[tuple[int, ...]]) -> Apart | None:
    """The rows of a schedule's sends, which stand in the order of their starts; None if they are in no order
    in which they can happen.

    `bundles` has each chunk once, and only such together as `bundles_of` has together.
    """
    explicit = any(decision.sums is not None for decision in decisions)
    first = {chunks[0]: number for number, chunks in enumerate(bundles)}
    plain = [
        (first[chunk], decision.link, send, decision.reduce if named is None else named > 0, named or 0)
        for send, decision in enumerate(decisions)
        for chunk, named in zip(decision.chunks, decision.sums or (None,) * len(decision.chunks), strict=True)
        if chunk in first
    ]
    holdings = Holdings(problem) if explicit else None
    needs = _compact_needs(problem, plain)
    if holdings is not None:
        if (found := _explicit_needs(problem, bundles, plain, holdings)) is None:
            return None
        needs = found
    rows = [Row(*row, needs=each) for row, each in zip(plain, needs, strict=True)]
    apart = Apart(problem, decisions, explicit, bundles, rows)
    _find_copies(apart)
    _find_trees(apart)
    _find_where_sums_are_made(apart, holdings)
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
    problem: Problem,
    bundles: list[tuple[int, ...]],
    rows: list[tuple[int, int, int, bool, int]],
    holdings: Holdings,
) -> list[tuple[int, ...]] | None:
    """A row waits for what its own sums are made of."""
    src, dst = problem.topology.src.tolist(), problem.topology.dst.tolist()
    whole = contributors(problem.collective)
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


def _find_copies(apart: Apart) -> None:
    dst = apart.problem.topology.dst.tolist()
    several: set[Cell] = set()
    for number, row in enumerate(apart.rows):
        if not row.is_sum:
            cell = row.bundle, dst[row.link]
            if cell in apart.copy_into:
                several.add(cell)
            apart.copy_into.setdefault(cell, number)
    for cell in several:
        del apart.copy_into[cell]


def _find_trees(apart: Apart) -> None:
    """Ranks that pass a bundle's sum on once, with all that comes there, and where that ends."""
    src, dst = apart.problem.topology.src.tolist(), apart.problem.topology.dst.tolist()
    into: dict[Cell, set[int]] = defaultdict(set)
    out_of: dict[Cell, list[int]] = defaultdict(list)
    for index, row in enumerate(apart.rows):
        if row.is_sum:
            into[row.bundle, dst[row.link]].add(index)
            out_of[row.bundle, src[row.link]].append(index)
    whole = contributors(apart.problem.collective)
    _find_sums_passed_on(apart, whole, into, out_of)
    for cell in apart.sum_out_of:
        end = cell
        while end in apart.sum_out_of:
            end = end[0], dst[apart.rows[apart.sum_out_of[end]].link]
        apart.sink[cell] = end[1]
    for bundle in {row.bundle for row in apart.rows if row.is_sum}:
        cells = [cell for cell in out_of if cell[0] == bundle]
        sinks = {apart.sink.get(cell, -1) for cell in cells}
        if len(sinks) == 1 and -1 not in sinks:
            members = sinks | {rank for _, rank in cells}
            if sum(1 << rank for rank in members) == whole[apart.bundles[bundle][0]]:
                apart.root[bundle] = sinks.pop()


def _find_sums_passed_on(
    apart: Apart, whole: Sequence[int], into: Mapping[Cell, set[int]], out_of: Mapping[Cell, list[int]]
) -> None:
    """Sums that leave a rank once, with its own part and all that came; `whole` : all parts, as bits."""
    src = apart.problem.topology.src.tolist()
    for index, row in enumerate(apart.rows):  # what is passed on stands after what came
        if not row.is_sum:
            continue
        cell = row.bundle, src[row.link]
        contributes = whole[apart.bundles[row.bundle][0]] >> cell[1] & 1
        if len(out_of[cell]) > 1 or not contributes or into.get(cell, set()) != set(row.needs):
            continue
        parts = [(row.bundle, src[apart.rows[need].link]) for need in row.needs]
        if all(part in apart.sum_out_of for part in parts):
            apart.sum_out_of[cell] = index


def _find_where_sums_are_made(apart: Apart, holdings: Holdings | None) -> None:
    topology, collective = apart.problem.topology, apart.problem.collective
    src, dst = topology.src.tolist(), topology.dst.tolist()
    into: dict[Cell, list[int]] = defaultdict(list)
    leaves = {(row.bundle, src[row.link]) for row in apart.rows if not row.is_sum}
    for number, row in enumerate(apart.rows):
        if row.is_sum:
            into[row.bundle, dst[row.link]].append(number)
    for bundle, root in apart.root.items():
        apart.made[bundle, root] = tuple(into[bundle, root])
    if holdings is None:
        return
    first = {chunks[0]: number for number, chunks in enumerate(apart.bundles)}
    whole = contributors(collective)
    for chunk, rank in zip(collective.outputs.chunk.tolist(), collective.outputs.rank.tolist(), strict=True):
        if chunk in first and collective.reduces[chunk]:
            leaves.add((first[chunk], rank))
    for bundle, rank in sorted(leaves - set(apart.copy_into)):
        chunk = apart.bundles[bundle][0]
        made_of = holdings.sources(chunk, rank, whole[chunk]) if collective.reduces[chunk] else None
        if made_of is not None and all(part == OWN or apart.rows[part].is_sum for part in made_of):
            apart.made[bundle, rank] = tuple(part for part in made_of if part != OWN)
