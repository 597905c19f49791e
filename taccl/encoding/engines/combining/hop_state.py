"""Hops and the sends that they go in, as columns for machine code: what a change is, and what all take.

A *hop* brings one deciding chunk to one rank, in a send over an orbit of links. The hops of a chunk are a
tree from its source. Sends go one after another; in which something would leave before it is there, they have
no time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taccl.support.jit import compiled, compiled_in_place


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
    root : shape (C,), cells.
    wanted : shape (C R,).
    weight : of the mean arrival, next to the last one.
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
    """The last end and a little of the mean one, and the last end; inf where something leaves too early."""
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
            free_us[net.port[pair]] = begun_us + count * net.port_us[pair] + at_ports_us
        end_us = begun_us + alphas_us + count * net.body_us[orbit]
        hop = state.head[send]
        while hop >= 0:
            there_us[hop] = end_us
            hop = state.after[hop]
        last_us, sum_us = max(last_us, end_us), sum_us + count * end_us
    return last_us + net.weight * sum_us / max(1, state.numbers[0]), last_us


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
def change(cell: int, link: int, send: int, net: Any, state: Any, scratch: Any) -> None:
    """`put`, noted so that it can be taken back."""
    number = state.numbers[1]
    scratch.cell[number], scratch.link[number] = cell, state.link[cell]
    scratch.send[number] = state.send[cell]
    state.numbers[1] += 1
    put(cell, link, send, net, state)


@compiled_in_place
def take_back(net: Any, state: Any, scratch: Any) -> None:
    """Let all be as it was before the changes that are noted."""
    for number in range(state.numbers[1] - 1, -1, -1):
        put(scratch.cell[number], scratch.link[number], scratch.send[number], net, state)
    for place in range(len(state.order)):
        send = scratch.order[place]
        state.order[place], state.place[send] = send, place


@compiled
def copy(state: Any, best: Any) -> None:
    """Let another state be as this one is, as far as times depend on it."""
    best.link[:], best.after[:] = state.link, state.after
    best.send[:], best.head[:], best.count[:] = state.send, state.head, state.count
    best.of[:], best.order[:], best.numbers[:] = state.of, state.order, state.numbers
