"""Finding a Dask cluster: an address becomes a client with at least one worker that can take tasks."""

from __future__ import annotations

import logging
import queue
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic

from taccl.errors import ClusterError
from taccl.support.arguments import shown
from taccl.synthesis.cluster.pool import A, Pool, T
from taccl.synthesis.cluster.task import Task, TaskAnswer
from taccl.synthesis.cluster.tuning import CONNECTION_LATE_S
from taccl.synthesis.cluster.work import carried_out

#: Seconds: for reaching the scheduler, for its workers to say what they are, and for saying good-bye.
_REACH_S, _ANSWER_S, _CLOSE_S = 5.0, 15.0, 2.0
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss|ucx)://)?(?:\[[0-9A-Fa-f:.%]+\]|[^\s/:\[\]]+):(\d{1,5})/?")
_HINT = "--scheduler tcp://HOST:8786, as `dask scheduler` prints it"


class Cluster(Generic[T, A]):
    """A cluster with workers that are ready, and the tasks that they have.

    Parameters
    ----------
    address : of the scheduler.
    pool : hands tasks to its workers.
    notes : what the user should know about its versions and workers.
    """

    def __init__(self, address: str, pool: Pool[T, A], notes: tuple[str, ...]) -> None:
        self.address, self.pool, self._notes = address, pool, notes

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the cluster, by now."""
        return (*self._notes, *self.pool.notes)


def check_address(address: object) -> str:
    """The address, if it can be one of a scheduler.

    Raises
    ------
    ClusterError : it has no host or no port.
    """
    if not isinstance(address, str):
        raise ClusterError(f"the address of a scheduler is a text, not {shown(address)}", hint=_HINT)
    match = _ADDRESS.fullmatch(address.strip())
    if match is None or not 0 < int(match[1]) < 2**16:
        raise ClusterError(f"{shown(address)} is no address of a scheduler: HOST:PORT", hint=_HINT)
    return address.strip().rstrip("/")


@contextmanager
def connected(
    address: str,
    *,
    work: Callable[[bytes, str], TaskAnswer] = carried_out,
    reach_s: float = _REACH_S,
    answer_s: float = _ANSWER_S,
) -> Iterator[Cluster[Task, TaskAnswer]]:
    """The cluster at an address, for the tasks of one search; see `workers_at`."""
    with workers_at(address, work, TaskAnswer, Task, reach_s=reach_s, answer_s=answer_s) as cluster:
        yield cluster


@contextmanager
def workers_at(
    address: str,
    work: Callable[[bytes, str], A],
    kind: type[A],
    task: type[T],
    *,
    reach_s: float = _REACH_S,
    answer_s: float = _ANSWER_S,
) -> Iterator[Cluster[T, A]]:
    """The cluster at an address, until the context ends; then tasks that are left are given up.

    Parameters
    ----------
    address : of the scheduler, such as tcp://10.0.0.1:8786.
    work, kind, task : what workers do with a task, what they return, and what tasks are.
    reach_s, answer_s : seconds for reaching the scheduler, and for the first worker to answer.

    Raises
    ------
    ClusterError : Dask is not installed, nobody answers at the address, what answers is no Dask scheduler,
        or it has no worker that can take a task.
    """
    address = check_address(address)
    distributed = _distributed()
    with _silent():
        client, notes = _client(distributed, address, reach_s)
        pool: Pool[T, A] = Pool(client, work, kind)
        try:
            pool.wait_for_workers(answer_s)
            yield Cluster(address, pool, notes)
        finally:
            pool.close()
            with suppress(Exception):
                client.close(timeout=_CLOSE_S)


def _distributed() -> Any:
    """Dask distributed, which is loaded here and nowhere before."""
    try:
        import distributed
    except ImportError as fault:
        raise ClusterError(
            f"--scheduler needs Dask distributed: {fault}", hint="pip install 'taccl[cluster]'"
        ) from None
    return distributed


def _client(distributed: Any, address: str, reach_s: float) -> tuple[Any, tuple[str, ...]]:
    """A client of the scheduler, and what it says about versions."""
    made: queue.SimpleQueue[tuple[Any, str]] = queue.SimpleQueue()

    def make() -> None:
        try:
            made.put((distributed.Client(address, timeout=reach_s, set_as_default=False), ""))
        except Exception as fault:  # Dask has no kind of its own for an address where no scheduler is
            lines = str(fault).strip().splitlines()
            made.put((None, lines[0] if lines else type(fault).__name__))

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        # Dask waits for ever where something listens and says nothing, whatever its timeout is.
        threading.Thread(target=make, daemon=True, name="taccl-cluster-connect").start()
        try:
            client, why = made.get(timeout=reach_s + CONNECTION_LATE_S)
        except queue.Empty:
            client, why = None, "something listens there, and says nothing"
    if client is None:
        raise ClusterError(f"no Dask scheduler answers at {address} within {reach_s:g} s: {why}", hint=_HINT)
    mismatches = (str(each.message) for each in said if "Mismatch" in each.category.__name__)
    return client, tuple(" ".join(mismatch.split()) for mismatch in mismatches)


@contextmanager
def _silent() -> Iterator[None]:
    """Dask logs on standard error what is reported here in other forms; it is quiet meanwhile."""
    known = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "distributed"]
    logs = [logging.getLogger(name) for name in {*known, "distributed", "tornado.application", "asyncio"}]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)
