"""Numbers of searches on a cluster: seconds to wait, parts of a search, retries.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- connection

#: So much later than its own limit Dask may say that it was reached.
CONNECTION_LATE_S = 1.0

# --- plan

#: Less than this many seconds are not cut into parts.
PLAN_UNCUT_S = 3.0
#: Of what is left, a task leaves this part and this many seconds for its way to the worker and back.
PLAN_WAY, PLAN_WAY_S = 0.05, 0.2

# --- pool

#: Seconds between two looks at which workers there are, after which without a look the scheduler is gone,
#: and for fetching what a task gave.
POOL_LOOK_S, POOL_GONE_S, POOL_FETCH_S = 0.5, 15.0, 30.0
POOL_FEW = 4

# --- sharing

#: Parts of a search: for what is done here next to the tasks, and for proving here what workers claim.
SHARING_HERE, SHARING_PROVE = 0.25, 0.25
#: A task has this part of what is left, so that the next one goes on from the best of all.
SHARING_TURN = 0.5
#: Where work is counted, a search is this many tasks, however many workers there are.
SHARING_TASKS_BY_WORK = 8
#: And with fewer units of work there is none.
SHARING_LEAST_UNITS = 20
#: While this process has a short trial of each number of chunks, a worker has at least this many seconds for
#: one; where work is counted, this part of what all of them may take here.
SHARING_LEAST_AHEAD_S, SHARING_AHEAD_BY_WORK = 1.0, 0.25
#: This many tasks in a row may fail or be lost, and one for each worker, until it is no use.
SHARING_SOME = 4
#: Seconds between two looks at the budget.
SHARING_LOOK_S = 0.2

# --- work

#: However long it took to load all, this many seconds are for the search.
WORK_LEAST_S = 0.1
