"""When each link of some trees carries a chunk, again and again at equal intervals.

In the steady state of a pipeline every tree takes one chunk in each *period*. A send of a tree has a moment
for its first chunk; each later chunk follows a period later. So no two sends may meet at a port *modulo* the
period, and a period that is as long as the busiest port is busy has no gap there.

    period 1        period 2        period 3
    a→b  a→c  .     a→b  a→c  .     a→b  a→c  .        the port out of a
         b→d  b→e        b→d  b→e        b→d  b→e      the port out of b, modulo the period

Sends are placed top down, those with the longest way below them first, each as early as its ports are free.
One that finds no place takes one, and those that were there are placed again (iterative modulo scheduling).

Source: Rau, "Iterative modulo scheduling", MICRO 27 (1994).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray
from taccl.support.jit import compiled

#: Stays that overlap by less do not meet.
_EPSILON = 1e-7
#: One that takes a place is put where few are in the way, by chance.
_CHANCE = 2


class Sends(NamedTuple):
    """The sends of all trees in a period.

    Parameters
    ----------
    first, port, busy_us, send : shapes (num_sends + 1,) and (num_stays,) each; the stays of each send at
        ports, how long they are, and the send of each.
    above : shape (num_sends,); the send that brings the chunk to the sender, -1 at the root.
    took_us, rest_us : shape (num_sends,); how long a send takes, and with it the longest way below.
    """

    first: IntArray
    port: IntArray
    busy_us: FloatArray
    send: IntArray
    above: IntArray
    took_us: FloatArray
    rest_us: FloatArray


class _Held(NamedTuple):
    """The stays at each port so far, and the moment of each send; -1: it has none."""

    stay: Any
    count: Any
    start: Any


@compiled
def _take_out(e: int, sends: Any, held: Any) -> None:
    """Free the ports of a send."""
    for stay in range(sends.first[e], sends.first[e + 1]):
        p = sends.port[stay]
        for h in range(held.count[p]):
            if held.stay[p, h] == stay:
                held.count[p] -= 1
                held.stay[p, h] = held.stay[p, held.count[p]]
                break
    held.start[e] = -1.0


@compiled
def _in_the_way(e: int, at: float, period: float, sends: Any, held: Any, out: Any) -> int:
    """How many stays meet those of a send then; `out` has their sends."""
    many = 0
    for stay in range(sends.first[e], sends.first[e + 1]):
        p = sends.port[stay]
        for h in range(held.count[p]):
            other = held.stay[p, h]
            apart = (at - held.start[sends.send[other]]) % period
            if apart < sends.busy_us[other] - _EPSILON or period - apart < sends.busy_us[stay] - _EPSILON:
                out[many] = sends.send[other]
                many += 1
    return many


@compiled
def _place(e: int, ready: float, was: float, period: float, sends: Any, held: Any, out: Any) -> float:
    """Where a send goes: as early as its ports are free; else where few are in the way, not where it was."""
    best, fewest = ready, _CHANCE + len(out)
    for stay in range(sends.first[e] - 1, sends.first[e + 1]):
        # A place begins when the sender has the chunk, or where another stay ends.
        is_first = stay < sends.first[e]
        for h in range(1 if is_first else held.count[sends.port[stay]]):
            at = ready
            if not is_first:
                other = held.stay[sends.port[stay], h]
                at += (held.start[sends.send[other]] + sends.busy_us[other] - ready) % period
            many = _in_the_way(e, at, period, sends, held, out)
            if many:
                if was >= 0 and abs((at - was + 0.5 * period) % period - 0.5 * period) < _EPSILON:
                    continue
                many += np.random.randint(_CHANCE + 1)
            if many < fewest or (many == fewest and at < best):
                fewest, best = many, at
    return best


@compiled
def placed(sends: Any, period: float, tries: int, seed: int) -> Any:
    """The moment of each send's first chunk, shape (num_sends,); empty: some found no place in time.

    `tries` : how many are placed, those that are placed again included.
    """
    np.random.seed(seed)
    many, urgent = len(sends.above), np.argsort(-sends.rest_us)
    most = 1
    count = np.zeros(int(sends.port.max()) + 1, np.int64)
    for p in sends.port:
        count[p] += 1
        most = max(most, count[p])
    held = _Held(np.full((len(count), most), -1), np.zeros(len(count), np.int64), np.full(many, -1.0))
    was, out = np.full(many, -1.0), np.zeros(len(sends.port) + 1, np.int64)
    missing = many
    for _ in range(tries):
        e = -1
        for one in urgent:
            above = sends.above[one]
            if held.start[one] < 0 and (above < 0 or held.start[above] >= 0):
                e = one
                break
        if e < 0:
            break
        ready = 0.0 if sends.above[e] < 0 else held.start[sends.above[e]] + sends.took_us[sends.above[e]]
        at = _place(e, ready, was[e], period, sends, held, out)
        for other in out[: _in_the_way(e, at, period, sends, held, out)]:
            if held.start[other] >= 0:
                _take_out(other, sends, held)
                missing += 1
        held.start[e] = was[e] = at
        missing -= 1
        for stay in range(sends.first[e], sends.first[e + 1]):
            p = sends.port[stay]
            held.stay[p, held.count[p]] = stay
            held.count[p] += 1
        # What goes on before its chunk comes now has to be placed again.
        for one in range(many):
            if sends.above[one] == e and 0 <= held.start[one] < at + sends.took_us[e] - _EPSILON:
                _take_out(one, sends, held)
                missing += 1
    return held.start if not missing else held.start[:0]
