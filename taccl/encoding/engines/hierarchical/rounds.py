r"""Rounds: which of node 0's chunks go to which node over which rail; in a round all rails carry as much.

*Divided*: in a round of width w each rail carries the chunks of w GPUs in turn to one node, so a round serves
rails * w / GPUs  nodes. *Falling*: rails are in teams, and
as many nodes as there are teams are served together, each by a team whose rails have a part of a node's
chunks each, in rounds whose widths add up to that part; so widths can be any. Wide rounds pay alpha seldom,
narrow ones begin early and leave little to be spread inside nodes after the last has come.

Let a round of n chunks take a + b n across nodes and keep the busiest port inside busy for c + d n. All is
spread L after the last round came, if nothing is in its way, where each round is no wider than what the
rounds after it leave time for:

    c + d w  <=  L + sum over later rounds of ((a + b w') - (c + d w')).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from taccl.encoding.engines.hierarchical.tuning import ROUNDS_LAGS, ROUNDS_MOST_ROWS


@dataclass(frozen=True)
class Piece:
    """What a rail carries in a round: chunks of node 0 from `first` to before `last`.

    `node` : to whom, as the place in `Rails.order`.
    """

    node: int
    first: int
    last: int


#: A piece for each rail.
Round = tuple[Piece, ...]


@dataclass(frozen=True)
class RoundCosts:
    """What a round of n chunks keeps busy, microseconds: `alpha_us + n * chunk_us`.

    The first two are of the rails, the others of the busiest port inside a node.
    """

    alpha_us: float
    chunk_us: float
    inside_alpha_us: float
    inside_chunk_us: float


def widths(gpus: int, num_rails: int) -> list[int]:
    """The widths that divided rounds can have: each serves a whole number of nodes."""
    return [w for w in range(1, gpus + 1) if gpus % w == 0 and num_rails * w % gpus == 0]


def rounds(nodes: int, gpus: int, num_rails: int, widest: int, tapered: bool) -> list[int]:
    """The widths of divided rounds for this many nodes, none wider than `widest`, narrow ones at both ends.

    `tapered` : widths rise from the narrowest and fall to it, as far as there are nodes for that.
    """
    usable = [w for w in widths(gpus, num_rails) if w <= widest]
    served = {w: num_rails * w // gpus for w in usable}
    begins = [w for w in usable if w < widest] if tapered else usable[:1]
    while begins and 2 * sum(served[w] for w in begins) > nodes:
        begins.pop()
    left = nodes - 2 * sum(served[w] for w in begins)
    middle: list[int] = []
    for w in reversed(usable):
        middle += [w] * (left // served[w])
        left %= served[w]
    return [*begins, *middle, *reversed(begins)]


def divided(in_widths: Sequence[int], gpus: int, num_rails: int, each: int) -> Iterator[Round]:
    """Divided rounds of these widths, of `each` chunks of a GPU."""
    served = 0
    for width in in_widths:
        parts = gpus // width
        yield tuple(
            Piece(
                served + number // parts,
                number % parts * width * each,
                (number % parts + 1) * width * each,
            )
            for number in range(num_rails)
        )
        served += num_rails * width // gpus


def falling(
    nodes: int, gpus: int, num_rails: int, each: int, most: int, costs: RoundCosts
) -> Iterator[tuple[Round, ...]]:
    """Rounds for this many nodes that rise at once and fall to the end, in the routes that promise most.

    `most` : chunks in one send.
    """
    found: dict[tuple[Round, ...], float] = {}
    for rails in (rails for rails in range(1, num_rails + 1) if num_rails % rails == 0):
        together, chunks = num_rails // rails, gpus * each // rails
        # GPUs that all have a rail have their own chunks at once; others begin with what they get soonest.
        apart = 0 if rails == gpus else nodes % together or min(nodes, together)
        groups = (nodes - apart) // together
        if not groups or gpus * each % rails:
            continue
        teams = _Teams(num_rails, rails, chunks, apart)
        begins = tuple(divided(_rising(apart, gpus, num_rails), gpus, num_rails, each))
        widest = min(chunks, most)
        for falls in _rows_of_widths(groups * chunks, widest, costs):
            plan = (*begins, *_in_groups(teams, _packed(falls, chunks, groups, widest), falls))
            found[plan] = _ends_us(plan, each, costs)
    yield from sorted(found, key=lambda plan: found[plan])[:ROUNDS_MOST_ROWS]


def _ends_us(plan: Sequence[Round], each: int, costs: RoundCosts) -> float:
    """When all is spread if rounds follow each other at once, across nodes and then inside."""
    came_us, spread_us = 0.0, costs.inside_alpha_us + costs.inside_chunk_us * each
    for pieces in plan:
        width = pieces[0].last - pieces[0].first
        came_us += costs.alpha_us + costs.chunk_us * width
        spread_us = max(spread_us, came_us) + costs.inside_alpha_us + costs.inside_chunk_us * width
    return spread_us


@dataclass(frozen=True)
class _Teams:
    """Rails that carry to one node together: `rails` of all, `chunks` each; some nodes `apart` come first."""

    num_rails: int
    rails: int
    chunks: int
    apart: int


def _rising(nodes: int, gpus: int, num_rails: int) -> list[int]:
    """The widths of divided rounds for this many nodes, ascending: each width once, then few more."""
    served = {w: num_rails * w // gpus for w in widths(gpus, num_rails)}
    chosen: list[int] = []
    for w, many in served.items():
        if many <= nodes:
            chosen.append(w)
            nodes -= many
    for w in reversed(served):
        chosen += [w] * (nodes // served[w])
        nodes %= served[w]
    return sorted(chosen)


def _rows_of_widths(total: int, widest: int, costs: RoundCosts) -> list[list[int]]:
    """Widths of the last rounds, the last one first, in the routes that promise most."""
    least = costs.inside_alpha_us + costs.inside_chunk_us
    most = costs.inside_alpha_us + costs.inside_chunk_us * widest
    found: dict[tuple[int, ...], float] = {}
    for step in range(ROUNDS_LAGS):
        lag_us = least * (most / least) ** (step / (ROUNDS_LAGS - 1)) if least > 0 else 0.0
        row = _falls(lag_us, total, widest, costs)
        rounds_after = (total - sum(row)) / widest
        if row or lag_us >= most:
            loss_us = (len(row) + rounds_after) * costs.alpha_us + lag_us
            found[tuple(row)] = min(loss_us, found.get(tuple(row), loss_us))
    return [list(row) for row in sorted(found, key=lambda row: found[row])[:ROUNDS_MOST_ROWS]]


def _falls(lag_us: float, total: int, widest: int, costs: RoundCosts) -> list[int]:
    """The widths of rounds from the last one back until they are widest, in chunks."""
    row: list[int] = []
    spare_us = lag_us
    while sum(row) < total:
        room = (spare_us - costs.inside_alpha_us) / max(costs.inside_chunk_us, 1e-12)
        width = int(min(room + 1e-9, widest, total - sum(row)))
        if width < 1:
            return []  # inside, rounds take longer than across: what is left to be spread only grows
        if width == widest:
            return row
        row.append(width)
        spare_us += costs.alpha_us - costs.inside_alpha_us
        spare_us += width * (costs.chunk_us - costs.inside_chunk_us)
    return row


def _packed(falls: Sequence[int], chunks: int, groups: int, widest: int) -> list[list[int]]:
    """As many groups of widths that add up to a node's chunks, with those of `falls` among them.

    Where there is no room for all, the widest are left out.
    """
    for wanted in range(len(falls), -1, -1):
        packed: list[list[int]] = []
        left = sorted(falls[:wanted], reverse=True)
        while left:
            packed.append(_group(left, chunks, widest))
        if len(packed) <= groups:
            return packed + [_group([], chunks, widest) for _ in range(groups - len(packed))]
    return []


def _group(left: list[int], chunks: int, widest: int) -> list[int]:
    """Widths that add up to `chunks`, of those in `left`, the widest first, as far as they fit."""
    group: list[int] = []
    while chunks:
        width = next((width for width in left if width <= chunks), None)
        if width is None:
            width = min(chunks, widest)
        else:
            left.remove(width)
        group.append(width)
        chunks -= width
    return group


def _in_groups(teams: _Teams, groups: Sequence[Sequence[int]], falls: Sequence[int]) -> list[Round]:
    """Rounds of all groups: what is narrower than the last first, then from the widest to the narrowest."""
    found: list[tuple[int, Round]] = []
    served = teams.apart
    for group in groups:
        ends = [0]
        for width in group:
            ends.append(ends[-1] + width)
        for first, last in pairwise(ends):
            found.append((last - first, tuple(_pieces(teams, served, first, last))))
        served += teams.num_rails // teams.rails
    least = min(falls, default=0)
    begins = sorted((each for each in found if each[0] < least), key=lambda each: each[0])
    rest = sorted((each for each in found if each[0] >= least), key=lambda each: -each[0])
    return [pieces for _, pieces in (*begins, *rest)]


def _pieces(teams: _Teams, served: int, first: int, last: int) -> Iterator[Piece]:
    for number in range(teams.num_rails):
        node, part = divmod(number, teams.rails)
        yield Piece(served + node, part * teams.chunks + first, part * teams.chunks + last)
