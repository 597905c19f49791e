"""The bulk engine: the sequence of sends is searched, and what each carries follows from it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.encoding.bulk.anneal import anneal
from taccl.encoding.bulk.begin import as_moves, doubling, gossip
from taccl.encoding.bulk.board import Board
from taccl.encoding.bulk.play import Played, Player, Route, Spread
from taccl.encoding.engine import Budget, SolveOptions, Update
from taccl.encoding.greedy import beginning_with_greedy
from taccl.encoding.symmetry import symmetry_group
from taccl.encoding.timing import in_order
from taccl.problem import Problem
from taccl.schedule import TOLERANCE_US, Schedule

#: Where more than this of a chunk's time on the links is alpha, messages are small.
_SMALL = 0.05
#: More cells than this make playing a sequence too slow to search.
_MOST_CELLS = 4_000_000
#: The searches after each other, as parts of the time: short ones from several beginnings, then long ones.
_STAGES = (0.04, 0.04, 0.04, 0.08, 0.2, 0.3, 0.3)
_BEGINNINGS = 40
_GOSSIP_WEIGHTS = (1.0, 4.0, 16.0)


def is_for_bulk(problem: Problem) -> bool:
    """Whether messages are small, and each chunk goes from one rank to all or from one to one."""
    topology = problem.topology
    if not topology.num_links or not _wanted_by_all(problem) and not _wanted_by_one(problem):
        return False
    alone = topology.alpha_us + topology.beta_us_per_mb * problem.chunk_mb
    return float((topology.alpha_us / alone).max()) > _SMALL


def _wanted_by_all(problem: Problem) -> bool:
    collective = problem.collective
    return bool((collective.pre.sum(axis=1) == 1).all() and collective.post.all())


def _wanted_by_one(problem: Problem) -> bool:
    collective = problem.collective
    return bool((collective.pre.sum(axis=1) == 1).all() and (collective.post.sum(axis=1) == 1).all())


@beginning_with_greedy
def bulk(problem: Problem, options: SolveOptions, budget: Budget, best: Schedule) -> Iterator[Update]:
    """Yield improving schedules until the budget is over; nothing where `is_for_bulk` says no."""
    if not is_for_bulk(problem):
        return
    board = Board.of(problem, symmetry_group(problem))
    if board.usable.size > _MOST_CELLS:
        return
    for played in _improving(board, best, options, budget):
        schedule = in_order(problem, played.decisions(board))
        if schedule.makespan_us < best.makespan_us - TOLERANCE_US:
            best = schedule
            yield Update("bulk", best)


def _improving(board: Board, best: Schedule, options: SolveOptions, budget: Budget) -> Iterator[Played]:
    """Better and better sequences that meet every demand."""
    random = np.random.default_rng(options.seed)
    seconds = budget.remaining_s()
    player: Player
    if _wanted_by_all(board.problem):
        player = Spread(board)
        begun = [player.play(doubling(board, random)) for _ in range(_BEGINNINGS)]
    else:
        player = Route(board)
        begun = [player.play(moves) for moves in _gossips(board, seconds, random)]
    begun.append(player.play(as_moves(board, best)))
    begun.sort(key=lambda played: (played.unmet, played.score))
    for number, part in enumerate(_STAGES):
        if not begun[0].unmet:
            yield begun[0]
        length = min(budget.remaining_s(), part * seconds)
        if length:
            begin = begun[min(number, len(begun) - 1)] if number < 3 else begun[0]
            begun.append(anneal(player, begin, length, random))
            begun.sort(key=lambda played: (played.unmet, played.score))
    if not begun[0].unmet:
        yield begun[0]


def _gossips(board: Board, seconds: float, random: np.random.Generator):
    for weight in _GOSSIP_WEIGHTS:
        problem = gossip(board.problem, weight)
        telling = Board.of(problem, symmetry_group(problem))
        player = Spread(telling)
        begun = min((player.play(doubling(telling, random)) for _ in range(_BEGINNINGS)), key=lambda p: (p.unmet, p.score))
        told = anneal(player, begun, 0.05 * seconds, random)
        yield [move._replace(without=None) for move in told.moves]
