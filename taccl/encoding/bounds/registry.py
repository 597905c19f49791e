"""All bounds, the cheapest first; those of other packages join them by an entry point.

A bound is one module of this room and one line here.
"""

from __future__ import annotations

from taccl.encoding.bounds.bottleneck import BOTTLENECK
from taccl.encoding.bounds.bound import Bound
from taccl.encoding.bounds.broadcast_time import BROADCAST_TIME
from taccl.encoding.bounds.center import CENTER
from taccl.encoding.bounds.copying import COPYING
from taccl.encoding.bounds.cut import CUT
from taccl.encoding.bounds.fan_out import FAN_OUT
from taccl.encoding.bounds.flow import FLOW
from taccl.encoding.bounds.gather_time import GATHER_TIME
from taccl.encoding.bounds.latency import LATENCY
from taccl.encoding.bounds.moments import MOMENTS
from taccl.encoding.bounds.relay import RELAY
from taccl.encoding.bounds.staged_cut import STAGED_CUT, STAGED_SOON
from taccl.encoding.bounds.strength import STRENGTH
from taccl.encoding.bounds.timed_flow import TIMED_FLOW
from taccl.encoding.bounds.volume import VOLUME
from taccl.encoding.bounds.waits import WAITS
from taccl.support.plugins import Note, added

#: The group of entry points under which other packages add theirs.
GROUP = "taccl.bounds"

BOUNDS: tuple[Bound, ...] = (
    LATENCY,
    CUT,
    VOLUME,
    RELAY,
    WAITS,
    COPYING,
    GATHER_TIME,
    TIMED_FLOW,
    STAGED_SOON,
    FAN_OUT,
    BROADCAST_TIME,
    BOTTLENECK,
    STRENGTH,
    CENTER,
    FLOW,
    STAGED_CUT,
    MOMENTS,
)


def known_bounds(note: Note | None = None) -> tuple[Bound, ...]:
    """The bounds that come with taccl, then those of other packages; see `taccl.support.plugins.added`."""
    return (*BOUNDS, *added(GROUP, Bound, note))
