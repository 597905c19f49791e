"""What one rank has for each of the others: few large sends to relays, small ones first, the farthest first.

What leaves the root over one link is cut into groups, each of which is one send: a relay that has its first
group soon is busy until the end, and large groups pay few alphas. At a relay all chunks of a group for the
same next link go on together.

    root's port     relay 1, a little | relay 2, a little | 1, the rest | 2, the rest | own node
    relay 1                             on its NIC ...........................................
    relay 2                                                 on its NIC .......................

Of groups that wait for a port the one goes first that has most work behind it: its own, and that of all
groups that follow it over the same link (the longest tail: Jackson 1955).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taccl.encoding.core.costs import costs_of
from taccl.encoding.core.scheduler import graph_of, pipelined, sends_of_rows
from taccl.encoding.core.sequence import of_columns
from taccl.model.network import FloatArray
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule


@dataclass(frozen=True)
class Groups:
    """How what leaves over a link is cut: `first` chunks, then `growth` times as many, and so on.

    A group holds part of the chunks of one rank, or all of several, at most of `ranks`. What is left of a
    rank goes with the part before it where it is less than half of the next.
    """

    first: int
    growth: float
    ranks: int

    def cut(self, lengths: Sequence[int], most: int) -> Iterator[int]:
        """The sizes of the groups, in order, of ranks with this many chunks each, `most` in a group."""
        size, taken, together = min(self.first, most) + 0.0, 0, 0
        for length in lengths:
            if taken and (together == self.ranks or taken + length > most):
                yield taken
                size, taken, together = min(size * self.growth, most), 0, 0
            left = length
            while not taken and (left > most or left >= size + max(size * self.growth, 1) / 2):
                part = min(round(size), most)
                yield part
                left -= part
                size = min(size * self.growth, most)
            taken, together = taken + left, together + 1
            if 2 * taken > size:
                yield taken
                size, taken, together = min(size * self.growth, most), 0, 0
        if taken:
            yield taken


class _Send(NamedTuple):
    """Chunks over a link, and the sends by which they go on from its end, the most urgent first.

    `behind_us` : how long these take. `load_us` : how long they keep the busiest of their ports busy.
    """

    chunks: list[int]
    link: int
    then: list[_Send]
    behind_us: float
    load_us: float


class Deliveries:
    """The paths of a problem's chunks from its root.

    Parameters
    ----------
    problem : all chunks start at one rank, and each is wanted by one.
    paths : by rank, the links from the root, once for each of equal parts of what it wants.
    """

    def __init__(self, problem: Problem, paths: Mapping[int, Sequence[tuple[int, ...]]]) -> None:
        self.problem, self._costs = problem, costs_of(problem.topology)
        self._path, self._lines = dict[int, tuple[int, ...]](), dict[int, list[int]]()
        destination = problem.collective.destination
        for rank, several in paths.items():
            parts = np.array_split(np.flatnonzero(destination == rank), len(several))
            for path, chunks in zip(several, parts, strict=True):
                self._path |= dict.fromkeys(chunks.tolist(), path)
        for chunk in sorted(self._path, key=lambda each: (-len(self._path[each]), destination[each], each)):
            self._lines.setdefault(self._path[chunk][0], []).append(chunk)

    def schedule(self, groups: Groups) -> Schedule:
        """All chunks on their paths, in these groups."""
        sends, keys = list[_Send](), list[float]()
        for link, line in self._lines.items():
            following_us, first = 0.0, len(line)
            destination = self.problem.collective.destination[line]
            lengths = np.diff(np.flatnonzero(np.diff(destination, prepend=-1, append=-1)))
            for many in reversed([*groups.cut(lengths.tolist(), self.problem.max_group)]):
                first -= many
                send = self._send(line[first : first + many], link, 0)
                following_us = max(send.behind_us, send.load_us + following_us)
                for urgency, each in enumerate(_with_all_behind(send)):
                    sends.append(each)
                    keys.append(-following_us + 1e-6 * urgency)
        return self._timed(sends, np.array(keys))

    def _send(self, chunks: list[int], link: int, step: int) -> _Send:
        """A send from the end of `step` links, with all that follows it."""
        onwards: dict[int, list[int]] = {}
        for chunk in chunks:
            if len(self._path[chunk]) > step + 1:
                onwards.setdefault(self._path[chunk][step + 1], []).append(chunk)
        then = [self._send(each, following, step + 1) for following, each in onwards.items()]
        then.sort(key=lambda each: -each.behind_us)
        costs, load_us, behind_us = self._costs, dict[int, float](), 0.0
        for each in then:
            mb, latest_us = len(each.chunks) * self.problem.chunk_mb, 0.0
            for pair in range(costs.first[each.link], costs.first[each.link + 1]):
                port = int(costs.port[pair])
                latest_us = max(latest_us, load_us.get(port, 0.0))
                busy_us = costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair]
                load_us[port] = load_us.get(port, 0.0) + busy_us
            took_us = costs.alpha_us[each.link] + mb * costs.beta_us[each.link]
            behind_us = max(behind_us, latest_us + took_us + each.behind_us)
        return _Send(chunks, link, then, behind_us, max(load_us.values(), default=0.0))

    def _timed(self, sends: list[_Send], key: FloatArray) -> Schedule:
        """Whatever can go goes, the send with the least key first."""
        many = [len(each.chunks) for each in sends]
        number = np.repeat(np.arange(len(sends)), many)
        chunk = np.array([chunk for each in sends for chunk in each.chunks], dtype=np.int64)
        link = np.repeat([each.link for each in sends], many)
        is_sum = np.zeros(len(chunk), dtype=np.bool_)
        columns, _ = sends_of_rows(self.problem, chunk, link, is_sum, number)
        timed = pipelined(graph_of(columns), self._costs, key)
        return of_columns(self.problem, chunk, link, timed.start_us, is_sum, number)


def _with_all_behind(send: _Send) -> Iterator[_Send]:
    """A send and all that follow it, each before those behind it."""
    yield send
    for each in send.then:
        yield from _with_all_behind(each)
