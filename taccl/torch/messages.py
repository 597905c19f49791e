"""Messages of a round as sends and receives of a backend of torch.distributed."""

from __future__ import annotations

from typing import Any

from taccl.jobs.steps import Exchange, RankRound, View

#: What nobody else is likely to send with. Between two ranks messages are told apart by their order alone,
#: as NCCL has no tags.
_TAG = 7_342_001


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
