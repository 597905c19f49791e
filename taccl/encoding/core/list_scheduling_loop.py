"""One pass of list scheduling as a loop over columns: `list_scheduling` says what it decides.

What a copy at each rank would save is kept up to date as chunks arrive, so a look at a chunk that waits for a
link takes a few operations, however many ranks want it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from taccl.encoding.core.heaps import pop, push
from taccl.support.jit import Loop


class Net(NamedTuple):
    """What all passes over a problem share.

    Parameters
    ----------
    src, dst, internode : shape (num_links,).
    first_out, out : the links from each rank that decide, one of each orbit.
    first_faster, faster : for each link, those into the same rank that carry one chunk in less time.
    usable : shape (num_chunks, num_links), where each chunk may go.
    distance_us : shape (kinds of limits, num_ranks, num_ranks).
    distance_row : shape (num_chunks,); which of these each chunk has.
    left_us : shape (num_chunks, num_ranks); for a chunk with a fixed path what it still needs from each rank
        on it; 0 for others.
    chunk_map, link_map : shapes (num_elements, num_chunks) and (num_elements, num_links), the symmetries.
    owner : shape (num_chunks,).
    own_first : shape (num_links,); whether its sender's own chunks go first.
    chunk_mb : how much each chunk counts on a link.
    """

    src: Any
    dst: Any
    internode: Any
    first_out: Any
    out: Any
    first_faster: Any
    faster: Any
    usable: Any
    distance_us: Any
    distance_row: Any
    left_us: Any
    chunk_map: Any
    link_map: Any
    owner: Any
    own_first: Any
    chunk_mb: float


class Choices(NamedTuple):
    """A policy for each link.

    Parameters
    ----------
    most, least : shape (num_links,); the most chunks in a send, and how many a link waits for.
    taper : the part of what is missing that a send between nodes takes at most.
    defer : whether a chunk is left to another link that would deliver it sooner.
    noise, chance : what helps most counts up to this part more, by random numbers that are used in turn.
    """

    most: Any
    least: Any
    taper: float
    defer: bool
    noise: float
    chance: Any


class State(NamedTuple):
    """What is where, and what is sent.

    Parameters
    ----------
    arrives_us : shape (num_chunks, num_ranks); inf where a chunk is not, and not under way.
    remaining_us : the same shape; how far the nearest copy is from each rank that wants the chunk, else 0.
    gain_us, helped : the same shape; what a copy at each rank saves all that want it, and how many it helps.
    lacking : shape (num_chunks,); how many ranks want it and have none under way.
    waiting, num_waiting : shapes (num_links, num_chunks) and (num_links,); what may go over each link.
    wake_us : shape (num_links,); when each link is looked at next; inf: not before something changes.
    held : shape (num_links,); whether a link waits for more chunks.
    free_us : shape (num_ports,).
    event_us, event : the heap of moments at which links are looked at; what differs from `wake_us` is old.
    worth, here, chosen : the heap of what may leave over a link now, and what leaves.
    chunk, link, start_us, send : the rows of all sends, in the order in which they were decided.
    now_us : shape (1,); below 0 before anything is looked at.
    count : events, rows, sends, looks at a chunk, random numbers used.
    """

    arrives_us: Any
    remaining_us: Any
    gain_us: Any
    helped: Any
    lacking: Any
    waiting: Any
    num_waiting: Any
    wake_us: Any
    held: Any
    free_us: Any
    event_us: Any
    event: Any
    worth: Any
    here: Any
    chosen: Any
    chunk: Any
    link: Any
    start_us: Any
    send: Any
    now_us: Any
    count: Any


#: Places in `State.count`.
EVENTS, ROWS, SENDS, LOOKS, CHANCES = range(5)
#: What saves the same up to rounding is equal.
_EQUAL_PER_US = 1e6
#: Going through this many ranks, or links, takes about as long as a look at a chunk.
_RANKS_PER_LOOK = 8


def _wake(state: Any, when_us: float, link: int) -> None:
    """Look at a link at this moment, unless it is looked at before."""
    if when_us >= state.wake_us[link]:
        return
    state.wake_us[link] = when_us
    if state.count[EVENTS] < len(state.event):
        push(state.event_us, state.event, 0, state.count[EVENTS], when_us, link)
        state.count[EVENTS] += 1
        return
    state.count[EVENTS] = 0
    for other in range(len(state.wake_us)):
        if state.wake_us[other] < math.inf:
            push(state.event_us, state.event, 0, state.count[EVENTS], state.wake_us[other], other)
            state.count[EVENTS] += 1


def _ready(costs: Any, state: Any, link: int) -> float:
    """The earliest moment when all ports of a link are free."""
    free_us = 0.0
    for pair in range(costs.first[link], costs.first[link + 1]):
        free_us = max(free_us, state.free_us[costs.port[pair]])
    return free_us


def _offer(net: Any, costs: Any, state: Any, chunk: int, rank: int) -> None:
    """A chunk that is, or soon will be, at a rank may go on from there."""
    state.count[LOOKS] += (net.first_out[rank + 1] - net.first_out[rank]) // _RANKS_PER_LOOK
    for at in range(net.first_out[rank], net.first_out[rank + 1]):
        link = net.out[at]
        if net.usable[chunk, link]:
            state.waiting[link, state.num_waiting[link]] = chunk
            state.num_waiting[link] += 1
            _wake(state, max(state.arrives_us[chunk, rank], _ready(costs, state, link)), link)


def _bring(net: Any, costs: Any, state: Any, chunk: int, rank: int, end_us: float) -> None:
    """A chunk will be at a rank, which may be nearer to those that want it than all that have it."""
    state.arrives_us[chunk, rank] = end_us
    kind, num_ranks = net.distance_row[chunk], state.arrives_us.shape[1]
    state.count[LOOKS] += num_ranks // _RANKS_PER_LOOK
    for wanting in range(num_ranks):
        before_us, after_us = state.remaining_us[chunk, wanting], net.distance_us[kind, rank, wanting]
        if after_us >= before_us:
            continue
        state.remaining_us[chunk, wanting] = after_us
        if wanting == rank:
            state.lacking[chunk] -= 1
        state.count[LOOKS] += num_ranks // _RANKS_PER_LOOK
        for at in range(num_ranks):
            from_there_us = net.distance_us[kind, at, wanting]
            if from_there_us < before_us:
                state.gain_us[chunk, at] -= before_us - max(after_us, from_there_us)
                if from_there_us >= after_us:
                    state.helped[chunk, at] -= 1
    _offer(net, costs, state, chunk, rank)


def _is_sooner_elsewhere(net: Any, costs: Any, state: Any, chunk: int, link: int, now_us: float) -> bool:
    """Whether another link into the same rank would deliver the chunk before this one does."""
    state.count[LOOKS] += (net.first_faster[link + 1] - net.first_faster[link]) // _RANKS_PER_LOOK
    end_us = now_us + costs.alpha_us[link] + net.chunk_mb * costs.beta_us[link]
    for at in range(net.first_faster[link], net.first_faster[link + 1]):
        other = net.faster[at]
        if net.usable[chunk, other]:
            begin_us = max(state.arrives_us[chunk, net.src[other]], _ready(costs, state, other))
            if begin_us + costs.alpha_us[other] + net.chunk_mb * costs.beta_us[other] < end_us:
                return True
    return False


def _look(net: Any, costs: Any, choices: Any, state: Any, link: int, now_us: float) -> Any:
    """Collect what may leave over a link now; how many chunks these are, and when the next one comes."""
    sender, receiver = net.src[link], net.dst[link]
    kept, number, own, later_us = 0, 0, False, math.inf
    state.count[LOOKS] += state.num_waiting[link]
    for at in range(state.num_waiting[link]):
        chunk = state.waiting[link, at]
        # A chunk that helps no rank over this link now never will: distances to the nearest copy only shrink.
        has_path = net.left_us[chunk, sender] > 0.0
        if state.arrives_us[chunk, receiver] < math.inf or not (has_path or state.helped[chunk, receiver]):
            continue
        state.waiting[link, kept] = chunk
        kept += 1
        if state.arrives_us[chunk, sender] > now_us:
            later_us = min(later_us, state.arrives_us[chunk, sender])
            continue
        if net.own_first[link] and net.owner[chunk] == sender and not own:
            own, number = True, 0  # others wait for these
        if own and net.owner[chunk] != sender:
            continue
        if choices.defer and _is_sooner_elsewhere(net, costs, state, chunk, link, now_us):
            continue
        gain_us = net.left_us[chunk, sender] if has_path else state.gain_us[chunk, receiver]
        if choices.noise > 0.0:
            gain_us *= 1.0 + choices.noise * choices.chance[state.count[CHANCES]]
            state.count[CHANCES] = (state.count[CHANCES] + 1) % len(choices.chance)
        # Neighbours first among equals: a group of neighbours needs no copies to be contiguous.
        push(state.worth, state.here, 0, number, -math.floor(gain_us * _EQUAL_PER_US + 0.5), chunk)
        number += 1
    state.num_waiting[link] = kept
    return number, later_us


def _most(net: Any, choices: Any, state: Any, link: int) -> int:
    """The most chunks that the policy lets go together now."""
    most: int = choices.most[link]
    if choices.taper == 1.0 or not net.internode[link]:
        return most
    missing, receiver = 0, net.dst[link]
    for chunk in range(len(state.lacking)):
        if state.lacking[chunk] > 0 and net.usable[chunk, link]:
            missing += state.arrives_us[chunk, receiver] == math.inf
    part: int = math.ceil(choices.taper * missing)
    return min(most, part)


def _send(net: Any, costs: Any, state: Any, number: int, link: int) -> None:
    """Send what is chosen, and its images under the symmetry, each as soon as it can go.

    That is before this moment where a link has waited for more in vain. Images that share a port take turns,
    so an image may be at its sender later than the group. What is there already is not sent again.
    """
    for element in range(len(net.chunk_map)):
        over, is_there = net.link_map[element, link], False
        begin_us = _ready(costs, state, over)
        for at in range(number):
            chunk = net.chunk_map[element, state.chosen[at]]
            begin_us = max(begin_us, state.arrives_us[chunk, net.src[over]])
            is_there = is_there or state.arrives_us[chunk, net.dst[over]] < math.inf
        if is_there:
            continue
        mb = number * net.chunk_mb
        for pair in range(costs.first[over], costs.first[over + 1]):
            busy_us = costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair]
            state.free_us[costs.port[pair]] = begin_us + busy_us
        end_us = begin_us + (costs.alpha_us[over] + mb * costs.beta_us[over])
        for at in range(number):
            row = state.count[ROWS]
            chunk = net.chunk_map[element, state.chosen[at]]
            state.chunk[row], state.link[row] = chunk, over
            state.start_us[row], state.send[row] = begin_us, state.count[SENDS]
            state.count[ROWS] += 1
            _bring(net, costs, state, chunk, net.dst[over], end_us)
        state.count[SENDS] += 1


def _try(net: Any, costs: Any, choices: Any, state: Any, link: int, now_us: float, holding: bool) -> None:
    """Send over a link what helps most, if its ports are free and enough is there."""
    free_us = _ready(costs, state, link)
    if free_us > now_us:
        if state.num_waiting[link] > 0:
            _wake(state, free_us, link)
        return
    number, later_us = _look(net, costs, choices, state, link, now_us)
    if number == 0 or (holding and number < choices.least[link]):
        state.held[link] = state.held[link] or number > 0
        if later_us < math.inf:
            _wake(state, later_us, link)
        return
    state.held[link] = False
    most = min(number, _most(net, choices, state, link))
    for at in range(most):
        state.chosen[at] = state.here[0]
        pop(state.worth, state.here, 0, number - at)
    _send(net, costs, state, most, link)
    _wake(state, _ready(costs, state, link), link)


def _begin(net: Any, costs: Any, state: Any) -> None:
    """What is there at the beginning may leave."""
    for chunk in range(state.arrives_us.shape[0]):
        for rank in range(state.arrives_us.shape[1]):
            if state.arrives_us[chunk, rank] == 0.0:
                _offer(net, costs, state, chunk, rank)


def _run_pass(net: Any, costs: Any, choices: Any, state: Any, most_looks: int) -> Any:
    """Go on until nothing moves any more, or for so many looks; the state, and whether it ended."""
    until = state.count[LOOKS] + most_looks
    if state.now_us[0] < 0.0:
        state.now_us[0] = 0.0
        _begin(net, costs, state)
    while True:
        while state.count[EVENTS] > 0:
            if state.count[LOOKS] > until:
                return state, False
            now_us, link = state.event_us[0], state.event[0]
            pop(state.event_us, state.event, 0, state.count[EVENTS])
            state.count[EVENTS] -= 1
            state.count[LOOKS] += 1
            if now_us == state.wake_us[link]:
                state.wake_us[link], state.now_us[0] = math.inf, now_us
                _try(net, costs, choices, state, link, now_us, True)
        # Nothing is under way any more, so links that wait for more chunks go with what they have.
        has_held = False
        for link in range(len(state.held)):
            if state.held[link]:
                has_held = True
                now_us = max(state.now_us[0], _ready(costs, state, link))
                _try(net, costs, choices, state, link, now_us, False)
                state.held[link] = False
        if not has_held:
            return state, True


run_pass = Loop(
    _run_pass,
    (_wake, _ready, _offer, _bring, _is_sooner_elsewhere, _look, _most, _send, _try, _begin),
    eager=True,
)
