"""Simulated annealing over what each send carries, as machine code: hundreds of thousands of trials a second.

A trial changes one thing about the hops (`hop_state`) and times all sends again:

- a hop goes in another send of its orbit, or in one of its own (`_retimed`);
- a rank is brought the chunk over another link, from who has it or is brought it for that (`_from_another`);
- two hops of an orbit change sends (`_exchanged`);
- two sends of an orbit become one, or one becomes two (`_joined`);
- a send goes earlier or later (`_shifted`).

Who is brought a chunk that he neither wants nor hands on is left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taccl.encoding.engines.combining.hop_state import change, copy, score_of, take_back
from taccl.encoding.engines.combining.tuning import HOPS_NEAR, HOPS_NEW, HOPS_ODDS
from taccl.support.jit import compiled, compiled_in_place

#: Odds of the kinds of changes, added up: a hop in another send, over another link, two exchanged, sends
#: joined or parted; else a send is moved.
_RETIMED, _FROM_ANOTHER, _EXCHANGED, _JOINED = np.cumsum(HOPS_ODDS).tolist()
#: So many places behind who feeds it a new send stands at most, and so far one is moved mostly; how often a
#: hop goes in a new send.
_NEAR, _NEW = HOPS_NEAR, HOPS_NEW


@compiled_in_place
def _move(send: int, to: int, state: Any) -> None:
    """Let a send stand at another place of the order."""
    place = state.place[send]
    step = 1 if to > place else -1
    while place != to:
        other = state.order[place + step]
        state.order[place], state.place[other] = other, place
        place += step
    state.order[to], state.place[send] = send, to


@compiled_in_place
def _empty(state: Any) -> int:
    """A send without hops, -1: none."""
    sends = len(state.order)
    first = np.random.randint(sends)
    for number in range(sends):
        send = (first + number) % sends
        if state.count[send] == 0:
            return send
    return -1


@compiled_in_place
def _some_send(orbit: int, least: int, state: Any) -> Any:
    """A send of an orbit that stands behind a place, by chance; -1: there is none, and no room for one.

    Now and then it is a new one, soon behind that place, and where there is no other.
    """
    found, seen = -1, 0
    if np.random.random() >= _NEW:
        for place in range(least + 1, len(state.order)):
            send = state.order[place]
            if state.count[send] > 0 and state.of[send] == orbit:
                seen += 1
                if np.random.randint(seen) == 0:
                    found = send
    if found >= 0:
        return found
    send = _empty(state)
    if send >= 0:  # what it stands behind moves up where it stood before that
        to = least + (state.place[send] > least) + np.random.randint(_NEAR)
        _move(send, min(to, len(state.order) - 1), state)
    return send


@compiled_in_place
def _fed_at(cell: int, state: Any) -> int:
    """The place of the send that brings a cell its chunk, -1 where it starts."""
    return state.place[state.send[cell]] if state.send[cell] >= 0 else -1


@compiled_in_place
def _drop(cell: int, net: Any, state: Any, scratch: Any) -> None:
    """Leave out a cell that nobody needs, and those that were there for it."""
    ranks = len(net.into_first) - 1
    while state.send[cell] >= 0 and state.children[cell] == 0 and not net.wanted[cell]:
        above = cell - cell % ranks + net.src[state.link[cell]]
        change(cell, -1, -1, net, state, scratch)
        cell = above


@compiled_in_place
def _retimed(cell: int, net: Any, state: Any, scratch: Any) -> bool:
    """Let a hop go in another send of its orbit."""
    ranks, link = len(net.into_first) - 1, state.link[cell]
    above = cell - cell % ranks + net.src[link]
    send = _some_send(net.orbit[link], _fed_at(above, state), state)
    if send < 0 or send == state.send[cell]:
        return False
    change(cell, link, send, net, state, scratch)
    return True


@compiled_in_place
def _from_another(cell: int, net: Any, state: Any, scratch: Any) -> bool:
    """Bring a cell its chunk over another link, by a detour where that starts at somebody without it."""
    ranks = len(net.into_first) - 1
    rank, chunk = cell % ranks, cell // ranks
    first, last = net.into_first[rank], net.into_first[rank + 1]
    link = net.into[np.random.randint(first, last)]
    old = state.link[cell]
    if link == old or not net.usable[link, chunk]:
        return False
    above, was_above = cell - rank + net.src[link], cell - rank + net.src[old]
    if above != net.root[chunk] and state.send[above] < 0:
        at = net.src[link]
        first, last = net.into_first[at], net.into_first[at + 1]
        over, seen = -1, 0
        for number in range(first, last):
            each = net.into[number]
            holder = cell - rank + net.src[each]
            has = holder == net.root[chunk] or state.send[holder] >= 0
            if has and holder != cell and net.usable[each, chunk]:
                seen += 1
                if np.random.randint(seen) == 0:
                    over = each
        if over < 0:
            return False
        send = _some_send(net.orbit[over], _fed_at(cell - rank + net.src[over], state), state)
        if send < 0:
            return False
        change(above, over, send, net, state, scratch)
    send = _some_send(net.orbit[link], _fed_at(above, state), state)
    if send < 0:
        return False
    change(cell, link, send, net, state, scratch)
    _drop(was_above, net, state, scratch)
    return True


@compiled_in_place
def _exchanged(one: int, other: int, net: Any, state: Any, scratch: Any) -> bool:
    """Let two hops of an orbit change sends."""
    sends = state.send[one], state.send[other]
    if sends[0] == sends[1] or state.of[sends[0]] != state.of[sends[1]]:
        return False
    change(one, state.link[one], sends[1], net, state, scratch)
    change(other, state.link[other], sends[0], net, state, scratch)
    return True


@compiled_in_place
def _joined(send: int, net: Any, state: Any, scratch: Any) -> bool:
    """Let all hops of a send go in another one of its orbit, or some of them in a new one."""
    other = -1
    if np.random.random() < 0.7:
        seen = 0
        for each in state.order:
            if each != send and state.count[each] > 0 and state.of[each] == state.of[send]:
                seen += 1
                if np.random.randint(seen) == 0:
                    other = each
        part = 1.0
    elif state.count[send] > 1:
        other, part = _empty(state), 0.5
        if other >= 0:
            _move(other, state.place[send], state)
    if other < 0:
        return False
    hop = state.head[send]
    while hop >= 0:
        after = state.after[hop]
        if part == 1.0 or np.random.random() < part:
            change(hop, state.link[hop], other, net, state, scratch)
        hop = after
    return bool(state.numbers[1] > 0)


@compiled_in_place
def _shifted(send: int, state: Any) -> bool:
    """Let a send go earlier or later."""
    place, sends = state.place[send], len(state.order)
    if np.random.random() < 0.7:
        to = place + np.random.randint(1, _NEAR) * (1 if np.random.random() < 0.5 else -1)
    else:
        to = np.random.randint(sends)
    to = min(max(0, to), sends - 1)
    _move(send, to, state)
    return bool(to != place)


@compiled
def annealed(
    net: Any, state: Any, scratch: Any, best: Any, seed: int, trials: int, warm_us: float, cold_us: float
) -> Any:
    """Try changes, ever fewer of those that are worse. What was best is in `best`: its score and last end."""
    np.random.seed(seed)
    best_score, _ = score_of(net, best, scratch)
    now, _ = score_of(net, state, scratch)
    for trial in range(trials):
        warmth_us = warm_us * (cold_us / warm_us) ** (trial / trials)
        scratch.order[:] = state.order
        state.numbers[1] = 0
        cell = state.cells[np.random.randint(state.numbers[0])]
        kind = np.random.random()
        if kind < _RETIMED:
            done = _retimed(cell, net, state, scratch)
        elif kind < _FROM_ANOTHER:
            done = _from_another(cell, net, state, scratch)
        elif kind < _EXCHANGED:
            done = _exchanged(cell, state.cells[np.random.randint(state.numbers[0])], net, state, scratch)
        elif kind < _JOINED:
            done = _joined(state.send[cell], net, state, scratch)
        else:
            done = _shifted(state.send[cell], state)
        score = np.inf
        if done:
            score, _ = score_of(net, state, scratch)
        if done and (score <= now or np.random.random() < math.exp((now - score) / warmth_us)):
            now = score
            if now < best_score - 1e-9:
                best_score = now
                copy(state, best)
        else:
            take_back(net, state, scratch)
    return score_of(net, best, scratch)
