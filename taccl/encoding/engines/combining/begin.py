"""Sequences to begin the search with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taccl.collective import BoolArray, IntArray
from taccl.collectives import allgather
from taccl.encoding.engines.combining.board import Board, Move
from taccl.problem import Problem
from taccl.schedule import Schedule


def as_moves(board: Board, schedule: Schedule) -> list[Move]:
    """The kinds of links that a schedule uses, in the order of its sends, once for each orbit of sends."""
    kind_of, sends = kinds_of_links(board), schedule.sends
    is_first = np.zeros(len(kind_of), dtype=np.bool_)
    is_first[board.links[:, 0]] = True
    order = np.lexsort((sends.end_us, sends.start_us))
    return [Move(int(kind_of[link])) for link in sends.link[order] if is_first[link]]


def as_moves_on(board: Board, moves: Sequence[Move], other: Board) -> list[Move]:
    """Moves on another board of the same links, which may know more symmetries, as moves on this one."""
    kind_of = kinds_of_links(board)
    return [
        Move(kind, move.waits)
        for move in moves
        for kind in dict.fromkeys(kind_of[other.links[move.kind]].tolist())
    ]


def kinds_of_links(board: Board) -> IntArray:
    """The kind of each link, shape (num_links,)."""
    kind_of = np.empty(board.problem.topology.num_links, dtype=np.int64)
    kind_of[board.links] = np.arange(board.num_kinds)[:, None]
    return kind_of


def doubling(board: Board, random: np.random.Generator, few: bool = True) -> list[Move]:
    """Moves that spread every chunk to every rank: of those that can start first, the fullest.

    On a switch every rank so holds twice as much after each round. Now and then a slow link waits until
    it has more to carry, while others have something to do; and with `few`, most of the slow links are
    often left out, so that some chunks may not get everywhere.
    """
    free = np.zeros(board.num_ports)
    most_ports = max(map(len, board.ports))
    ports = np.array([own + own[:1] * (most_ports - len(own)) for own in board.ports])
    alpha, chunk = np.array(board.alpha_us), np.array(board.chunk_us)
    alone = alpha + chunk
    slow = alone > 2 * float(alone.min())
    hold = int(2 ** random.integers(0, 6))
    usable = board.usable & some_slow(slow, random)[:, None, None] if few else board.usable
    alone_first = [kind for kind, own in enumerate(board.own) if own is not None]
    arrive = np.where(board.held, 0.0, np.inf)
    moves: list[Move] = []
    while True:
        at, to = arrive[board.src], arrive[board.dst]
        useful = (at < np.inf) & (to == np.inf) & usable
        for kind in alone_first:
            own = useful[kind] & board.own[kind]
            if own.any():
                useful[kind] = own
        first = np.where(useful, at, np.inf).min(axis=(1, 2))
        if not np.isfinite(first).any():
            return moves
        start = np.maximum(free[ports].max(axis=1), first)
        count = (useful & (at <= start[:, None, None])).sum(axis=(1, 2))
        held_back = slow & (count < hold)
        if (~held_back & np.isfinite(start)).any():
            start[held_back] = np.inf
        value = count / alone * (1 + 0.3 * random.random(len(count)))
        kind = int(np.where(start <= start.min() + 1e-9, value, -1.0).argmax())
        moves.append(Move(kind, waits=False))
        end = board.place(kind, int(count[kind]), float(start[kind]), free)
        goes = useful[kind] & (at[kind] <= start[kind])
        arrive[board.dst[kind]] = np.where(goes, end, to[kind])


def some_slow(slow: BoolArray, random: np.random.Generator) -> BoolArray:
    """Kinds to use: all, or all fast ones and a few of the slow ones. Shape (num_kinds,)."""
    keep = np.ones(len(slow), dtype=np.bool_)
    if slow.any() and not slow.all() and random.random() < 0.7:
        keep[slow] = False
        few = min(int(2 ** random.integers(0, 4)), int(slow.sum()))
        keep[random.choice(np.flatnonzero(slow), few, replace=False)] = True
    return keep


def gossip(problem: Problem, weight: float) -> Problem:
    """What tells every rank something of every other: a chunk of `weight` times the size from each to all.

    The sequence of an answer has a way from every rank to every other.
    """
    return replace(problem, collective=allgather(problem.num_ranks), chunk_mb=weight * problem.chunk_mb)
