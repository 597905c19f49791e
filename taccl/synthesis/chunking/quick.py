"""Which engine has a first schedule soonest; it knows engines by their names and nothing of trials."""

from __future__ import annotations

from taccl.encoding.engines.registry import engine_named
from taccl.encoding.instance import Instance

#: Where alpha is more of the time of one chunk in each part than this, messages are small.
_SMALL = 0.2


def quick_engine(instance: Instance) -> str:
    """The engine for trials, by its name; empty: none. For large messages, one that fills the bandwidth."""
    large = instance.latency_fraction < _SMALL
    names = ("forest", "paths", "greedy") if large else ("greedy",)
    return next((name for name in names if engine_named(name).can(instance)), "")
