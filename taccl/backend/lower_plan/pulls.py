"""Messages that are pulled: the receiver reads what it adds where the sender has it, and nothing is put.

That saves scratch, and the pass over what has landed; but the sender's place has to stay as it is until the
receiver is done with it.
"""

from __future__ import annotations

from dataclasses import replace

from taccl.backend.lower_plan.graph import Action, Graph, Message
from taccl.backend.lower_plan.places import Place
from taccl.backend.program import Op


def own_part(adding: Action, received: Action) -> Place:
    """What the rank itself has of a sum with what it received."""
    return adding.source if adding.target == received.target else adding.target


def pull_alone(graph: Graph) -> Graph:
    """Ranks read what they add where others of their node have it.

    Next to what was gathered, those sums that wait for nothing but the message: one that waits for another
    had better find its bytes there.
    """
    last = {each: row[-1] for row in graph.rows.values() for each in row}
    pulls = {}
    for message in graph.messages:
        added = message.receive + 1
        if added in last:
            pulls[message.send] = last[added]
        elif (
            may_be_pulled(graph, message)
            and graph.before[added] == (message.receive,)
            and stays(graph, message, added)
        ):
            pulls[message.send] = added
    return replace(graph, pulls=pulls)


def may_be_pulled(graph: Graph, message: Message) -> bool:
    """Whether it comes from the node, the next action adds it, and nobody else ever reads it."""
    sent, received = graph.actions[message.send], graph.actions[message.receive]
    if (
        (sent.op, received.op) != (Op.SEND, Op.RECV)
        or message.receive + 1 not in graph.blocks[received.block].actions
        or not graph.is_near(message)
    ):
        return False
    adding, landed = graph.actions[message.receive + 1], received.target
    if adding.op is not Op.REDUCE or landed not in (adding.source, adding.target):
        return False
    if adding.source.overlaps(adding.target):
        return False
    return all(
        graph.is_before(action.index, received.index)
        or (landed == adding.target and graph.is_before(adding.index, action.index))
        or _is_written_between(graph, adding, action, landed)
        for action in graph.by_rank[received.rank]
        if action.index not in (received.index, adding.index) and _looks_at(action, landed)
    )


def stays(graph: Graph, message: Message, added: int) -> bool:
    """Whether all that writes what is sent is done before, or begins when it has been added."""
    sent = graph.actions[message.send]
    return all(
        graph.is_before(action.index, sent.index) or graph.is_before(added, action.index)
        for action in graph.by_rank[sent.rank]
        if action.may_write(sent.source)
    )


def _is_written_between(graph: Graph, first: Action, last: Action, place: Place) -> bool:
    return any(
        action.index == last.index or graph.is_before(action.index, last.index)
        for action in graph.by_rank[first.rank]
        if action.op is not Op.REDUCE
        and action.writes
        and action.target == place
        and graph.is_before(first.index, action.index)
    )


def _looks_at(action: Action, place: Place) -> bool:
    return (action.reads and action.source.overlaps(place)) or (
        action.op is Op.REDUCE and action.target.overlaps(place)
    )
