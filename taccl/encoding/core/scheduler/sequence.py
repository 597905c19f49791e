"""Starts of sends in a given sequence: each as early as those before it in the sequence allow."""

from __future__ import annotations

from typing import Any

import numpy as np

from taccl.encoding.core.costs import Costs
from taccl.encoding.core.scheduler.graph import Sends
from taccl.model.network import FloatArray
from taccl.support.jit import Loop


def starts_in_sequence(sends: Sends, costs: Costs) -> FloatArray:
    """When each send starts, shape (num_sends,): after its ports have served all before it in the sequence.

    What gives a cell must stand before what needs it.
    """
    many = len(sends.link)
    there_us, free_us = np.zeros(sends.num_cells), np.zeros(costs.num_ports)
    return np.asarray(
        _starts(many, sends=sends, costs=costs, there=there_us, free=free_us, start_us=np.zeros(many))
    )


def _run_starts(sends: Any, costs: Any, there: Any, free: Any, start_us: Any) -> Any:
    for e in range(len(sends.link)):
        link, mb, now = sends.link[e], sends.mb[e], sends.ready_us[e]
        for row in range(sends.first_need[e], sends.first_need[e + 1]):
            now = max(now, there[sends.need[row]])
        now += sends.delay_us[e]
        for pair in range(costs.first[link], costs.first[link + 1]):
            now = max(now, free[costs.port[pair]])
        start_us[e] = now
        for pair in range(costs.first[link], costs.first[link + 1]):
            free[costs.port[pair]] = now + costs.busy_alpha_us[pair] + mb * costs.busy_beta_us[pair]
        end = now + costs.alpha_us[link] + mb * costs.beta_us[link]
        for row in range(sends.first_give[e], sends.first_give[e + 1]):
            there[sends.give[row]] = max(there[sends.give[row]], end)
    return start_us


_starts = Loop(_run_starts, eager=True)
