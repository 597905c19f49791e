"""Messages as writes into the memory of who receives them: symmetric memory and its signals, on GPUs.

Each rank has two *slots* for each other rank. A sender writes into a slot and sets the signal that it is
full; the receiver waits for that signal, takes what is there and sets the signal that the slot is free. No
library stands between, and no launch is shared by several ranks.

A round goes piece by piece: to every peer the first piece, then from every peer the first piece, then the
second ones. So nothing hangs. A write waits for a slot that its receiver frees in an earlier turn, and by
induction over turns every earlier turn ends on every rank.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
import torch.distributed as dist

from taccl.deployment.jobs.steps import Range, RankRound, View
from taccl.deployment.jobs.under_way import UnderWay
from taccl.errors import TacclError

#: Signals: slot 0 or 1 is full, slot 0 or 1 is free.
_FULL, _FREE = 0, 2
_SLOTS = 2
#: A peer that is dead is an error of the GPU after so long, as in NCCL.
_PATIENCE_MS = 600_000
#: Pieces of 4 MB keep a link of 400 GB/s busy for as long as their two signals take.
SLOT_BYTES = 1 << 22


class Puts:
    """The messages of a group's rounds, on the stream that is current.

    Parameters
    ----------
    handle : of symmetric memory (`torch.distributed._symmetric_memory`) of `room_for` bytes.
    rank, size : in the group. slot_bytes : of a piece, a multiple of 16.
    """

    def __init__(self, handle: Any, rank: int, size: int, slot_bytes: int = SLOT_BYTES) -> None:
        self._handle, self._rank, self._size, self._slot_bytes = handle, rank, size, slot_bytes
        #: Pieces so far, by peer: which slot is next. Both sides have the same count.
        self._sent: Counter[int] = Counter()
        self._taken: Counter[int] = Counter()

    def __call__(self, each: RankRound, view: View, under_way: UnderWay) -> None:
        """Carry out the messages of a round."""
        under_way.end()
        sends = self._pieces(each.sends, view)
        receives = self._pieces(each.receives, view)
        for turn in range(max(map(len, [*sends.values(), *receives.values()]), default=0)):
            for peer, pieces in sends.items():
                if turn < len(pieces):
                    self._put(peer, pieces[turn])
            for peer, pieces in receives.items():
                if turn < len(pieces):
                    self._take(peer, pieces[turn])

    def _pieces(self, messages: tuple[tuple[int, Range], ...], view: View) -> dict[int, list[torch.Tensor]]:
        """By peer, in the order that both sides have."""
        pieces: dict[int, list[torch.Tensor]] = {}
        for peer, place in messages:
            whole = view(place)
            pieces.setdefault(peer, []).extend(whole.split(self._slot_bytes // whole.element_size()))
        return pieces

    def _put(self, peer: int, piece: torch.Tensor) -> None:
        number, slot = self._sent[peer], self._sent[peer] % _SLOTS
        if number >= _SLOTS:
            self._handle.wait_signal(peer, _FREE + slot, _PATIENCE_MS)
        self._slot(peer, self._rank, slot, piece).copy_(piece)
        self._handle.put_signal(peer, _FULL + slot, _PATIENCE_MS)
        self._sent[peer] += 1

    def _take(self, peer: int, piece: torch.Tensor) -> None:
        slot = self._taken[peer] % _SLOTS
        self._handle.wait_signal(peer, _FULL + slot, _PATIENCE_MS)
        piece.copy_(self._slot(self._rank, peer, slot, piece))
        self._handle.put_signal(peer, _FREE + slot, _PATIENCE_MS)
        self._taken[peer] += 1

    def _slot(self, owner: int, sender: int, slot: int, like: torch.Tensor) -> torch.Tensor:
        first = (sender * _SLOTS + slot) * self._slot_bytes // like.element_size()
        buffer: torch.Tensor = self._handle.get_buffer(owner, (like.numel(),), like.dtype, first)
        return buffer


def room_for(size: int, slot_bytes: int = SLOT_BYTES) -> int:
    """Bytes of symmetric memory on each of this many ranks."""
    return size * _SLOTS * slot_bytes


def puts_of(group: dist.ProcessGroup) -> Puts:
    """For a group whose ranks reach each other's GPU memory; all of them call this, with their GPU current.

    Raises
    ------
    TacclError : there is no GPU, or this PyTorch has no symmetric memory for it.
    """
    if not torch.cuda.is_available():
        raise TacclError("one-sided messages need GPUs", hint="leave one_sided out")
    try:
        import torch.distributed._symmetric_memory as symmetric

        size = dist.get_world_size(group)
        device = torch.device("cuda", torch.cuda.current_device())
        handle = symmetric.rendezvous(
            symmetric.empty(room_for(size), dtype=torch.uint8, device=device), group
        )
    except (ImportError, AttributeError, RuntimeError) as error:
        raise TacclError(
            f"PyTorch gives no symmetric memory here: {str(error).splitlines()[0]}",
            hint="leave one_sided out",
        ) from error
    return Puts(handle, dist.get_rank(group), size)
