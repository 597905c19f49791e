"""Where each message lands: in the receiver's final place if that is surely free, else in scratch of its own.

A place is free when everything else that touches it is surely done before the sender writes, or surely begins
after the receiver has heard of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from taccl.backend.lower_plan.graph import ADDING, Graph, Message
from taccl.backend.lower_plan.places import Place
from taccl.backend.program import Buffer


@dataclass(frozen=True, eq=False)
class Landings:
    """Where messages land.

    Parameters
    ----------
    direct : messages that land where the receiver wants them, by their send.
    at : by send, where its message lands, at the receiver.
    made : by send, where the packets are made at the sender that go through a port.
    scratch : by rank, its chunks of scratch.
    """

    direct: frozenset[int]
    at: dict[int, Place]
    scratch: tuple[int, ...]
    made: dict[int, Place] = field(default_factory=dict)


def find_landings(graph: Graph) -> Landings:
    """A landing for each message. Scratch is used again where its last use surely is over."""
    return _packet_landings(graph) if graph.packets else _Search(graph).run()


def _packet_landings(graph: Graph) -> Landings:
    """A place in scratch for each message, used once in a call, and at the sender a place to make packets.

    Packets of chunk k take the bytes of chunks 2k and 2k + 1, so they lie behind the scratch of actions. All
    ranks have as much scratch.
    """
    taken = [-(-chunks // 2) for chunks in graph.scratch]
    at: dict[int, Place] = {}
    made: dict[int, Place] = {}
    for message in graph.messages:
        size = graph.actions[message.send].source.size
        for rank, places in ((message.dst, at), (message.src, made)):
            places[message.send] = Place(Buffer.SCRATCH, taken[rank], size)
            taken[rank] += size
    most = max(*graph.scratch, *taken)
    return Landings(frozenset(), at, (most,) * len(taken), made)


class _Search:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.direct: set[int] = set()
        self.scratch = [*graph.scratch]
        #: by rank and size, places that were used, and the receive that was the last to do so
        self.used: dict[tuple[int, int], list[tuple[Place, int]]] = {}

    def run(self) -> Landings:
        graph = self.graph
        at: dict[int, Place] = {}
        for index in graph.order:
            if index not in graph.sent or index in graph.pulls:
                continue
            message = graph.sent[index]
            heard = graph.actions[message.receive]
            if index in graph.apart:
                at[index] = self._new_slot(heard.rank, heard.target.size)
            elif heard.op not in ADDING and self._is_free(message, heard.target):
                self.direct.add(index)
                at[index] = heard.target
            else:
                at[index] = self._slot(message, heard.rank, heard.target.size)
        return Landings(frozenset(self.direct), at, tuple(self.scratch))

    def _is_free(self, message: Message, wanted: Place) -> bool:
        graph = self.graph
        return all(
            graph.is_before(graph.pulls.get(other, other), message.send)
            or graph.is_before(message.receive, self._first_touch(other))
            for other in graph.users(message.dst, wanted) - {message.receive}
        )

    def _first_touch(self, action: int) -> int:
        """What begins to touch what an action touches: the sender writes what lands directly."""
        message = self.graph.received.get(action)
        return message.send if message is not None and message.send in self.direct else action

    def _slot(self, message: Message, rank: int, size: int) -> Place:
        used = self.used.setdefault((rank, size), [])
        for number, (place, last) in enumerate(used):
            if self.graph.is_before(last, message.send):
                used[number] = (place, message.receive)
                return place
        place = self._new_slot(rank, size)
        used.append((place, message.receive))
        return place

    def _new_slot(self, rank: int, size: int) -> Place:
        self.scratch[rank] += size
        return Place(Buffer.SCRATCH, self.scratch[rank] - size, size)
