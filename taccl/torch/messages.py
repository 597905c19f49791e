"""The rounds of one rank on tensors, and messages as sends and receives of a backend of torch.distributed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from taccl.jobs.steps import Range, RankRound, RankSteps, Sum
from taccl.torch.reductions import Reduce

#: What nobody else is likely to send with. Between two ranks messages are told apart by their order alone,
#: as NCCL has no tags.
_TAG = 7_342_001


#: A range of a rank's buffers, as a tensor.
View = Callable[[Range], torch.Tensor]
#: What carries out the messages of a round. When it has returned, what was received may be used: on a GPU by
#: what the current stream does next.
Exchange = Callable[[RankRound, View], None]


def run_steps(
    steps: RankSteps,
    buffers: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    chunk: int,
    reduce: Reduce | None,
    exchange: Exchange,
) -> None:
    """Go through all rounds.

    Parameters
    ----------
    buffers : input, output and scratch, flat. chunk : elements of a chunk.
    reduce : how sums are made; None: there are none. exchange : its errors are raised as they are.
    """

    def view(place: Range) -> torch.Tensor:
        buffer, first, count = place
        return buffers[buffer][first * chunk : (first + count) * chunk]

    _do_sums(steps.before, view, reduce)
    for each in steps.rounds:
        exchange(each, view)
        _do_sums(each.after, view, reduce)


def messages_of(backend: Any) -> Exchange:
    """Sends and receives of a `torch.distributed` backend, whose timeouts hold; as one group where it has
    groups (NCCL).
    """

    def exchange(each: RankRound, view: View) -> None:
        together = bool(each.sends or each.receives) and backend.supports_coalescing
        if together:
            backend._start_coalescing()
        works = [backend.recv([view(place)], peer, _TAG) for peer, place in each.receives]
        works += [backend.send([view(place)], peer, _TAG) for peer, place in each.sends]
        for work in [backend._end_coalescing()] if together else works:
            work.wait()

    return exchange


def _do_sums(sums: tuple[Sum, ...], view: View, reduce: Reduce | None) -> None:
    for each in sums:
        target = view(each.target)
        first, *others = (view(source) for source in each.sources)
        if not others:
            target.copy_(first)
            continue
        assert reduce is not None
        for other in others:
            reduce(first, other, out=target)
            first = target
