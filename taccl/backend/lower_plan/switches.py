"""What a switch does for its members: it sums what all have at one place, and copies to one place of all.

Messages of a graph are between members, as if each were read and written by itself; see `by_members`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from taccl.backend.faces import faces_of
from taccl.backend.lower_plan.graph import Action, Graph
from taccl.backend.lower_plan.places import Place
from taccl.backend.lower_plan.pulls import own_part
from taccl.backend.program import Op
from taccl.model.network import LogicalTopology


def use_switches(graph: Graph, switches: tuple[tuple[int, ...], ...]) -> Graph:
    """What is gathered may be done by these; see `Graph.switches`."""
    return replace(graph, switches=switches)


def switches_of(topology: LogicalTopology) -> tuple[tuple[int, ...], ...]:
    """The members of switches that both sum and copy for them."""
    faces = faces_of(topology)
    copying = {face.members for face in faces if not face.sums}
    return tuple(face.members for face in faces if face.sums and face.members in copying)


def find_switch(graph: Graph, rank: int, *places: Mapping[int, Place]) -> tuple[int, ...]:
    """The members of the switch of a rank, if all have one place in each of these maps; else nobody."""
    members = _members_of(graph, rank)
    all_have_one = all(each.keys() == {*members} and len({*each.values()}) == 1 for each in places)
    return members if all_have_one else ()


def find_copies(graph: Graph, sums: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Actions that copy one place of a rank to one place of all members of its switch, the last send last.

    Where what a rank copies is already where it goes, there are sends alone. What the switch can send on with
    the sum of a row in `sums` is left with that.
    """
    if not graph.switches:
        return []
    by_switch = {
        (graph.actions[row[-1]].rank, graph.actions[row[-1]].target) for row in sums if _is_of_all(graph, row)
    }
    order = {index: place for place, index in enumerate(graph.order)}
    found = []
    for rank, actions in enumerate(graph.by_rank):
        members = _members_of(graph, rank)
        sources = (action.source for action in actions if action.op is Op.SEND)
        for place in dict.fromkeys(sources) if members else ():
            if (rank, place) not in by_switch:
                found += [
                    sorted(copy, key=_comes(graph, order))
                    for copy in _copies_of(graph, members, actions, place)
                ]
    return [tuple(copy) for copy in found]


def _comes(graph: Graph, order: Mapping[int, int]) -> Callable[[int], tuple[bool, int]]:
    """What is done at home first, then sends in the order of the graph."""
    return lambda index: (graph.actions[index].op is Op.SEND, order[index])


def _members_of(graph: Graph, rank: int) -> tuple[int, ...]:
    return next((each for each in graph.switches if rank in each), ())


def _is_of_all(graph: Graph, row: Sequence[int]) -> bool:
    """Whether a row of sums adds what all members of a switch have at one place."""
    rank = graph.actions[row[-1]].rank
    read = {
        message.src: graph.actions[message.send].source
        for message in (graph.received[each - 1] for each in row)
    }
    read[rank] = own_part(graph.actions[row[0]], graph.actions[row[0] - 1])
    return read.keys() == {*_members_of(graph, rank)} and len({*read.values()}) == 1


def _copies_of(
    graph: Graph, members: Sequence[int], actions: Sequence[Action], place: Place
) -> Iterator[tuple[int, ...]]:
    """Those of one place of a rank, by where they go."""
    rank = actions[0].rank
    gone: dict[Place, dict[int, int]] = {}
    for action in actions:
        if action.op is Op.SEND and action.source == place:
            message = graph.sent[action.index]
            heard = graph.actions[message.receive]
            if heard.op is Op.RECV:
                gone.setdefault(heard.target, {}).setdefault(message.dst, action.index)
    for target, sends in gone.items():
        at_home = [
            each.index
            for each in actions
            if each.op is Op.COPY and (each.source, each.target) == (place, target)
        ]
        if {*sends, rank} == {*members} and (target == place or at_home):
            yield (*([] if target == place else at_home[:1]), *sends.values())
