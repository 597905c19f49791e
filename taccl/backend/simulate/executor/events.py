"""The event loop of an executor, compiled: thread blocks, connections and links, slice by slice.

It knows arrays of numbers only; `prepared` makes them of a program and a network. Each thread block runs its
steps round after round, and does one thing at a time. Each link moves the slices that are on it at equal
rates: as fast as a thread block can, or at an equal share of the most crowded of its ports; where the two are
near each other somewhat slower than either, if links are not sharp.

Every thread block and every link has at most one next event, kept in a tree whose root is the earliest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taccl.support.jit import compiled

#: What a step does.
SEND, RECEIVE, BOTH, REDUCE, COPY = range(5)

#: What a thread block is at: it came to a slice; it prepares a send; its slice is on the link; it receives,
#: or is busy at home; it has received all but the end of what is still being sent; it is done.
_NEXT, _PREPARES, _ON_LINK, _BUSY, _TAIL, _ENDED = range(6)


@compiled
def _set(tree: Any, time: Any, size: int, node: int, at: float) -> None:
    """Put the next event of a node at a moment, and let the tree know."""
    time[node] = at
    here = (node + size) >> 1
    while here >= 1:
        left, right = tree[2 * here], tree[2 * here + 1]
        tree[here] = left if time[left] <= time[right] else right
        here >>= 1


@compiled
def run(
    first: Any,
    kind: Any,
    count: Any,
    into: Any,
    out: Any,
    sources: Any,
    wait_first: Any,
    wait: Any,
    waiter_first: Any,
    waiter: Any,
    conn_sender: Any,
    conn_receiver: Any,
    conn_link: Any,
    link_first: Any,
    link_port: Any,
    port_first: Any,
    port_link: Any,
    alpha_us: Any,
    pair_us_per_byte: Any,
    rounds: int,
    chunk_bytes: float,
    piece_bytes: float,
    chunks_per_piece: int,
    slices: int,
    least_slice: float,
    slots: int,
    cut_through: bool,
    hop_us: float,
    slice_us: float,
    empty_us: float,
    least_us: float,
    block_us_per_byte: float,
    reduce_us: float,
    reduce_us_per_byte: float,
    copy_us: float,
    copy_us_per_byte: float,
    room_us: float,
    sharpness: float,
    round_end: Any,
    step_start: Any,
    step_end: Any,
    port_bytes: Any,
) -> int:
    """Run all rounds; how many thread blocks did not come to their end.

    Columns over thread blocks: `first` (their steps are first[b] .. first[b + 1]). Over steps: `kind`,
    `count` (chunks), `into` and `out` (connections, -1 for none), `sources` (of a sum), `wait_first` and
    `wait` (the steps that must be done before, as ranges), `waiter_first` and `waiter` (the thread blocks
    that wait for a step). Over connections: the thread blocks at both ends, and the link. Over links: their
    ports, as ranges, with `pair_us_per_byte`, what a byte of data costs there. Over ports: their links, as
    ranges.

    Filled: `round_end` (when the last thread block ended each round), `step_start` and `step_end` (of each
    step: when its first slice began, and its last ended), `port_bytes` (bytes of data through each port).
    """
    num_blocks, num_links = len(first) - 1, len(alpha_us)
    num_connections, num_ports = len(conn_link), len(port_first) - 1
    never = np.inf
    now = 0.0

    # the next event of every thread block and link, in a tree of winners
    size = 1
    while size < num_blocks + num_links + 1:
        size *= 2
    time = np.full(size, never)
    tree = np.empty(2 * size, dtype=np.int64)
    for node in range(size):
        tree[size + node] = node
    for node in range(size - 1, 0, -1):
        tree[node] = tree[2 * node]

    # thread blocks
    state = np.zeros(num_blocks, dtype=np.int64)
    at = first[:-1].copy()
    turn = np.zeros(num_blocks, dtype=np.int64)  # the round
    piece = np.zeros(num_blocks, dtype=np.int64)
    part = np.zeros(num_blocks, dtype=np.int64)  # the slice of the piece
    amount = np.zeros(num_blocks)  # bytes of the slice
    reach = np.zeros(num_blocks)  # what the link must have moved when the slice is through
    next_on_link = np.full(num_blocks, -1, dtype=np.int64)
    completed = np.zeros(len(kind), dtype=np.int64)  # rounds that a step is done with

    # connections: slices begun and taken, and when those in between began and ended
    begun = np.zeros(num_connections, dtype=np.int64)
    sent = np.zeros(num_connections, dtype=np.int64)
    taken = np.zeros(num_connections, dtype=np.int64)
    known = np.zeros(num_connections, dtype=np.int64)  # slices taken when the sender last looked
    begin_us = np.zeros((num_connections, slots))
    sent_us = np.zeros((num_connections, slots))

    # links: the slices that are on them, bytes that each has moved, and how fast that goes
    on_link = np.full(num_links, -1, dtype=np.int64)
    many = np.zeros(num_links, dtype=np.int64)
    moved = np.zeros(num_links)
    rate = np.zeros(num_links)
    since = np.zeros(num_links)
    on_port = np.zeros(num_ports, dtype=np.int64)

    # thread blocks that may be able to go on, each at most once
    todo = np.empty(num_blocks, dtype=np.int64)
    listed = np.zeros(num_blocks, dtype=np.bool_)
    waiting = 0
    for block in range(num_blocks):
        if first[block] == first[block + 1] or rounds == 0:
            state[block] = _ENDED
        else:
            todo[waiting] = block
            listed[block] = True
            waiting += 1

    while True:
        while waiting > 0:
            waiting -= 1
            block = todo[waiting]
            listed[block] = False
            if state[block] != _NEXT or time[block] != never:
                continue
            step = at[block]
            does = kind[step]
            source, target = into[step], out[step]
            if piece[block] == 0 and part[block] == 0:
                held = False
                for place in range(wait_first[step], wait_first[step + 1]):
                    if completed[wait[place]] <= turn[block]:
                        held = True
                        break
                if held:
                    continue
            seen = now
            if source >= 0:
                slot = taken[source] % slots
                arrival = never
                if cut_through:
                    if begun[source] > taken[source]:
                        arrival = begin_us[source, slot]
                elif sent[source] > taken[source]:
                    arrival = sent_us[source, slot]
                if arrival == never:
                    continue
                seen = arrival + hop_us + alpha_us[conn_link[source]]
            if target >= 0 and begun[target] - taken[target] >= slots:
                continue
            if seen > now:
                _set(tree, time, size, block, seen)
                continue
            # the bytes of this slice
            here = min(piece_bytes, chunk_bytes - turn[block] * piece_bytes)
            whole = here * min(chunks_per_piece, count[step] - piece[block] * chunks_per_piece)
            each = whole
            if slices > 1 and does != REDUCE and does != COPY:
                share = max(whole / slices, least_slice)
                each = max(0.0, min(share, whole - part[block] * share))
            amount[block] = each
            if turn[block] == 0 and piece[block] == 0 and part[block] == 0:
                step_start[step] = now
            if target >= 0:
                slot = begun[target] % slots
                sent_us[target, slot] = never
                begin_us[target, slot] = never
                begun[target] += 1
                state[block] = _PREPARES
                cost = empty_us
                if each > 0.0:
                    cost = slice_us + max(0.0, least_us - each * block_us_per_byte)
                if begun[target] - known[target] > slots:
                    known[target] = taken[target]
                    cost += room_us
                _set(tree, time, size, block, now + cost)
            else:
                state[block] = _BUSY
                cost = empty_us
                if each > 0.0:
                    cost = slice_us + max(least_us, each * block_us_per_byte)
                if does == REDUCE:
                    cost = reduce_us + sources[step] * each * reduce_us_per_byte
                elif does == COPY:
                    cost = copy_us + each * copy_us_per_byte
                _set(tree, time, size, block, now + cost)

        node = tree[1]
        now = time[node]
        if now == never:
            break
        changed = -1  # a link on which a slice came or went
        done = -1  # a thread block whose slice is done
        if node >= num_blocks:
            link = node - num_blocks
            moved[link] += rate[link] * (now - since[link])
            since[link] = now
            # of the slices on it, the one that ends now
            before, block = -1, on_link[link]
            least, least_before = block, -1
            while block >= 0:
                if reach[block] < reach[least]:
                    least, least_before = block, before
                before = block
                block = next_on_link[block]
            if least_before < 0:
                on_link[link] = next_on_link[least]
            else:
                next_on_link[least_before] = next_on_link[least]
            moved[link] = max(moved[link], reach[least])
            many[link] -= 1
            if many[link] == 0:
                moved[link] = 0.0
            for place in range(link_first[link], link_first[link + 1]):
                on_port[link_port[place]] -= 1
            changed = link
            done = least
        else:
            block = node
            _set(tree, time, size, block, never)
            if state[block] == _NEXT:
                todo[waiting] = block
                listed[block] = True
                waiting += 1
            elif state[block] == _PREPARES:
                target = out[at[block]]
                begin_us[target, (begun[target] - 1) % slots] = now
                if cut_through:
                    other = conn_receiver[target]
                    if not listed[other]:
                        todo[waiting] = other
                        listed[other] = True
                        waiting += 1
                if amount[block] <= 0.0:
                    done = block
                else:
                    link = conn_link[target]
                    moved[link] += rate[link] * (now - since[link]) if many[link] else 0.0
                    since[link] = now
                    state[block] = _ON_LINK
                    reach[block] = moved[link] + amount[block]
                    next_on_link[block] = on_link[link]
                    on_link[link] = block
                    many[link] += 1
                    for place in range(link_first[link], link_first[link + 1]):
                        on_port[link_port[place]] += 1
                        port_bytes[link_port[place]] += amount[block]
                    changed = link
            else:
                done = block

        if changed >= 0:
            # all links that share a port with it, itself among them, have another rate from now on
            for place in range(link_first[changed], link_first[changed + 1]):
                port = link_port[place]
                for entry in range(port_first[port], port_first[port + 1]):
                    link = port_link[entry]
                    if many[link] == 0:
                        if link == changed:
                            _set(tree, time, size, num_blocks + link, never)
                        continue
                    if since[link] < now:
                        moved[link] += rate[link] * (now - since[link])
                        since[link] = now
                    shared = 0.0
                    for pair in range(link_first[link], link_first[link + 1]):
                        shared = max(shared, pair_us_per_byte[pair] * on_port[link_port[pair]])
                    slowest = max(block_us_per_byte, shared)
                    if sharpness < never and slowest > 0.0:
                        less = min(block_us_per_byte, shared) / slowest
                        slowest *= (1.0 + less**sharpness) ** (1.0 / sharpness)
                    rate[link] = 1.0 / slowest if slowest > 0 else 1e30
                    block = on_link[link]
                    nearest = never
                    while block >= 0:
                        nearest = min(nearest, reach[block])
                        block = next_on_link[block]
                    left = max(0.0, nearest - moved[link])
                    _set(tree, time, size, num_blocks + link, now + left / rate[link])

        if done >= 0:
            block = done
            step = at[block]
            source, target = into[step], out[step]
            if source >= 0 and cut_through:
                slot = taken[source] % slots
                if sent[source] <= taken[source]:  # what it takes is still on its way
                    state[block] = _TAIL
                    continue
                tail = sent_us[source, slot] + hop_us + alpha_us[conn_link[source]]
                if tail > now:
                    state[block] = _TAIL
                    _set(tree, time, size, block, tail)
                    continue
            if target >= 0:
                slot = sent[target] % slots
                sent_us[target, slot] = now
                sent[target] += 1
                other = conn_receiver[target]
                if state[other] == _TAIL and time[other] == never and into[at[other]] == target:
                    _set(tree, time, size, other, now + hop_us + alpha_us[conn_link[target]])
                elif state[other] == _NEXT and not listed[other]:
                    todo[waiting] = other
                    listed[other] = True
                    waiting += 1
            if source >= 0:
                taken[source] += 1
                other = conn_sender[source]
                if state[other] == _NEXT and not listed[other]:
                    todo[waiting] = other
                    listed[other] = True
                    waiting += 1
            # the next slice, piece, step or round
            state[block] = _NEXT
            part[block] += 1
            parts = 1 if kind[step] == REDUCE or kind[step] == COPY else slices
            if part[block] == parts:
                part[block] = 0
                piece[block] += 1
                if piece[block] * chunks_per_piece >= count[step]:
                    piece[block] = 0
                    completed[step] += 1
                    step_end[step] = now
                    for place in range(waiter_first[step], waiter_first[step + 1]):
                        other = waiter[place]
                        if state[other] == _NEXT and not listed[other]:
                            todo[waiting] = other
                            listed[other] = True
                            waiting += 1
                    at[block] += 1
                    if at[block] == first[block + 1]:
                        round_end[turn[block]] = max(round_end[turn[block]], now)
                        at[block] = first[block]
                        turn[block] += 1
                        if turn[block] == rounds:
                            state[block] = _ENDED
            if state[block] == _NEXT and not listed[block]:
                todo[waiting] = block
                listed[block] = True
                waiting += 1

    stuck = 0
    for block in range(num_blocks):
        if state[block] != _ENDED:
            stuck += 1
    return stuck
