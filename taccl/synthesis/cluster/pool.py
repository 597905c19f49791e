"""Handing tasks to workers: one to each free thread, each to one worker only, and lost with that worker. Dask
would give the task of a dead worker to the next one, and a task that takes too much memory would then end
them one after another: so each task is for one worker, and who dies loses it.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from taccl.errors import ClusterError
from taccl.synthesis.cluster.tuning import POOL_FETCH_S, POOL_FEW, POOL_GONE_S, POOL_LOOK_S
from taccl.synthesis.cluster.versions import About, about

if TYPE_CHECKING:
    from typing_extensions import Self  # of type checkers: no dependency, and in `typing` from Python 3.11


class Payload(Protocol):
    """What can be handed to a worker."""

    @property
    def payload(self) -> bytes:
        """All that the worker has to know."""
        ...


class Sanitized(Protocol):
    """What can come back of it."""

    def made_sane(self) -> Self:
        """The same with values of the types that they should have, whatever a worker put in their place."""
        ...


T = TypeVar("T", bound=Payload)
A = TypeVar("A", bound=Sanitized)


@dataclass(frozen=True, eq=False)
class Ended(Generic[T, A]):
    """A task that came to an end; without an answer, `remark` says what became of it."""

    task: T
    worker: str
    answer: A | None
    remark: str = ""


class Pool(Generic[T, A]):
    """The workers of a client, and the tasks that wait, run, and ended.

    All is done in the thread that calls; two others only bring news into a queue.

    Parameters
    ----------
    work : what workers do with the payload of a task and the name that Dask has for it.
    kind : what it should return.
    """

    def __init__(self, client: Any, work: Callable[[bytes, str], A], kind: type[A]) -> None:
        self._client, self._work, self._kind = client, work, kind
        self._news: queue.SimpleQueue[tuple[str, Any, Any]] = queue.SimpleQueue()
        self._requested: dict[str, Any] = {}
        self._threads: dict[str, int] = {}
        self._ready: set[str] = set()
        self._refused: dict[str, str] = {}
        self._waiting: deque[T] = deque()
        self._running: dict[str, tuple[T, str, Any]] = {}
        self._ended: list[Ended[T, A]] = []
        self._own = about()
        self._heard_s = self._had_workers_s = time.monotonic()
        self._closing = threading.Event()
        self.is_gone = False
        threading.Thread(target=self._watch, daemon=True, name="taccl-cluster-watch").start()

    @property
    def slots(self) -> int:
        """How many tasks can run at a time."""
        return sum(self._threads[address] for address in self._ready)

    @property
    def free(self) -> int:
        """How many more tasks could begin at once."""
        return self.slots - len(self._running) - len(self._waiting)

    @property
    def unfinished(self) -> int:
        """How many tasks wait or run."""
        return len(self._waiting) + len(self._running)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which workers are not used, and why."""
        refused = [f"the worker {address} is not used: {why}" for address, why in self._refused.items()]
        more = (f"{len(refused) - POOL_FEW} more workers are not used",) if len(refused) > POOL_FEW else ()
        gone = ("the scheduler went away, and the search went on here",) if self.is_gone else ()
        return (*refused[:POOL_FEW], *more, *gone)

    def wait_for_workers(self, seconds: float) -> None:
        """Return as soon as one worker can take tasks.

        Raises
        ------
        ClusterError : there is none, none may be used, or none answers in time.
        """
        end_s = time.monotonic() + seconds
        has_looked = False
        while not self._ready and time.monotonic() < end_s and not self.is_gone:
            has_looked = self._hear(0.1) == "workers" or has_looked
            if has_looked and len(self._refused) == len(self._threads):
                break
        if self._ready:
            return
        if self.is_gone:
            raise ClusterError("the scheduler went away", hint="dask scheduler starts one")
        if not self._threads:
            raise ClusterError("the scheduler has no workers", hint="dask worker ADDRESS --nthreads 1")
        if self._refused:
            raise ClusterError(
                "no worker of the cluster can be used: "
                + "; ".join(f"{address}: {why}" for address, why in list(self._refused.items())[:POOL_FEW]),
                hint="the same taccl and the same Python for all: pip install 'taccl[cluster]' there",
            )
        raise ClusterError(
            f"none of {len(self._threads)} workers answers within {seconds:g} s: they are busy",
            hint="dask worker ADDRESS --nthreads 1 adds one",
        )

    def submit(self, tasks: Iterable[T]) -> None:
        """Let tasks wait for a free worker, in this order."""
        self._waiting.extend(tasks)
        if self.is_gone:
            self._end_waiting("lost: the scheduler went away")
        self._hand_out()

    def ended(self, seconds: float) -> list[Ended[T, A]]:
        """Tasks that came to an end; empty if none did for this many seconds."""
        end_s = time.monotonic() + seconds
        while True:
            left_s = 0.0 if self._ended else max(0.0, end_s - time.monotonic())
            if self._hear(left_s) is None and left_s <= 0:
                break
        ended, self._ended = self._ended, []
        return ended

    def drop(self, tasks: Iterable[T]) -> list[Ended[T, A]]:
        """Give up tasks that wait or run; what they were."""
        given_up = set(map(id, tasks))
        dropped: list[Ended[T, A]] = [
            Ended(task, "", None, "given up before it began")
            for task in self._waiting
            if id(task) in given_up
        ]
        self._waiting = deque(task for task in self._waiting if id(task) not in given_up)
        for key, (task, worker, future) in list(self._running.items()):
            if id(task) in given_up:
                del self._running[key]
                self._cancel(future)
                dropped.append(Ended(task, worker, None, "given up when the search ended"))
        return dropped

    def close(self) -> None:
        """Give up all that is left."""
        self._closing.set()
        self._waiting.clear()
        for _, _, future in self._running.values():
            self._cancel(future)
        self._running.clear()

    def _cancel(self, future: Any) -> None:
        with suppress(Exception):
            future.release()

    def _watch(self) -> None:
        """Tell which workers there are, again and again, until the scheduler is gone."""
        while not self._closing.is_set():
            try:
                workers = self._client.scheduler_info(n_workers=-1)["workers"]
                threads = {address: int(each["nthreads"]) for address, each in workers.items()}
                self._news.put(("workers", threads, None))
            except Exception as fault:  # whatever Dask makes of a connection that broke
                self._news.put(("gone", str(fault), None))
                return
            self._closing.wait(POOL_LOOK_S)

    def _hear(self, seconds: float) -> str | None:
        """Take one piece of news, if there is one in time; its kind."""
        try:
            kind, what, value = self._news.get(timeout=seconds) if seconds > 0 else self._news.get_nowait()
        except queue.Empty:
            self._give_up_hope()
            return None
        if kind == "workers":
            self._heard_s = time.monotonic()
            self._see(what)
        elif kind == "gone":
            self._lose_all("the scheduler went away")
        elif kind == "about":
            self._meet(what, value)
        elif kind == "answer" and what in self._running:
            task, worker, _ = self._running.pop(what)
            if isinstance(value, self._kind):
                self._ended.append(Ended(task, worker, value.made_sane()))
            else:
                self._ended.append(Ended(task, worker, None, str(value)))
        self._hand_out()
        self._give_up_hope()
        return str(kind)

    def _give_up_hope(self) -> None:
        """Nothing waits longer than seconds for a scheduler or for workers that are not there."""
        now_s = time.monotonic()
        if self.slots:
            self._had_workers_s = now_s
        if now_s - self._heard_s > POOL_GONE_S:
            self._lose_all("the scheduler went away")
        elif self._waiting and now_s - self._had_workers_s > POOL_GONE_S:
            self._end_waiting("lost: no worker is left")

    def _see(self, threads: dict[str, int]) -> None:
        """Note which workers there are now; tasks of those that are gone are lost."""
        for address in set(threads) - set(self._threads):
            future = self._client.submit(
                about, workers=[address], allow_other_workers=False, pure=False, retries=0
            )
            self._requested[address] = future
            future.add_done_callback(lambda done, address=address: self._bring("about", address, done))
        for address in set(self._threads) - set(threads):
            self._ready.discard(address)
            self._refused.pop(address, None)
            self._cancel(self._requested.pop(address, None))
        self._threads = threads
        dead = [key for key, (_, worker, _) in self._running.items() if worker not in threads]
        self._lose(dead, "its worker died")

    def _lose(self, keys: Iterable[str], why: str) -> None:
        for key in keys:
            task, worker, future = self._running.pop(key)
            self._cancel(future)
            self._ended.append(Ended(task, worker, None, f"lost: {why}"))

    def _lose_all(self, why: str) -> None:
        self.is_gone = True
        self._ready.clear()
        self._lose(list(self._running), why)
        self._end_waiting(f"lost: {why}")

    def _end_waiting(self, remark: str) -> None:
        self._ended += [Ended(task, "", None, remark) for task in self._waiting]
        self._waiting.clear()

    def _meet(self, address: str, value: object) -> None:
        """Use a worker if it has the same taccl and Python."""
        if address not in self._threads:
            return
        if not isinstance(value, About):
            self._refused[address] = str(value)
        elif (value.taccl, value.source, value.python) != (
            self._own.taccl,
            self._own.source,
            self._own.python,
        ):
            self._refused[address] = f"it has {value}, and here is {self._own}"
        else:
            self._ready.add(address)

    def _hand_out(self) -> None:
        load = dict.fromkeys(self._ready, 0)
        for _, worker, _ in self._running.values():
            if worker in load:
                load[worker] += 1
        while self._waiting:
            free = [address for address in load if load[address] < self._threads[address]]
            if not free:
                return
            address = min(free, key=lambda each: (load[each], each))
            load[address] += 1
            self._begin(self._waiting.popleft(), address)

    def _begin(self, task: T, address: str) -> None:
        key = f"taccl-{uuid.uuid4().hex}"
        future = self._client.submit(
            *(self._work, task.payload, key),
            key=key,
            workers=[address],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        self._running[key] = (task, address, future)
        future.add_done_callback(lambda done: self._bring("answer", key, done))

    def _bring(self, kind: str, what: str, future: Any) -> None:
        """Called in a thread of Dask: fetch what a task gave, and put it into the queue."""
        value: object
        if self._closing.is_set():
            return
        if future.status == "finished":
            try:
                value = future.result(timeout=POOL_FETCH_S)
            except Exception as fault:
                value = f"what it gave cannot be fetched: {_in_a_line(fault)}"
        elif future.status == "error":
            try:
                value = _in_a_line(future.exception(timeout=POOL_FETCH_S))
            except Exception as fault:
                value = f"it failed, and why cannot be fetched: {_in_a_line(fault)}"
        else:
            value = f"lost: {future.status}"
        with suppress(Exception):
            future.release()
        self._news.put((kind, what, value))


def _in_a_line(fault: object) -> str:
    if isinstance(fault, ModuleNotFoundError) and (fault.name or "").split(".")[0] == "taccl":
        return "it has no taccl"
    first = str(fault).strip().splitlines() or [""]
    return f"{type(fault).__name__}: {first[0]}"
