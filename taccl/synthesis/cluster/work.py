"""What a worker does: it carries out one task.

Of Dask it needs one thing: whether anybody still waits for the task. So a task can also be carried out in
this process. Engines are loaded with the first task, and that counts as a part of its time.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from taccl.synthesis.cluster.tuning import WORK_LEAST_S

if TYPE_CHECKING:
    from taccl.synthesis.cluster.task import TaskAnswer


def carried_out(payload: bytes, key: str) -> TaskAnswer:
    """Search as the task says, and answer within its seconds; what fails is part of the answer.

    Parameters
    ----------
    payload : the task (`Task.payload`).
    key : what Dask calls it.
    """
    began_s = time.monotonic()
    try:
        return _carried_out(payload, key, began_s)
    except Exception as fault:
        from taccl.encoding.portfolio.journal import reported
        from taccl.synthesis.cluster.task import TaskAnswer

        return TaskAnswer(None, seconds=time.monotonic() - began_s, failures=(reported(fault),))


def _carried_out(payload: bytes, key: str, began_s: float) -> TaskAnswer:
    from taccl.synthesis.cluster.task import TaskAnswer
    from taccl.synthesis.search import STOP, search

    problem, options = pickle.loads(payload)
    if options.time_limit_s is not None:
        left_s = options.time_limit_s - (time.monotonic() - began_s)
        options = replace(options, time_limit_s=max(left_s, WORK_LEAST_S))
    found = search(problem, options, lambda _: STOP if is_given_up(key) else None)
    return TaskAnswer.of(found, time.monotonic() - began_s)


def is_given_up(key: str) -> bool:
    """Whether nobody waits for the task any more: whoever requested stopped, or is gone."""
    try:
        from distributed import get_worker

        task = get_worker().state.tasks.get(key)
        return task is None or task.state == "cancelled"
    except Exception:  # no worker's thread; or a Dask that keeps this elsewhere: then it ends with its time
        return False
