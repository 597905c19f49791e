"""Messages of a round as sends and receives of a backend of torch.distributed."""

from __future__ import annotations

from typing import Any

from taccl.deployment.jobs.steps import Exchange, RankRound, View
from taccl.deployment.jobs.under_way import UnderWay

#: What nobody else is likely to send with. Between two ranks only their order distinguishes messages,
#: as NCCL has no tags.
_TAG = 7_342_001


def messages_of(backend: Any) -> Exchange:
    """Sends and receives of a `torch.distributed` backend, whose timeouts hold; as one group where it has
    groups (NCCL).
    """

    def exchange(each: RankRound, view: View, under_way: UnderWay) -> None:
        for peer, place in each.receives:
            memory = view(place)
            under_way.before(memory, writes=True)
            under_way.add(memory, backend.recv([memory], peer, _TAG).wait, writes=True)
        for peer, place in each.sends:
            memory = view(place)
            under_way.before(memory, writes=False)
            under_way.add(memory, backend.send([memory], peer, _TAG).wait, writes=False)

    def in_a_group(each: RankRound, view: View, under_way: UnderWay) -> None:
        under_way.end()
        if not each.sends and not each.receives:
            return
        backend._start_coalescing()
        for peer, place in each.receives:
            backend.recv([view(place)], peer, _TAG)
        for peer, place in each.sends:
            backend.send([view(place)], peer, _TAG)
        backend._end_coalescing().wait()

    return in_a_group if backend.supports_coalescing else exchange
