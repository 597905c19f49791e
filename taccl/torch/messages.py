"""The rounds of one rank on tensors, by the sends and receives of a backend of torch.distributed."""

from __future__ import annotations

from typing import Any

import torch

from taccl.jobs.steps import Range, RankRound, RankSteps, Sum
from taccl.torch.reductions import Reduce

#: What nobody else is likely to send with. Between two ranks messages are told apart by their order alone,
#: as NCCL has no tags.
_TAG = 7_342_001


def run_steps(
    steps: RankSteps,
    buffers: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    chunk: int,
    reduce: Reduce | None,
    backend: Any,
) -> None:
    """Go through all rounds.

    Parameters
    ----------
    buffers : input, output and scratch, flat. chunk : elements of a chunk.
    reduce : how sums are made; None: there are none. backend : a `torch.distributed` backend, whose errors
        and timeouts are raised as they are.
    """
    _do_sums(steps.before, buffers, chunk, reduce)
    for each in steps.rounds:
        for work in _posted(each, buffers, chunk, backend):
            work.wait()
        _do_sums(each.after, buffers, chunk, reduce)


def _posted(each: RankRound, buffers: tuple[torch.Tensor, ...], chunk: int, backend: Any) -> list[Any]:
    """All of a round, as one group where the backend has groups (NCCL)."""
    together = bool(each.sends or each.receives) and backend.supports_coalescing
    if together:
        backend._start_coalescing()
    works = [backend.recv([_view(place, buffers, chunk)], peer, _TAG) for peer, place in each.receives]
    works += [backend.send([_view(place, buffers, chunk)], peer, _TAG) for peer, place in each.sends]
    return [backend._end_coalescing()] if together else works


def _view(place: Range, buffers: tuple[torch.Tensor, ...], chunk: int) -> torch.Tensor:
    buffer, first, count = place
    return buffers[buffer][first * chunk : (first + count) * chunk]


def _do_sums(
    sums: tuple[Sum, ...], buffers: tuple[torch.Tensor, ...], chunk: int, reduce: Reduce | None
) -> None:
    for each in sums:
        target = _view(each.target, buffers, chunk)
        first, *others = (_view(source, buffers, chunk) for source in each.sources)
        if not others:
            target.copy_(first)
            continue
        assert reduce is not None
        for other in others:
            reduce(first, other, out=target)
            first = target
