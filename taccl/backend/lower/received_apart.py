"""A pass over actions: receives that add become receives in scratch of their own, and sums from there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taccl.backend.lower.actions import (
    COLUMNS,
    PAIRS,
    RECV,
    RECV_REDUCE_COPY,
    REDUCE,
    SCRATCH,
    Actions,
)


def received_apart(actions: Actions) -> Actions:
    """The actions of a rank, for formats whose receives only store.

    What waited for the receive that adds waits for the sum; what that waited for, the new receive waits for.
    """
    adds = actions.op == RECV_REDUCE_COPY
    if not adds.any():
        return actions
    count = actions.count[adds]
    landing = _scratch_end(actions) + np.cumsum(count) - count
    rows = 1 + adds
    last = np.cumsum(rows) - 1
    first, sums = last - adds, last[adds]
    columns = {name: np.repeat(getattr(actions, name), rows) for name in COLUMNS}
    columns["op"][sums], columns["op"][sums - 1] = REDUCE, RECV
    columns["src"][sums] = columns["dst"][sums - 1] = landing
    columns["send"][sums] = columns["endpoint"][sums] = -1
    for name in PAIRS:
        pairs = getattr(actions, name)
        columns[name] = np.stack([first[pairs[:, 0]], last[pairs[:, 1]]], axis=1)
    return replace(actions, **columns)


def _scratch_end(actions: Actions) -> int:
    """The place behind the last cell of scratch that a rank uses."""
    ends = [
        (places + actions.count)[used]
        for used, places in ((actions.reads, actions.src), (actions.writes, actions.dst))
    ]
    return int(np.concatenate(ends).max(initial=SCRATCH))
