"""Run every thread block of every rank in a thread of its own, with blocking connections.

The last thread to fall asleep, while others have not ended, has found a deadlock: only the blocks can
wake each other. So no clock is needed to tell a program that hangs from one that is slow.
"""

from __future__ import annotations

import random
import threading
import time

from taccl.backend.execute.block import LocalExchange, RunningBlock, Wait
from taccl.backend.execute.deadline import Deadline
from taccl.backend.execute.memory import Array
from taccl.backend.execute.plan import Workload
from taccl.errors import TacclError

#: How often a thread pauses between two acts, and for how long at most (seconds).
_PAUSES = 0.05
_LONGEST_PAUSE = 2e-4


class Blocking(LocalExchange):
    """Connections and flags that threads can sleep on, all under one lock.

    `awake` counts threads that neither sleep nor have ended.
    """

    def __init__(self, plan: Workload, slots: int) -> None:
        super().__init__(plan, slots)
        self.lock = threading.Lock()
        self.bells = [threading.Semaphore(0) for _ in plan.blocks]
        self.sleepers: dict[tuple[str, int], list[int]] = {}
        self.awake = len(plan.blocks)
        self.stopped = self.awake == 0
        self.over = threading.Event()
        if self.stopped:
            self.over.set()

    def take(self, connection: int) -> Array:
        with self.lock:
            piece = super().take(connection)
            self._wake(("room", connection))
        return piece

    def put(self, connection: int, piece: Array) -> None:
        with self.lock:
            super().put(connection, piece)
            self._wake(("data", connection))

    def publish(self, block: int, value: int) -> None:
        with self.lock:
            super().publish(block, value)
            self._wake(("flag", block))

    def sleep_until_over(self, block: RunningBlock, wait: Wait) -> bool:
        """Whether the wait came to an end; False if everything has been stopped."""
        me = block.plan.index
        while True:
            with self.lock:
                if self.stopped or self.is_over(wait):
                    return not self.stopped
                block.waits_for = wait
                self.sleepers.setdefault((wait.kind, wait.index), []).append(me)
                self._leave()
            self.bells[me].acquire()
            if self.stopped:
                return False
            block.waits_for = None

    def leave(self) -> None:
        """A thread ends."""
        with self.lock:
            self._leave()

    def stop(self) -> None:
        """Wake everybody to go home."""
        with self.lock:
            self._stop()

    def _leave(self) -> None:
        self.awake -= 1
        if self.awake == 0:
            self._stop()

    def _stop(self) -> None:
        self.stopped = True
        for bell in self.bells:
            bell.release()
        self.over.set()

    def _wake(self, key: tuple[str, int]) -> None:
        for sleeper in self.sleepers.pop(key, ()):
            self.awake += 1
            self.bells[sleeper].release()


def run_threads(blocks: list[RunningBlock], exchange: Blocking, seed: int, deadline: Deadline) -> None:
    """Run all blocks; those that have not ended afterwards have `waits_for` set.

    However it ends, no thread is left.

    Raises
    ------
    VerificationError : they are not at an end in time, though not stuck; or a step failed.
    TacclError : the system does not give this many threads.
    """
    failures: list[BaseException] = []
    threads = [
        threading.Thread(target=_work, args=(block, exchange, seed, deadline, failures), daemon=True)
        for block in blocks
    ]
    started = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        late = not exchange.over.wait(deadline.left_s)
    except RuntimeError as error:
        raise TacclError(
            f"{len(threads)} threads cannot be started: {error}", hint="--ranks-as processes"
        ) from None
    finally:
        exchange.stop()
        for thread in started:
            thread.join()
    if failures:
        raise failures[0]
    if late:
        raise deadline.missed()


def _work(
    block: RunningBlock, exchange: Blocking, seed: int, deadline: Deadline, failures: list[BaseException]
) -> None:
    dice = random.Random(f"{seed} {block.plan.index}")
    try:
        for wait in block.run():
            deadline.look()
            if dice.random() < _PAUSES:
                time.sleep(dice.random() * _LONGEST_PAUSE)
            if exchange.stopped or (wait is not None and not exchange.sleep_until_over(block, wait)):
                return
        exchange.leave()
    except BaseException as failure:
        failures.append(failure)
        exchange.stop()
