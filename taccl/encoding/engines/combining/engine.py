"""The bulk engine: the sequence of sends is searched, and what each carries follows from it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.core.budget import UNITS_PER_S, Budget
from taccl.encoding.core.options import SearchOptions
from taccl.encoding.core.timing import in_order
from taccl.encoding.core.update import Update
from taccl.encoding.engines.combining.anneal import anneal
from taccl.encoding.engines.combining.begin import as_moves, as_moves_on, doubling, gossip
from taccl.encoding.engines.combining.board import Board, Move
from taccl.encoding.engines.combining.play import Played, Player, Route, Spread
from taccl.encoding.engines.engine import YES, Verdict, no
from taccl.encoding.instance import Instance
from taccl.encoding.symmetry.group import symmetry_group
from taccl.encoding.symmetry.search import with_symmetry
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule

#: Where more than this of a chunk's time on the links is alpha, messages are small.
SMALL = 0.05
#: More cells than this make playing a sequence too slow to search.
_MOST_CELLS = 4_000_000
#: Symmetries are found in a unit of work for so many pairs of a rank and a link.
_SYMMETRIES_PER_UNIT = 5_000
#: The searches after each other, as parts of the time: short ones from several beginnings, then long ones
#: from the best.
_STAGES = (0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.1, 0.1, 0.15, 0.15, 0.2)
_FROM_OTHERS = 6
#: The search ends when so many stages in a row, each from the best sequence, found nothing better.
_MOST_IN_VAIN = 2
_TRIALS, _BEGIN_PART = 40, 0.1
#: For chunks that one rank wants, sequences of AllGathers are beginnings: how large their chunks are, beside
#: those of the problem, and the part of the time for each.
_GOSSIP_WEIGHTS = (1.0, 4.0, 16.0)
_GOSSIP_PART = 0.05


def serves(instance: Instance) -> Verdict:
    """Whether messages are small, and each chunk goes from one rank to all or from one to one."""
    if instance.latency_fraction <= SMALL:
        return no(
            f"messages are not small: alpha is no more than {100 * SMALL:g}% of a chunk's time on any link"
        )
    if not (instance.demand.broadcasts or instance.demand.moves_pairwise):
        return no("it combines chunks that go from one rank to all, or from one to one")
    return YES


def _wanted_by_all(problem: Problem) -> bool:
    collective = problem.collective
    return bool((collective.num_sources == 1).all() and collective.post.all())


def _wanted_by_one(problem: Problem) -> bool:
    collective = problem.collective
    return bool((collective.num_sources == 1).all() and (collective.num_wanted == 1).all())


def bulk(instance: Instance, options: SearchOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield improving schedules until the budget is over; nothing where `serves` says no."""
    if serves(instance):
        for schedule in searched(instance.problem, options, budget, best):
            yield Update("bulk", schedule)


def bulk_at_once(
    instance: Instance, options: SearchOptions, budget: Budget, incumbent: Schedule | None
) -> Iterator[Update]:
    """The first schedules of `bulk`: on hundreds of ranks they are there long before a greedy one."""
    if serves(instance):
        for schedule in searched(instance.problem, options, budget.share(0.0), incumbent, at_once=True):
            yield Update("bulk", schedule)


def searched(
    problem: Problem,
    options: SearchOptions,
    budget: Budget,
    best: Schedule | None,
    at_once: bool = False,
) -> Iterator[Schedule]:
    """Better and better schedules than `best`, of a problem that is for message combining.

    Nothing if finding the symmetries would take longer than the budget, unless it is to answer `at_once`.
    """
    units = problem.topology.num_links * problem.num_ranks / _SYMMETRIES_PER_UNIT
    if not at_once and units / UNITS_PER_S > budget.remaining_s():
        return
    budget.spend(units)
    group = symmetry_group(with_symmetry(problem))
    if problem.num_chunks * problem.topology.num_links > _MOST_CELLS * len(group):
        return
    board = Board.of(problem, group)
    for played in _improving(board, best, options, budget):
        schedule = in_order(problem, played.decisions(board))
        if best is None or schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule
            yield best


def _improving(
    board: Board, best: Schedule | None, options: SearchOptions, budget: Budget
) -> Iterator[Played]:
    """Better and better sequences that meet every demand."""
    random, seconds = np.random.default_rng(options.seed), budget.remaining_s()
    player: Player = Spread(board) if _wanted_by_all(board.problem) else Route(board)
    found = [player.play(moves) for moves in _beginnings(board, best, budget, random)]
    found.sort(key=_value)
    in_vain = 0
    for number, part in enumerate(_STAGES):
        now = min(found, key=_value)
        if not now.unmet:
            yield now
        share = budget.at_most(part * seconds)
        if not share.remaining_s() or in_vain == _MOST_IN_VAIN:
            return
        if number < _FROM_OTHERS:
            found.append(anneal(player, found[number % len(found)], share, random))
        else:
            found.append(anneal(player, now, share, random))
            in_vain = in_vain + 1 if found[-1] is now else 0
    yield from (played for played in found[-1:] if not played.unmet)


def _value(played: Played) -> tuple[int, float]:
    return played.unmet, played.score


def _beginnings(
    board: Board, best: Schedule | None, budget: Budget, random: np.random.Generator
) -> Iterator[list[Move]]:
    """The sequence of the best schedule, and some by which every rank hears of every other."""
    seconds = budget.remaining_s()
    if best is not None:
        yield as_moves(board, best)
    if _wanted_by_all(board.problem):
        for played in _doublings(Spread(board), budget.at_most(_BEGIN_PART * seconds), random):
            yield played.moves
        return
    for weight in _GOSSIP_WEIGHTS:
        problem = gossip(board.problem, weight)
        player = Spread(Board.of(problem, symmetry_group(with_symmetry(problem))))
        told = _doublings(player, budget.at_most(_BEGIN_PART * seconds), random)[0]
        told = anneal(player, told, budget.at_most(_GOSSIP_PART * seconds), random)
        yield as_moves_on(board, told.moves, player.board)


def _doublings(player: Spread, budget: Budget, random: np.random.Generator) -> list[Played]:
    """Some that differ, the best first: one at least, and no more than there is time for."""
    trials = [player.play(doubling(player.board, random, few=False))]
    while budget.remaining_s() and len(trials) < _TRIALS:
        trials.append(player.play(doubling(player.board, random)))
    different = {round(trial.score, 6): trial for trial in trials}
    return sorted(different.values(), key=_value)
