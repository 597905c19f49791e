"""Searches shared out over the worker processes of a Dask cluster, and merged again here.

`task` says what is shared out, `work` carries one task out on a worker, `versions` says what a process is
made of, `connection` finds the cluster, `pool` hands tasks to its workers, `plan` says which tasks there are,
and `sharing` merges what comes back as one search. Workers are believed nothing: their schedules are checked
here, and their bounds are proved here or reported as theirs. Dask is loaded where an address is given, and
nowhere else; a worker loads no engine before its first task.
"""
