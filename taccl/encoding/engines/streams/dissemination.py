"""Chunks of one root go wherever they are lacking: list scheduling that knows no routes.

Whenever the ports of some links are free, each of these links may carry a chunk that its end lacks. A send
is worth as many ranks as it brings the chunk nearer to, so the first of a node, of a pod or of a quarter of a
torus comes before all that is spread inside. Of chunks that are worth as much the rarest goes first
(BitTorrent's rule): the root sends out new ones, and all ranks soon have something that others lack.

Chunks that bring nobody nearer but their receiver may go as one send, as many as the style allows: that
saves alphas where ports are busy. What feeds others leaves alone.

A rank is brought a chunk by one of the holders nearest to it, those on the way included, so that nothing is
fetched through a NIC that a neighbour has. In some styles idle ports may send from farther away, where that
ends early enough: so the last nodes are entered several times. Where a root's ports are the busiest of all,
it may count as no holder: what it sent out can then come back to its own node. Where a chunk goes to several
nodes, its NICs may keep to what has not left its node, and have others pass on the rest: an idle NIC that
sends a chunk once more is busy when the next one comes.

Behind one switch N chunks take about N + log2(ranks) steps so, the fewest that there can be: a new one leaves
the root in every step, and those before it double.

Sources: Legout, Urvoy-Keller and Michiardi, "Rarest first and choke algorithms are enough", IMC 2006;
Bar-Noy, Kipnis and Schieber, "Optimal multiple message broadcasting", Discrete Applied Mathematics 100
(2000); Bhat, Raghavendra and Prasanna, "Efficient collective communication in distributed heterogeneous
systems", JPDC 63 (2003).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taccl.encoding.core.heaps import pop, push
from taccl.support.jit import compiled, compiled_in_place

#: So many looks at a rank count as one at chunks, and so many of these a link in the queue of a moment.
_OF_A_LOOK, _OF_A_TURN = 64, 4
#: Chunks in a word of a bit set. Powers of two up to 2 ** 31 leave different remainders when divided by 37,
#: which say which bit each is.
_WORD = 32
_BIT = np.zeros(37, np.int64)
_BIT[[(1 << bit) % 37 for bit in range(_WORD)]] = np.arange(_WORD)
#: Ways that differ by less, relatively, are equally far; moments that differ by less, in us, are one.
_SAME, _SAME_US = 1e-9, 1e-6


class Style(NamedTuple):
    """What breaks ties, and whether the root counts.

    Parameters
    ----------
    counts_root : whether the root is a holder that others are near to.
    even : how much each rank that a rank's chunks brought nearer counts against its next chunk, next to a
        holder of that. So those who pass on take turns.
    most : the most chunks in a send of those that nobody but its receiver waits for.
    once : whether the root's node sends no chunk out again before all have left it.
    help_us : a send that ends by then may come from a holder that is not the nearest, over idle ports.
    seed : of the chance by which equal sends go.
    """

    counts_root: bool
    even: float
    most: int
    once: bool
    help_us: float
    seed: int


class _State(NamedTuple):
    """What is where.

    Parameters
    ----------
    near_us, gain : shape (num_chunks, num_ranks); how far each rank is from a holder, and how many ranks
        come nearer to one when this one gets the chunk.
    soon_us, around : shape (num_chunks, num_ranks); the earliest end of a send from a nearest holder if ports
        are free, and the number of nearest holders.
    has, lacks : shape (num_ranks, num_words); bit sets of chunks; what is on its way is in neither.
    near : shape (num_ranks, num_kinds, num_words); bit sets of the chunks that no holder is nearer with than
        the other end of a link of that kind.
    holders : shape (num_chunks,).
    duty : shape (num_ranks,); how many ranks each has brought a chunk nearer to, itself included.
    has_left : shape (num_chunks,); whether a chunk has left the root's node.
    free_us : shape (num_ports,).
    event_us, event : the heap of ends of sends, and of moments at which links may start, as -1 - wake.
    open, is_open : links that may carry something now, and shape (num_links,).
    numbers : events, open links, looks at a chunk or a rank; the first chunk that some rank lacks, and the
        first that has not left the root; how many have left its node.
    """

    near_us: Any
    gain: Any
    soon_us: Any
    around: Any
    has: Any
    lacks: Any
    near: Any
    holders: Any
    duty: Any
    has_left: Any
    free_us: Any
    event_us: Any
    event: Any
    open: Any
    is_open: Any
    numbers: Any


@compiled
def _begun(net: Any, num_chunks: int, root: int, style: Any) -> Any:
    """The root has all chunks, and may send."""
    num_ranks, links, ports = len(net.far_us), len(net.src), len(net.wake_first) - 1
    near_us, gain = np.full(num_ranks, np.inf), np.zeros((num_chunks, num_ranks), np.int64)
    near_us[root] = 0.0
    if style.counts_root:
        near_us[:] = net.far_us[root]
    for v in range(num_ranks):
        gain[:, v] = np.sum(net.far_us[v] < near_us * (1.0 - _SAME))
    has, every = np.zeros((num_ranks, -(-num_chunks // _WORD)), np.int64), np.zeros((num_chunks, num_ranks))
    near = np.zeros((num_ranks, len(net.kind_us), has.shape[1]), np.int64)
    for chunk in range(num_chunks):
        has[root, chunk // _WORD] |= 1 << chunk % _WORD
    every[:] = near_us
    for v in range(num_ranks):
        for kind in range(len(net.kind_us)):
            if net.kind_us[kind] <= near_us[v] * (1.0 + _SAME):
                near[v, kind] = has[root]
    most_ports = np.max(np.diff(net.first)) * np.max(np.diff(net.wake_first)) if links else 0
    room = num_chunks * num_ranks * (1 + most_ports) + ports + 1  # for the ends of all sends at one moment
    state = _State(
        every,
        gain,
        every.copy(),
        np.ones((num_chunks, num_ranks), np.int64),
        has,
        has[root] & ~has,
        near,
        np.ones(num_chunks),
        np.zeros(num_ranks),
        np.zeros(num_chunks, np.bool_),
        np.zeros(ports),
        np.zeros(room),
        np.zeros(room, np.int64),
        np.zeros(links, np.int64),
        np.zeros(links, np.bool_),
        np.zeros(6, np.int64),
    )
    _open(net.out[net.out_first[root] : net.out_first[root + 1]], state)
    return state


@compiled_in_place
def _open(links: Any, state: Any) -> None:
    """Note that some links may carry something now."""
    for link in links:
        if not state.is_open[link]:
            state.is_open[link] = True
            state.open[state.numbers[1]] = link
            state.numbers[1] += 1


@compiled_in_place
def _is_free(link: int, now_us: float, net: Any, state: Any) -> bool:
    for pair in range(net.first[link], net.first[link + 1]):
        if state.free_us[net.port[pair]] - net.late_us[pair] > now_us:
            return False
    return True


@compiled_in_place
def _urgent(link: int, now_us: float, net: Any, style: Any, state: Any) -> Any:
    """The chunk that a link should carry, -1: none; and how urgent that is, the least first."""
    u, v, hop_us = net.src[link], net.dst[link], net.hop_us[link]
    best, most, worth = -1, -np.inf, 2.0 * len(net.far_us)
    may_help = now_us + hop_us <= style.help_us
    # All chunks that have not left the root are equivalent: of these only the next is looked at.
    first, last = state.numbers[3], min(state.numbers[4] + 1, len(state.holders))
    begin = np.random.randint(first, last) if last > first else first
    waits = style.once and net.leaves[link] and state.numbers[5] < len(state.holders)
    for part in range(2):
        chunk, end = (begin, last) if part == 0 else (first, begin)
        while chunk < end:
            word = chunk // _WORD
            state.numbers[2] += 1
            bits = state.lacks[v, word] & state.has[u, word]
            if not may_help:
                bits &= state.near[v, net.kind[link], word]
            bits = bits >> chunk % _WORD
            if not bits:
                chunk = (word + 1) * _WORD
                continue
            chunk += _BIT[(bits & -bits) % 37]
            if chunk >= end:
                break
            if not (waits and state.has_left[chunk]):
                value = worth * state.gain[chunk, v] - state.holders[chunk]
                is_near = hop_us <= state.near_us[chunk, v] * (1.0 + _SAME)
                if may_help and not is_near:  # first to ranks that near holders serve last
                    value -= worth / (1.0 + state.soon_us[chunk, v]) + state.around[chunk, v] / worth
                if value > most and (is_near or may_help):
                    best, most = chunk, value
            chunk += 1
    return best, style.even * state.duty[v] - most + 0.1 * np.random.random()


@compiled_in_place
def _bring(chunk: int, v: int, there_us: float, net: Any, state: Any) -> None:
    """A rank will have a chunk at `there_us`, and the ranks around it are nearer to a holder."""
    near_us, far_us, gain = state.near_us[chunk], net.far_us, state.gain[chunk]
    soon_us, around = state.soon_us[chunk], state.around[chunk]
    word, bit = chunk // _WORD, 1 << chunk % _WORD
    state.lacks[v, word] &= ~bit
    state.numbers[4] += state.holders[chunk] == 1
    state.holders[chunk] += 1
    while state.numbers[3] < len(state.holders) and state.holders[state.numbers[3]] == len(near_us):
        state.numbers[3] += 1
    state.duty[v] += gain[v]
    state.numbers[2] += len(near_us) // _OF_A_LOOK
    for w in range(len(near_us)):
        if abs(far_us[v, w] - near_us[w]) <= near_us[w] * _SAME:
            soon_us[w] = min(soon_us[w], there_us + far_us[v, w])
            around[w] += 1
        if far_us[v, w] < near_us[w] * (1.0 - _SAME):
            state.numbers[2] += len(near_us) // _OF_A_LOOK
            before_us, after_us = near_us[w] * (1.0 - _SAME), far_us[v, w] * (1.0 - _SAME)
            for x in range(len(near_us)):
                gain[x] -= after_us <= net.to_us[w, x] < before_us
            near_us[w], soon_us[w], around[w] = far_us[v, w], there_us + far_us[v, w], 1
            for kind in range(len(net.kind_us)):
                if net.kind_us[kind] > near_us[w] * (1.0 + _SAME):
                    state.near[w, kind, word] &= ~bit


@compiled_in_place
def _go(first: int, end: int, link: int, now_us: float, net: Any, state: Any) -> None:
    """Start a send of the rows from `first` to `end`: when they are there, and its ports free again."""
    more = end - first - 1
    for row in range(first, end):
        there_us = now_us + net.hop_us[link] + more * net.hop_more_us[link]
        push(state.event_us, state.event, 0, state.numbers[0], there_us, row)
        state.numbers[0] += 1
    for pair in range(net.first[link], net.first[link + 1]):
        port = net.port[pair]
        begin_us = now_us + net.late_us[pair] + more * net.late_more_us[pair]
        state.free_us[port] = begin_us + net.busy_us[pair] + more * net.busy_more_us[pair]
        for wake in range(net.wake_first[port], net.wake_first[port + 1]):
            there_us = max(now_us, state.free_us[port] - net.wake_us[wake])
            push(state.event_us, state.event, 0, state.numbers[0], there_us, -1 - wake)
            state.numbers[0] += 1


@compiled_in_place
def _sent(
    best: int, link: int, first: int, now_us: float, net: Any, style: Any, state: Any, chunk: Any
) -> int:
    """Fill the rows of a send from `first` on, the most urgent chunk in the first; the end of its rows."""
    v, row = net.dst[link], first
    while best >= 0:
        alone = state.gain[best, v] == 1
        if row > first and not alone:
            break
        _bring(best, v, now_us + net.hop_us[link], net, state)
        if net.leaves[link] and not state.has_left[best]:
            state.has_left[best] = True
            state.numbers[5] += 1
        chunk[row] = best
        row += 1
        if not alone or row - first == style.most:
            break
        best = _urgent(link, now_us, net, style, state)[0]
    return row


@compiled_in_place
def _next(chunk: Any, link: Any, net: Any, state: Any) -> float:
    """Go on to the next moment at which something ends; links that may carry something then are open."""
    now_us: float = state.event_us[0]
    while state.numbers[0] > 0 and state.event_us[0] <= now_us + _SAME_US:
        now_us, event = state.event_us[0], state.event[0]
        pop(state.event_us, state.event, 0, state.numbers[0])
        state.numbers[0] -= 1
        if event >= 0:
            v = net.dst[link[event]]
            state.has[v, chunk[event] // _WORD] |= 1 << chunk[event] % _WORD
            _open(net.out[net.out_first[v] : net.out_first[v + 1]], state)
        else:
            wake = -1 - event
            _open(net.use[net.use_first[wake] : net.use_first[wake + 1]], state)
    return now_us


@compiled
def disseminated(net: Any, num_chunks: int, root: int, style: Any, most_looks: float) -> Any:
    """The chunk, link, start and send of each row, in their order, and how many looks that took.

    Columns are empty where some rank is out of reach, or after more looks than `most_looks`.
    """
    np.random.seed(style.seed)
    state = _begun(net, num_chunks, root, style)
    rows, links = num_chunks * (len(net.far_us) - 1), len(net.src)
    chunk, link, start_us = np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros(rows)
    send, sends = np.zeros(rows, np.int64), 0
    keys, items = np.zeros(links + 1), np.zeros(links + 1, np.int64)
    number, now_us = 0, 0.0
    while True:
        size = 0
        for place in range(state.numbers[1]):
            one = state.open[place]
            state.is_open[one] = False
            if _is_free(one, now_us, net, state):
                best, key = _urgent(one, now_us, net, style, state)
                if best >= 0:
                    push(keys, items, 0, size, key, one)
                    size += 1
        state.numbers[1] = 0
        state.numbers[2] += _OF_A_TURN * size
        while size > 0:
            one = items[0]
            pop(keys, items, 0, size)
            size -= 1
            if not _is_free(one, now_us, net, state):
                continue
            best, key = _urgent(one, now_us, net, style, state)
            if best >= 0 and size > 0 and key > keys[0] + 0.2:  # others went before it
                push(keys, items, 0, size, key, one)
                size += 1
            elif best >= 0:
                end = _sent(best, one, number, now_us, net, style, state, chunk)
                _go(number, end, one, now_us, net, state)
                link[number:end], start_us[number:end], send[number:end] = one, now_us, sends
                number, sends = end, sends + 1
        if number == rows or state.numbers[0] == 0 or state.numbers[2] > most_looks:
            break
        now_us = _next(chunk, link, net, state)
    if number < rows:
        rows = 0
    return chunk[:rows], link[:rows], start_us[:rows], send[:rows], state.numbers[2]
