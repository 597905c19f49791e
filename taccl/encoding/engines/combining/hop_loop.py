"""Simulated annealing over what each send carries, as machine code: hundreds of thousands of trials a second.

A *hop* brings one deciding chunk to one rank, in a send over an orbit of links. The hops of a chunk are a
tree from its source. Sends go one after another; if something would leave before it is there, they have no
time. A trial changes one thing and times all sends again:

- a hop goes in another send of its orbit, or in one of its own (`_retimed`);
- a rank is brought the chunk over another link, from who has it or is brought it for that (`_from_another`);
- two hops of an orbit change sends (`_exchanged`);
- two sends of an orbit become one, or one becomes two (`_joined`);
- a send goes earlier or later (`_shifted`).

Who is brought a chunk that he neither wants nor hands on is left out. All this is one file, as machine code
is made anew when the file changes that it is of.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.engines.combining.tuning import HOPS_NEAR, HOPS_NEW, HOPS_ODDS
from taccl.support.jit import compiled, compiled_in_place

#: Odds of the kinds of changes, added up: a hop in another send, over another link, two exchanged, sends
#: joined or parted; else a send is moved.
_RETIMED, _FROM_ANOTHER, _EXCHANGED, _JOINED = np.cumsum(HOPS_ODDS).tolist()
#: So many places behind who feeds it a new send stands at most, and so far one is moved mostly; how often a
#: hop goes in a new send.
_NEAR, _NEW = HOPS_NEAR, HOPS_NEW


class Net(NamedTuple):
    """What all trials share: C chunks, R ranks, L images of links, K orbits of these; a cell is c R + r.

    Parameters
    ----------
    src, dst, orbit : shape (L,), of each image of a link.
    into_first, into : which images of links end at each rank, shapes (R + 1,) and (L,).
    usable : shape (L, C).
    alpha_us, body_us : shape (K,), of a send, and of each chunk in it.
    most : shape (K,), the chunks that share an alpha.
    port_first, port, port_uses, port_us : the ports of each orbit, how many images use each, and for how long
        a chunk keeps it busy.
    serial : whether alphas keep ports busy.
    root, wanted : the cells where chunks start, shape (C,), and whether a cell needs its own, shape (C R,).
    weight, of_ports : of the mean arrival, and of the mean end of a port's work, next to the last arrival.
        That alone says too little: it is sooner only once each of the ports that end last ends sooner.
    """

    src: Any
    dst: Any
    orbit: Any
    into_first: Any
    into: Any
    usable: Any
    alpha_us: Any
    body_us: Any
    most: Any
    port_first: Any
    port: Any
    port_uses: Any
    port_us: Any
    serial: bool
    root: Any
    wanted: Any
    weight: float
    of_ports: float


class State(NamedTuple):
    """Which hops there are, in which sends, in which order. M sends at most; some are empty.

    Parameters
    ----------
    link, send : shape (C R,), of the hop into each cell; -1: there is none.
    after, before : shape (C R,), hops of one send as a list, -1 at its ends.
    children : shape (C R,), how many hops leave each cell.
    head, count, of : shape (M,), the first hop, how many, and the orbit of each send.
    order, place : shape (M,), the sends in order, and the place of each.
    cells, at_cell : shape (C R,), the cells with hops, and where each stands among these.
    numbers : how many cells have hops; how many changes are noted.
    """

    link: Any
    send: Any
    after: Any
    before: Any
    children: Any
    head: Any
    count: Any
    of: Any
    order: Any
    place: Any
    cells: Any
    at_cell: Any
    numbers: Any


class Scratch(NamedTuple):
    """When each cell is reached and each port is free; what a trial changed; the order before it."""

    there_us: Any
    free_us: Any
    cell: Any
    link: Any
    send: Any
    order: Any


@compiled_in_place
def score_of(net: Any, state: Any, scratch: Any) -> Any:
    """The last end with a little of means, and the last end alone; inf where something leaves too early."""
    there_us, free_us, ranks = scratch.there_us, scratch.free_us, len(net.into_first) - 1
    there_us[:] = np.inf
    free_us[:] = 0.0
    for cell in net.root:
        there_us[cell] = 0.0
    last_us, sum_us = 0.0, 0.0
    for send in state.order:
        count = state.count[send]
        if count == 0:
            continue
        orbit, start_us = state.of[send], 0.0
        hop = state.head[send]
        while hop >= 0:
            start_us = max(start_us, there_us[hop - hop % ranks + net.src[state.link[hop]]])
            hop = state.after[hop]
        for pair in range(net.port_first[orbit], net.port_first[orbit + 1]):
            start_us = max(start_us, free_us[net.port[pair]])
        if start_us == np.inf:
            return np.inf, np.inf
        alphas_us = net.alpha_us[orbit] * -(-count // net.most[orbit])
        at_ports_us = alphas_us if net.serial else 0.0
        begun_us = start_us
        for pair in range(net.port_first[orbit], net.port_first[orbit + 1]):
            busy_us = count * net.port_us[pair] + at_ports_us
            begun_us = max(begun_us, start_us + (net.port_uses[pair] - 1) * busy_us)
        for pair in range(net.port_first[orbit], net.port_first[orbit + 1]):
            port = net.port[pair]  # two ports of the same links count as one
            free_us[port] = max(free_us[port], begun_us + count * net.port_us[pair] + at_ports_us)
        end_us = begun_us + alphas_us + count * net.body_us[orbit]
        hop = state.head[send]
        while hop >= 0:
            there_us[hop] = end_us
            hop = state.after[hop]
        last_us, sum_us = max(last_us, end_us), sum_us + count * end_us
    means_us = net.weight * sum_us / max(1, state.numbers[0]) + net.of_ports * np.mean(free_us)
    return last_us + means_us, last_us


@compiled_in_place
def put(cell: int, link: int, send: int, net: Any, state: Any) -> None:
    """Bring a cell its chunk over a link, in a send; -1 for both: not at all."""
    ranks, old = len(net.into_first) - 1, state.send[cell]
    if old >= 0:
        state.children[cell - cell % ranks + net.src[state.link[cell]]] -= 1
        before, after = state.before[cell], state.after[cell]
        if before >= 0:
            state.after[before] = after
        else:
            state.head[old] = after
        if after >= 0:
            state.before[after] = before
        state.count[old] -= 1
    if send >= 0:
        state.children[cell - cell % ranks + net.src[link]] += 1
        head = state.head[send]
        state.before[cell], state.after[cell] = -1, head
        if head >= 0:
            state.before[head] = cell
        state.head[send] = cell
        state.count[send] += 1
        state.of[send] = net.orbit[link]
    if old < 0 <= send:
        state.at_cell[cell] = state.numbers[0]
        state.cells[state.numbers[0]] = cell
        state.numbers[0] += 1
    elif send < 0 <= old:
        state.numbers[0] -= 1
        other = state.cells[state.numbers[0]]
        state.cells[state.at_cell[cell]] = other
        state.at_cell[other] = state.at_cell[cell]
    state.link[cell], state.send[cell] = link, send


@compiled_in_place
def _change(cell: int, link: int, send: int, net: Any, state: Any, scratch: Any) -> None:
    """`put`, noted so that it can be taken back."""
    number = state.numbers[1]
    scratch.cell[number] = cell
    scratch.link[number], scratch.send[number] = state.link[cell], state.send[cell]
    state.numbers[1] += 1
    put(cell, link, send, net, state)


@compiled_in_place
def _take_back(net: Any, state: Any, scratch: Any) -> None:
    """Let all be as it was before the changes that are noted."""
    for number in range(state.numbers[1] - 1, -1, -1):
        put(scratch.cell[number], scratch.link[number], scratch.send[number], net, state)
    for place in range(len(state.order)):
        send = scratch.order[place]
        state.order[place], state.place[send] = send, place


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
    send = _empty(state) if found < 0 else found
    if found < 0 <= send:  # what it stands behind moves up where it stood before that
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
        _change(cell, -1, -1, net, state, scratch)
        cell = above


@compiled_in_place
def _retimed(cell: int, net: Any, state: Any, scratch: Any) -> bool:
    """Let a hop go in another send of its orbit."""
    ranks, link = len(net.into_first) - 1, state.link[cell]
    above = cell - cell % ranks + net.src[link]
    send = _some_send(net.orbit[link], _fed_at(above, state), state)
    if send < 0 or send == state.send[cell]:
        return False
    _change(cell, link, send, net, state, scratch)
    return True


@compiled_in_place
def _from_another(cell: int, net: Any, state: Any, scratch: Any) -> bool:
    """Bring a cell its chunk over another link, by a detour where that starts at somebody without it."""
    ranks = len(net.into_first) - 1
    rank, chunk = cell % ranks, cell // ranks
    link = net.into[np.random.randint(net.into_first[rank], net.into_first[rank + 1])]
    old = state.link[cell]
    if link == old or not net.usable[link, chunk]:
        return False
    at, over, seen = net.src[link], -1, 0
    above, was_above = cell - rank + at, cell - rank + net.src[old]
    if above != net.root[chunk] and state.send[above] < 0:
        for number in range(net.into_first[at], net.into_first[at + 1]):
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
        _change(above, over, send, net, state, scratch)
    send = _some_send(net.orbit[link], _fed_at(above, state), state)
    if send < 0:
        return False
    _change(cell, link, send, net, state, scratch)
    _drop(was_above, net, state, scratch)
    return True


@compiled_in_place
def _exchanged(one: int, other: int, net: Any, state: Any, scratch: Any) -> bool:
    """Let two hops of an orbit change sends."""
    sends = state.send[one], state.send[other]
    if sends[0] == sends[1] or state.of[sends[0]] != state.of[sends[1]]:
        return False
    _change(one, state.link[one], sends[1], net, state, scratch)
    _change(other, state.link[other], sends[0], net, state, scratch)
    return True


@compiled_in_place
def _joined(send: int, net: Any, state: Any, scratch: Any) -> bool:
    """Let all hops of a send go in another one of its orbit, or some of them in a new one."""
    other, seen = -1, 0
    if np.random.random() < 0.7:
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
            _change(hop, state.link[hop], other, net, state, scratch)
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
    """Try changes, ever fewer of those that are worse. What was best is in `best`; its last end."""
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
        score = score_of(net, state, scratch)[0] if done else np.inf
        if score <= now or np.random.random() < math.exp((now - score) / warmth_us):
            now = score
            if now < best_score - 1e-9:
                best_score = now
                best.link[:], best.send[:], best.after[:] = state.link, state.send, state.after
                best.head[:], best.count[:], best.of[:] = state.head, state.count, state.of
                best.order[:], best.numbers[:] = state.order, state.numbers
        else:
            _take_back(net, state, scratch)
    return score_of(net, best, scratch)[1]
