"""Port channels in time: one proxy for each rank takes pushes in turn, each channel moves them in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from taccl.backend.execute_plan.memory import End

if TYPE_CHECKING:
    from taccl.backend.simulate_plan.run import Run


@dataclass(frozen=True, slots=True)
class _Pushed:
    """What a port channel does next, asked by an act: a transfer, or a signal (no size)."""

    by: int
    ready_us: float
    link: int | None = None
    size: float = 0.0
    packets: tuple[int, float, float] | None = None


class Port:
    """A port channel: transfers one after another, with signals in between."""

    def __init__(self, run: Run, end: End) -> None:
        self.run, self.end = run, end
        self.queue: deque[_Pushed] = deque()
        self.pushed = self.done = 0
        self.is_busy = False

    def push(
        self, by: int, link: int | None, size: float, packets: tuple[int, float, float] | None = None
    ) -> None:
        """Ask for a transfer, or for a signal after all that was asked before."""
        run, rank = self.run, self.end.rank
        ready_us = max(run.clock.now_us, run.proxy_free_us[rank]) + run.proxy_us
        run.proxy_free_us[rank] = ready_us
        self.queue.append(_Pushed(by, ready_us, link, size, packets))
        self.pushed += 1
        self._next()

    def _next(self) -> None:
        if self.is_busy or not self.queue:
            return
        self.is_busy = True
        asked = self.queue.popleft()
        self.run.clock.at(max(self.run.clock.now_us, asked.ready_us), lambda: self._begin(asked))

    def _begin(self, asked: _Pushed) -> None:
        if asked.link is None:
            self.run.signal(self.end, asked.by)
            self._over(asked.by, 0.0)
        else:
            sent = partial(self._sent, asked, asked.link, self.run.clock.now_us)
            self.run.clock.move(asked.link, asked.size, None, sent)

    def _sent(self, asked: _Pushed, link: int, start_us: float) -> None:
        run = self.run
        alpha_us = run.alpha_us(self.end.rank, self.end.peer)
        run.record.moved(asked.by, link, asked.size, start_us, run.clock.now_us, self.end.number)
        run.lands(asked.by, alpha_us)
        if asked.packets is not None:
            run.store_packets(*asked.packets, alpha_us, asked.by)
        self._over(asked.by, alpha_us)

    def has_done(self, count: int) -> bool:
        """Whether so much of what was asked is over."""
        return self.done >= count

    def _over(self, by: int, told_after_us: float) -> None:
        """The next may begin; who flushes is told that this has arrived."""

        def told() -> None:
            self.done += 1
            self.run.changed(("port", self.end.number), by)

        self.run.clock.at(self.run.clock.now_us + told_after_us, told)
        self.is_busy = False
        self._next()
