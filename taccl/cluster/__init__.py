"""Searches shared out over the worker processes of a Dask cluster, and merged again here.

`task` says what is shared out, `work` carries one task out on a worker, `connection` finds the cluster,
`pool` hands tasks to its workers, `plan` says which tasks there are, and `sharing` merges what comes back as
one search. Workers are believed nothing: their schedules are checked here, and their bounds are proved here or
told as theirs. Dask is loaded where an address is given, and nowhere else.
"""

from __future__ import annotations

from taccl.cluster.connection import Cluster, connected
from taccl.cluster.sharing import Sharing
from taccl.cluster.task import TaskRun

__all__ = ["Cluster", "Sharing", "TaskRun", "connected"]
