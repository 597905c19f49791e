"""Sequences for sums to begin the search with: rounds of textbook algorithms, fullest sends, schedules."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taccl.collectives import BoolArray, IntArray
from taccl.encoding.bulk.begin import kinds_of_links, some_slow
from taccl.encoding.bulk.board import Board, Move
from taccl.encoding.bulk.exchange import Exchange, State, chosen
from taccl.encoding.bulk.play import Played
from taccl.encoding.engine import Budget
from taccl.problem import FloatArray
from taccl.schedule import Schedule

#: A link whose chunk takes so many times as long as the fastest one's is slow.
_SLOW = 2.0


def as_exchanges(board: Board, schedule: Schedule) -> list[Move]:
    """The moves of a schedule, each with the chunks that it carries there, once for each orbit of sends."""
    kind_of, sends = kinds_of_links(board), schedule.sends
    back = board.group.chunk_map.argsort(axis=1)[:, board.chunks]
    is_first = np.zeros(len(kind_of), dtype=np.bool_)
    is_first[board.links[:, 0]] = True
    by_send = np.argsort(sends.of_row, kind="stable")
    chunks = np.split(schedule.chunk[by_send], np.cumsum(sends.count)[:-1])
    order = np.lexsort((sends.end_us, sends.start_us))
    return [
        Move(int(kind_of[sends.link[send]]), without=~np.isin(back, chunks[send]))
        for send in order.tolist()
        if is_first[sends.link[send]]
    ]


def rounds(board: Board) -> Iterator[list[Move]]:
    """Rounds in which every rank sends all that it has to one other.

    Inside nodes first, or across first, or as if there were none.
    """
    kind_of = kinds_of_links(board)
    for partners in _partners(board.problem.topology.node_of):
        moves: list[Move] = []
        for partner in partners:
            pairs = zip(range(len(partner)), partner.tolist(), strict=True)
            links = [board.problem.topology.link_index.get(pair, -1) for pair in pairs if pair[0] != pair[1]]
            if -1 in links:
                break
            moves += [Move(kind) for kind in dict.fromkeys(kind_of[links].tolist())]
        else:
            yield moves


def _partners(node_of: IntArray) -> Iterator[list[IntArray]]:
    """For each round, whom each rank sends to, shape (num_ranks,)."""
    ranks, sizes = np.arange(len(node_of)), np.bincount(node_of)
    for flip in (True, False):
        yield [_moved(ranks, step, flip) for step in _steps(len(ranks), flip)]
    if len(sizes) == 1 or (sizes != sizes[0]).any():
        return
    nodes, size = len(sizes), int(sizes[0])
    table = np.argsort(node_of, kind="stable").reshape(nodes, size)
    place = np.argsort(table.ravel())
    for flip in (True, False):
        inside = [table[:, _moved(np.arange(size), step, flip)] for step in _steps(size, flip)]
        across = [table[_moved(np.arange(nodes), step, flip)] for step in _steps(nodes, flip)]
        for both in (inside + across, across + inside):
            yield [images.ravel()[place] for images in both]


def _steps(count: int, flip: bool) -> list[int]:
    """How far each round goes.

    After it a rank has the contributions of a window of w others before it beside its own, and w grows to
    2w or, with the sender's own, 2w + 1, as the binary digits of count - 1 say.
    """
    digits = f"{count - 1:b}"
    if flip:
        return [1 << bit for bit in range(len(digits))] if count & (count - 1) == 0 else []
    steps, window = [], 0
    for digit in digits if count > 1 else "":
        steps.append(window + int(digit))
        window = 2 * window + int(digit)
    return steps


def _moved(numbers: IntArray, step: int, flip: bool) -> IntArray:
    return numbers ^ step if flip else (numbers + step) % len(numbers)


def fullest(
    player: Exchange,
    random: np.random.Generator,
    budget: Budget | None = None,
    before: Played | None = None,
    hold: int | None = None,
) -> list[Move] | None:
    """Moves that complete every sum: of those that can start first, the one that brings most.

    They go on after `before`. As long as anything else helps, no sum leaves or reaches a rank that has fewer
    than `hold` contributions to it (by default, some number on slow links, of which often only a few are
    used). Then none leaves such a rank, or goes over slow links. None if that takes longer than the budget.
    """
    board = player.board
    moves, state = ([], player.start) if before is None else (list(before.moves), before.states[-1])
    alone = np.array(board.alpha_us) + np.array(board.chunk_us)
    slow = alone > _SLOW * float(alone.min())
    usable = board.usable
    least = np.where(slow, 2 ** random.integers(0, 7), 0) if hold is None else np.full(len(alone), hold)
    if hold is None:
        usable = usable & some_slow(slow, random)[:, None, None]
    least_there = least if hold is not None or random.random() < 0.5 else np.zeros_like(least)
    while budget is None or budget.remaining_s():
        found = _fullest(player, state, random, usable, (least, least_there), alone)
        if found is None and least_there.any():
            least_there = np.zeros_like(least)
            if hold is not None and not slow.all():
                usable = usable & ~slow[:, None, None]
            continue
        if found is None and (least.any() or usable is not board.usable):
            least, usable = np.zeros_like(least), board.usable
            continue
        step = None if found is None else player.step(state, found)
        if found is None or step is None:
            return moves
        moves.append(found)
        state = step.state
    return None


def _fullest(
    player: Exchange,
    state: State,
    random: np.random.Generator,
    usable: BoolArray,
    least: tuple[IntArray, IntArray],
    alone: FloatArray,
) -> Move | None:
    board = player.board
    here, there = state.parts.of(board.src), state.parts.of(board.dst)
    enough = here.sizes.sum(axis=-1) >= least[0][:, None, None]
    enough &= there.sizes.sum(axis=-1) >= least[1][:, None, None]
    choice = chosen(here, there, here.sizes > 0)
    useful = usable & enough & (choice.gain > 0)
    if not useful.any():
        return None
    first = np.where(useful[..., None] & choice.take, here.at, np.inf).min(axis=(1, 2, 3))
    free = np.array([max(state.free[port] for port in ports) for ports in board.ports])
    start = np.maximum(free, first)
    early = chosen(here, there, (here.sizes > 0) & (here.at <= start[:, None, None, None]))
    gain = np.where(usable & enough, early.gain, 0.0).sum(axis=(1, 2))
    value = gain / alone * (1 + 0.3 * random.random(len(gain)))
    kind = int(np.where((start <= start.min() + 1e-9) & (gain > 0), value, -1.0).argmax())
    stay = ~(enough[kind] & usable[kind])
    return Move(kind, waits=False, without=stay if stay.any() else None)
