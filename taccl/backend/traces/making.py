"""Actions and programs to traces."""

from __future__ import annotations

from collections import Counter

from taccl.backend.flat_json.document import Action, ActionsProgram, Do
from taccl.backend.program import Op, Program, RankProgram, Step
from taccl.backend.traces.events import Event, Trace

_ADDS = (Op.REDUCE, Op.RECV_REDUCE_SEND, Op.RECV_REDUCE_COPY, Op.RECV_REDUCE_COPY_SEND)


def trace_of_actions(program: ActionsProgram, element_bytes: int) -> Trace:
    """An event for each action, which waits for the same ones."""
    return Trace(
        tuple(tuple(_event(action, element_bytes) for action in rank.actions) for rank in program.ranks)
    )


def _event(action: Action, element_bytes: int) -> Event:
    size = action.elements * element_bytes
    if action.do is Do.SEND:
        return Event("send", size, action.peer, action.message, action.after)
    if action.do is Do.RECEIVE:
        return Event("recv", size, action.peer, action.message, action.after)
    return Event("calc", size, after=action.after, is_sum=action.do is Do.REDUCE)


def trace_of_program(program: Program, chunk_bytes: int) -> Trace:
    """Up to three events for each step: it receives, adds or copies, and sends.

    The k-th send of a connection meets its k-th receive. Steps of a thread block follow each other, and
    wait for those of others that they name.
    """
    return Trace(
        tuple(tuple(_OfRank(rank, program.num_channels, chunk_bytes).events()) for rank in program.ranks)
    )


class _OfRank:
    """The events of one rank; steps are taken as soon as those that they wait for have been."""

    def __init__(self, rank: RankProgram, channels: int, chunk_bytes: int) -> None:
        self._blocks = {block.id: block for block in rank.thread_blocks}
        self._channels, self._chunk_bytes = channels, chunk_bytes
        self._made: list[Event] = []
        #: Of each step the events after which it is done.
        self._ends: dict[tuple[int, int], tuple[int, ...]] = {}
        self._counts: Counter[tuple[str, int, int]] = Counter()

    def events(self) -> list[Event]:
        """All of them; steps that wait for each other are left out, as they never run."""
        following = dict.fromkeys(self._blocks, 0)
        waiting = list(self._blocks)
        while waiting:
            block = self._blocks[waiting.pop()]
            while following[block.id] < len(block.steps):
                place = following[block.id]
                step = block.steps[place]
                if step.depends is not None and step.depends not in self._ends:
                    break
                self._ends[block.id, place] = self._step(block.id, place, step)
                following[block.id] += 1
                waiting += [
                    other.id
                    for other in self._blocks.values()
                    if following[other.id] < len(other.steps)
                    and other.steps[following[other.id]].depends == (block.id, place)
                ]
        return self._made

    def _step(self, block_id: int, place: int, step: Step) -> tuple[int, ...]:
        block = self._blocks[block_id]
        after = self._ends.get((block_id, place - 1), ())
        if step.depends is not None:
            after = tuple(dict.fromkeys((*after, *self._ends[step.depends])))
        size = step.count * self._chunk_bytes
        if step.op.receives:
            after = self._add("recv", size, after, block.recv, block.channel)
        if step.op in _ADDS or step.op is Op.COPY:
            after = self._add("calc", size, after, is_sum=step.op in _ADDS)
        if step.op.sends:
            after = self._add("send", size, after, block.send, block.channel)
        return after

    def _add(
        self,
        kind: str,
        size: int,
        after: tuple[int, ...],
        peer: int = -1,
        channel: int = -1,
        is_sum: bool = False,
    ) -> tuple[int, ...]:
        if kind == "calc":
            self._made.append(Event("calc", size, after=after, is_sum=is_sum))
        else:
            number = self._counts[kind, peer, channel]
            self._counts[kind, peer, channel] += 1
            tag = number * self._channels + channel
            self._made.append(Event("send" if kind == "send" else "recv", size, peer, tag, after))
        return (len(self._made) - 1,)
