"""What one rank does in the rounds of a plan: its own messages and sums, quick to go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from taccl.backend.program import Buffer
from taccl.backend.rounds.rounds import Local, Place, Round, Rounds
from taccl.deployment.jobs.under_way import UnderWay

#: A buffer (0: input, 1: output, 2: scratch), the first chunk there, and the number of chunks.
Range = tuple[int, int, int]
#: Messages of a rank that are posted at once, over all rounds; or as many as a round has. So the oldest of
#: more is one of an earlier round.
_MOST_UNDER_WAY = 256
_NUMBER = {Buffer.INPUT: 0, Buffer.OUTPUT: 1, Buffer.SCRATCH: 2}


@dataclass(frozen=True, slots=True)
class Sum:
    """The target becomes the sum of the sources, in order; of one source, its copy."""

    sources: tuple[Range, ...]
    target: Range


@dataclass(frozen=True, slots=True)
class RankRound:
    """What is posted at once, (peer, range) each, and what is done when all of it has ended."""

    sends: tuple[tuple[int, Range], ...]
    receives: tuple[tuple[int, Range], ...]
    after: tuple[Sum, ...]


@dataclass(frozen=True, slots=True)
class RankSteps:
    """All that a rank does in a call.

    Parameters
    ----------
    inputs, outputs, scratch : chunks of its buffers.
    before : sums and copies before the first round. rounds : in order.
    """

    inputs: int
    outputs: int
    scratch: int
    before: tuple[Sum, ...]
    rounds: tuple[RankRound, ...]


def steps_of(rounds: Rounds, rank: int) -> RankSteps:
    """The part of one rank; rounds in which it does nothing are left out."""
    own = [_of_rank(each, rank) for each in rounds.rounds]
    return RankSteps(
        *rounds.sizes[rank],
        before=_sums(rounds.before, rank),
        rounds=tuple(each for each in own if each.sends or each.receives or each.after),
    )


def _of_rank(each: Round, rank: int) -> RankRound:
    messages = each.messages
    return RankRound(
        tuple((m.target, _range(m.read, m.count)) for m in messages if m.source == rank),
        tuple((m.source, _range(m.written, m.count)) for m in messages if m.target == rank),
        _sums(each.after, rank),
    )


def _sums(locals_: tuple[Local, ...], rank: int) -> tuple[Sum, ...]:
    return tuple(
        Sum(tuple(_range(source, local.count) for source in local.sources), _range(local.target, local.count))
        for local in locals_
        if local.rank == rank
    )


def _range(place: Place, count: int) -> Range:
    return _NUMBER[place.buffer], place.offset, count


#: A range of a rank's buffers, as an array of NumPy or a tensor of torch.
View = Callable[[Range], Any]
#: What carries out the messages of a round. Before each it waits for what is under way in the same memory,
#: then notes what it posted; or it finishes what is before, and the round itself, on a GPU by its stream.
Exchange = Callable[[RankRound, View, UnderWay], None]


def run_steps(
    steps: RankSteps,
    buffers: Sequence[Any],
    chunk: int,
    reduce: Callable[..., Any] | None,
    exchange: Exchange,
    *,
    as_needed: bool = False,
) -> None:
    """Go through all rounds.

    A rank may be rounds ahead of another with `as_needed`: each message and sum waits for those that it
    reads or overwrites, and not for its whole round. Nothing hangs: of all messages that somebody has not
    posted, one of the earliest round waits for messages of earlier rounds alone, by itself or behind sums;
    these both their ends have posted, so they end. And between two ranks messages have one order on both.

    Parameters
    ----------
    buffers : input, output and scratch, flat. chunk : elements of a chunk.
    reduce : how two parts of a sum become one, with `out=`; None: there are none.
    exchange : its errors are raised as they are. as_needed : see above; else a round ends before the next.
    """
    largest = max((len(each.sends) + len(each.receives) for each in steps.rounds), default=0)
    under_way = UnderWay(max(largest, _MOST_UNDER_WAY))

    def view(place: Range) -> Any:
        buffer, first, count = place
        return buffers[buffer][first * chunk : (first + count) * chunk]

    _do_sums(steps.before, view, reduce, under_way)
    if not as_needed:
        under_way.end()
    for each in steps.rounds:
        exchange(each, view, under_way)
        if not as_needed:
            under_way.end()
        _do_sums(each.after, view, reduce, under_way)
        if not as_needed:
            under_way.end()
    under_way.end()


def _do_sums(
    sums: tuple[Sum, ...], view: View, reduce: Callable[..., Any] | None, under_way: UnderWay
) -> None:
    for each in sums:
        target, parts = view(each.target), [view(source) for source in each.sources]
        under_way.add_sum(target, parts, partial(_make, target, parts, reduce))


def _make(target: Any, parts: list[Any], reduce: Callable[..., Any] | None) -> None:
    first, *others = parts
    if not others:
        target[:] = first
        return
    assert reduce is not None
    for other in others:
        reduce(first, other, out=target)
        first = target
