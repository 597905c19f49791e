"""The event loop of an executor, compiled: thread blocks, connections and links, slice by slice.

It works on arrays of numbers (`columns`), which `prepared` makes of a program and a network. Each thread
block runs its steps round after round, and does one thing at a time. Each link moves the slices that are on
it at equal rates: as fast as a thread block can, or at an equal share of the most crowded of its ports; where
the two are near each other somewhat slower than either, if links are not sharp.

    ready thread blocks begin their slices ──► the next event ──► a slice enters or leaves a link
              ▲                                                        │ rates of links that share its ports
              └── who waited for it is ready ◄── a slice is done ◄─────┘

Every thread block and every link has at most one next event, kept in a tree whose root is the earliest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taccl.backend.simulate.executor import columns as layout
from taccl.support.jit import compiled_in_place, inlined

#: What a step does.
SEND, RECEIVE, BOTH, REDUCE, COPY = range(5)

#: What a thread block is at: it came to a slice; it prepares a send; its slice is on the link; it receives,
#: or is busy at home; it has received all but the end of what is still being sent; it is done.
_NEXT, _PREPARES, _ON_LINK, _BUSY, _TAIL, _ENDED = range(6)
#: No thread block, or no link.
_NONE = -1


def run(columns: layout.StepColumns, call: layout.CallColumns, filled: layout.Filled) -> int:
    """Run all rounds and write `filled`; how many thread blocks did not come to their end."""
    num_blocks, num_links = len(columns.first) - 1, len(call.alpha_us)
    blocks = layout.Blocks.at_first_step(columns.first)
    has_steps = (np.diff(columns.first) > 0) & (call.rounds > 0)
    blocks.state[~has_steps] = _ENDED
    agenda = layout.Agenda.of(num_blocks, num_links, np.flatnonzero(has_steps))
    flow = layout.FlowColumns.empty(len(columns.link), call.slots)
    traffic = layout.Traffic.none(num_links, len(columns.port_first) - 1)
    completed = np.zeros(len(columns.kind), dtype=np.int64)  # rounds that a step is done with
    run_events(columns, call, filled, blocks, flow, traffic, agenda, completed)
    return int((blocks.state != _ENDED).sum())


@compiled_in_place
def run_events(
    columns: Any, call: Any, filled: Any, blocks: Any, flow: Any, traffic: Any, agenda: Any, completed: Any
) -> None:
    """The loop itself, over what `run` has laid out."""
    now = 0.0
    while True:
        while agenda.num_ready[0] > 0:
            block = _take_ready(agenda)
            if blocks.state[block] == _NEXT and agenda.time_us[block] == np.inf:
                _go_on(columns, call, filled, blocks, flow, agenda, completed, block, now)
        node = agenda.tree[1]
        now = agenda.time_us[node]
        if now == np.inf:
            return
        if node >= len(blocks.state):
            done = _leave_link(columns, call, blocks, traffic, agenda, node - len(blocks.state), now)
        else:
            _set(agenda, node, np.inf)
            done = _block_event(columns, call, filled, blocks, flow, traffic, agenda, node, now)
        if done != _NONE:
            _end_slice(columns, call, filled, blocks, flow, agenda, completed, done, now)


# --- what comes next ----------------------------------------------------------------------------------------


@inlined
def _set(agenda: Any, node: int, at_us: float) -> None:
    """Put the next event of a thread block or a link at a moment, and let the tree know."""
    time_us, tree = agenda.time_us, agenda.tree
    time_us[node] = at_us
    here = (node + len(time_us)) >> 1
    while here >= 1:
        left, right = tree[2 * here], tree[2 * here + 1]
        tree[here] = left if time_us[left] <= time_us[right] else right
        here >>= 1


@inlined
def _make_ready(agenda: Any, block: int) -> None:
    if not agenda.is_ready[block]:
        agenda.ready[agenda.num_ready[0]] = block
        agenda.is_ready[block] = True
        agenda.num_ready[0] += 1


@inlined
def _take_ready(agenda: Any) -> int:
    agenda.num_ready[0] -= 1
    block = agenda.ready[agenda.num_ready[0]]
    agenda.is_ready[block] = False
    return int(block)


@inlined
def _wake(blocks: Any, agenda: Any, block: int) -> None:
    """Let a thread block look again whether it can go on."""
    if blocks.state[block] == _NEXT:
        _make_ready(agenda, block)


# --- a slice begins ---------------------------------------------------------------------------------------


@inlined
def _go_on(
    columns: Any,
    call: Any,
    filled: Any,
    blocks: Any,
    flow: Any,
    agenda: Any,
    completed: Any,
    block: int,
    now: float,
) -> None:
    """Begin the next slice of a thread block, if all that it waits for is there."""
    step = blocks.step[block]
    source, target = columns.into[step], columns.out[step]
    is_first = blocks.piece[block] == 0 and blocks.slice[block] == 0
    if is_first and _is_held(columns, completed, step, blocks.round[block]):
        return
    seen_us = now
    if source >= 0:
        arrival_us = _arrival_us(call, flow, source)
        if arrival_us == np.inf:
            return
        seen_us = arrival_us + call.hop_us + call.alpha_us[columns.link[source]]
    if target >= 0 and flow.begun[target] - flow.taken[target] >= call.slots:
        return
    if seen_us > now:
        _set(agenda, block, seen_us)
        return
    blocks.amount[block] = _bytes_of_slice(columns, call, blocks, block)
    if is_first and blocks.round[block] == 0:
        filled.step_start[step] = now
    if target >= 0:
        blocks.state[block] = _PREPARES
        _set(agenda, block, now + _preparing_us(call, flow, target, blocks.amount[block]))
    else:
        blocks.state[block] = _BUSY
        _set(agenda, block, now + _busy_us(columns, call, step, blocks.amount[block]))


@inlined
def _is_held(columns: Any, completed: Any, step: int, turn: int) -> bool:
    """Whether a step waits for another one of this round."""
    for index in range(columns.wait_first[step], columns.wait_first[step + 1]):
        if completed[columns.wait[index]] <= turn:
            return True
    return False


@inlined
def _arrival_us(call: Any, flow: Any, source: int) -> float:
    """When the next slice of a connection began to come, or has come; inf: not yet."""
    slot = flow.taken[source] % call.slots
    if call.cut_through:
        return float(flow.begin_us[source, slot]) if flow.begun[source] > flow.taken[source] else np.inf
    return float(flow.sent_us[source, slot]) if flow.sent[source] > flow.taken[source] else np.inf


@inlined
def _bytes_of_slice(columns: Any, call: Any, blocks: Any, block: int) -> float:
    step = blocks.step[block]
    of_chunk = min(call.piece_bytes, call.chunk_bytes - blocks.round[block] * call.piece_bytes)
    chunks = min(call.chunks_per_piece, columns.chunks[step] - blocks.piece[block] * call.chunks_per_piece)
    whole = of_chunk * chunks
    if call.slices == 1 or columns.kind[step] == REDUCE or columns.kind[step] == COPY:
        return float(whole)
    share = max(whole / call.slices, call.least_slice)
    return float(max(0.0, min(share, whole - blocks.slice[block] * share)))


@inlined
def _preparing_us(call: Any, flow: Any, target: int, amount: float) -> float:
    """What a send costs before its slice is on the link."""
    slot = flow.begun[target] % call.slots
    flow.sent_us[target, slot] = flow.begin_us[target, slot] = np.inf
    flow.begun[target] += 1
    cost_us = call.empty_us
    if amount > 0.0:
        cost_us = call.slice_us + max(0.0, call.least_us - amount * call.block_us_per_byte)
    if flow.begun[target] - flow.seen_taken[target] > call.slots:
        flow.seen_taken[target] = flow.taken[target]
        cost_us += call.room_us
    return float(cost_us)


@inlined
def _busy_us(columns: Any, call: Any, step: int, amount: float) -> float:
    """What a slice costs that goes nowhere: it is received, summed or copied."""
    if columns.kind[step] == REDUCE:
        return float(call.reduce_us + columns.sources[step] * amount * call.reduce_us_per_byte)
    if columns.kind[step] == COPY:
        return float(call.copy_us + amount * call.copy_us_per_byte)
    if amount > 0.0:
        return float(call.slice_us + max(call.least_us, amount * call.block_us_per_byte))
    return float(call.empty_us)


# --- a slice on a link ------------------------------------------------------------------------------------


@inlined
def _block_event(
    columns: Any,
    call: Any,
    filled: Any,
    blocks: Any,
    flow: Any,
    traffic: Any,
    agenda: Any,
    block: int,
    now: float,
) -> int:
    """What a thread block waited for is there; itself if its slice is done, else -1."""
    if blocks.state[block] == _NEXT:
        _make_ready(agenda, block)
        return _NONE
    if blocks.state[block] != _PREPARES:
        return block
    target = columns.out[blocks.step[block]]
    flow.begin_us[target, (flow.begun[target] - 1) % call.slots] = now
    if call.cut_through:
        _make_ready(agenda, columns.receiver[target])
    if blocks.amount[block] <= 0.0:
        return block
    _enter_link(columns, filled, blocks, traffic, columns.link[target], block, now)
    _share_ports(columns, call, blocks, traffic, agenda, columns.link[target], now)
    return _NONE


@inlined
def _enter_link(
    columns: Any, filled: Any, blocks: Any, traffic: Any, link: int, block: int, now: float
) -> None:
    if traffic.many[link]:
        traffic.moved[link] += traffic.rate[link] * (now - traffic.since_us[link])
    traffic.since_us[link] = now
    blocks.state[block] = _ON_LINK
    blocks.reach[block] = traffic.moved[link] + blocks.amount[block]
    blocks.next_on_link[block] = traffic.first_block[link]
    traffic.first_block[link] = block
    traffic.many[link] += 1
    for pair in range(columns.link_first[link], columns.link_first[link + 1]):
        traffic.on_port[columns.link_port[pair]] += 1
        filled.port_bytes[columns.link_port[pair]] += blocks.amount[block]


@inlined
def _leave_link(
    columns: Any, call: Any, blocks: Any, traffic: Any, agenda: Any, link: int, now: float
) -> int:
    """Take the slice off a link that ends now; its thread block."""
    traffic.moved[link] += traffic.rate[link] * (now - traffic.since_us[link])
    traffic.since_us[link] = now
    before, block = _NONE, traffic.first_block[link]
    least, before_least = block, _NONE
    while block >= 0:
        if blocks.reach[block] < blocks.reach[least]:
            least, before_least = block, before
        before, block = block, blocks.next_on_link[block]
    if before_least < 0:
        traffic.first_block[link] = blocks.next_on_link[least]
    else:
        blocks.next_on_link[before_least] = blocks.next_on_link[least]
    traffic.moved[link] = max(traffic.moved[link], blocks.reach[least])
    traffic.many[link] -= 1
    if traffic.many[link] == 0:
        traffic.moved[link] = 0.0
    for pair in range(columns.link_first[link], columns.link_first[link + 1]):
        traffic.on_port[columns.link_port[pair]] -= 1
    _share_ports(columns, call, blocks, traffic, agenda, link, now)
    return int(least)


@inlined
def _share_ports(
    columns: Any, call: Any, blocks: Any, traffic: Any, agenda: Any, changed: int, now: float
) -> None:
    """Set the rates of all links that share a port with one on which a slice came or went, that one too."""
    num_blocks = len(blocks.state)
    for pair in range(columns.link_first[changed], columns.link_first[changed + 1]):
        port = columns.link_port[pair]
        for index in range(columns.port_first[port], columns.port_first[port + 1]):
            link = columns.port_link[index]
            if traffic.many[link] == 0:
                if link == changed:
                    _set(agenda, num_blocks + link, np.inf)
                continue
            if traffic.since_us[link] < now:
                traffic.moved[link] += traffic.rate[link] * (now - traffic.since_us[link])
                traffic.since_us[link] = now
            traffic.rate[link] = _rate(columns, call, traffic, link)
            nearest, block = np.inf, traffic.first_block[link]
            while block >= 0:
                nearest = min(nearest, blocks.reach[block])
                block = blocks.next_on_link[block]
            left = max(0.0, nearest - traffic.moved[link])
            _set(agenda, num_blocks + link, now + left / traffic.rate[link])


@inlined
def _rate(columns: Any, call: Any, traffic: Any, link: int) -> float:
    """Bytes a microsecond of each slice on a link."""
    shared = 0.0
    for pair in range(columns.link_first[link], columns.link_first[link + 1]):
        shared = max(shared, call.pair_us_per_byte[pair] * traffic.on_port[columns.link_port[pair]])
    slowest = max(call.block_us_per_byte, shared)
    if call.sharpness < np.inf and slowest > 0.0:
        less = min(call.block_us_per_byte, shared) / slowest
        slowest *= (1.0 + less**call.sharpness) ** (1.0 / call.sharpness)
    return 1.0 / slowest if slowest > 0 else 1e30


# --- a slice is done --------------------------------------------------------------------------------------


@inlined
def _end_slice(
    columns: Any,
    call: Any,
    filled: Any,
    blocks: Any,
    flow: Any,
    agenda: Any,
    completed: Any,
    block: int,
    now: float,
) -> None:
    """Note that a slice is done, unless the end of what it takes is still to come; wake who waits for it."""
    step = blocks.step[block]
    source, target = columns.into[step], columns.out[step]
    if source >= 0 and call.cut_through:
        if flow.sent[source] <= flow.taken[source]:
            blocks.state[block] = _TAIL
            return
        sent_us = flow.sent_us[source, flow.taken[source] % call.slots]
        tail_us = sent_us + call.hop_us + call.alpha_us[columns.link[source]]
        if tail_us > now:
            blocks.state[block] = _TAIL
            _set(agenda, block, tail_us)
            return
    if target >= 0:
        _hand_over(columns, call, blocks, flow, agenda, target, now)
    if source >= 0:
        flow.taken[source] += 1
        _wake(blocks, agenda, columns.sender[source])
    blocks.state[block] = _NEXT
    blocks.slice[block] += 1
    slices = 1 if columns.kind[step] == REDUCE or columns.kind[step] == COPY else call.slices
    if blocks.slice[block] == slices:
        blocks.slice[block] = 0
        blocks.piece[block] += 1
        if blocks.piece[block] * call.chunks_per_piece >= columns.chunks[step]:
            _end_step(columns, call, filled, blocks, agenda, completed, block, now)
    _wake(blocks, agenda, block)


@inlined
def _hand_over(columns: Any, call: Any, blocks: Any, flow: Any, agenda: Any, target: int, now: float) -> None:
    """Note that a slice has left; its receiver may wait for it, or for its end."""
    flow.sent_us[target, flow.sent[target] % call.slots] = now
    flow.sent[target] += 1
    receiver = columns.receiver[target]
    waits_for_end = blocks.state[receiver] == _TAIL and agenda.time_us[receiver] == np.inf
    if waits_for_end and columns.into[blocks.step[receiver]] == target:
        _set(agenda, receiver, now + call.hop_us + call.alpha_us[columns.link[target]])
    else:
        _wake(blocks, agenda, receiver)


@inlined
def _end_step(
    columns: Any, call: Any, filled: Any, blocks: Any, agenda: Any, completed: Any, block: int, now: float
) -> None:
    """Go on to the next step, or to the next round; wake who waits for this step."""
    step = blocks.step[block]
    blocks.piece[block] = 0
    completed[step] += 1
    filled.step_end[step] = now
    for index in range(columns.waiter_first[step], columns.waiter_first[step + 1]):
        _wake(blocks, agenda, columns.waiter[index])
    blocks.step[block] += 1
    if blocks.step[block] == columns.first[block + 1]:
        turn = blocks.round[block]
        filled.round_end[turn] = max(filled.round_end[turn], now)
        blocks.step[block] = columns.first[block]
        blocks.round[block] += 1
        if blocks.round[block] == call.rounds:
            blocks.state[block] = _ENDED
