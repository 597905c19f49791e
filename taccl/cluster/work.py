"""What a worker does: it says what it is made of, and carries out one task.

It knows searches, and asks Dask one thing: whether anybody still waits for the task. So a task can also be
carried out in this process. Engines are loaded with the first task.
"""

from __future__ import annotations

import hashlib
import pickle
import platform
import time
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from taccl.cluster.task import About, Answer

#: However long it took to load all, so many seconds are for the search.
_LEAST_S = 0.1


def about() -> About:
    """What this process is made of."""
    return About(
        taccl=_version("taccl"),
        source=_source(),
        python=".".join(platform.python_version_tuple()[:2]),
        numpy=_version("numpy"),
    )


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # a checkout that is on the path and not installed
        return "of a checkout"


def _source() -> str:
    """A few letters that are others where a line of this package is another."""
    root, digest = Path(__file__).parent.parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def carried_out(payload: bytes) -> Answer:
    """Search as the task says, and answer within its seconds; what fails is part of the answer.

    The seconds count from the call on, so that loading the engines is in them.
    """
    began_s = time.monotonic()
    try:
        return _carried_out(payload, began_s)
    except Exception as fault:
        from taccl.encoding.portfolio.journal import told

        return Answer(None, seconds=time.monotonic() - began_s, failures=(told(fault),))


def _carried_out(payload: bytes, began_s: float) -> Answer:
    from taccl.search import STOP, search

    problem, options = pickle.loads(payload)
    if options.time_limit_s is not None:
        left_s = options.time_limit_s - (time.monotonic() - began_s)
        options = replace(options, time_limit_s=max(left_s, _LEAST_S))
    found = search(problem, options, lambda _: STOP if _is_given_up() else None)
    return Answer.of(found, time.monotonic() - began_s)


def _is_given_up() -> bool:
    """Whether nobody waits for the task of this thread any more: whoever asked stopped, or is gone."""
    try:
        from distributed import get_worker
        from distributed.core import thread_state

        task = get_worker().state.tasks.get(thread_state.key)
        return task is None or task.state == "cancelled"
    except Exception:  # no worker's thread; or a Dask that keeps this elsewhere: then it ends with its time
        return False
