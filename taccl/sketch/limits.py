"""Sketch and logical topology -> routing limits: which chunks may use which link, and preferences."""

from __future__ import annotations

import numpy as np

from taccl.model.collective import BoolArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import RoutingLimits
from taccl.sketch.layout import SketchLayout
from taccl.sketch.model import Internode, Sketch
from taccl.sketch.network import switch_members

_PREFERENCE = {"uc-min": 1.0, "uc-max": -1.0}


def routing_limits(sketch: Sketch, logical: LogicalTopology, layout: SketchLayout) -> RoutingLimits:
    """The limits of a sketch on the links it made.

    Raises
    ------
    SketchError : a sender that may not send, or links that are to be both few and many.
    """
    own_first = sketch.internode.own_first and bool(logical.internode.any())
    return RoutingLimits(
        may_use=_may_use(sketch, logical, layout),
        own_first=logical.internode if own_first else None,
        link_preference=_link_preference(sketch, logical, layout),
        spread_load=sketch.intranode.strategy in ("minmax", "maxmin"),
    )


def check_senders(sketch: Sketch) -> None:
    """Raise SketchError for an entry of `sender_for` whose sender has no relay entry."""
    if sketch.internode.strategy != "relay":
        return
    senders = {relay.sender for relay in sketch.internode.relays}
    for entry in sketch.internode.sender_for:
        if entry.sender not in senders:
            raise sketch.error(
                f"GPU {entry.sender} is a sender here, but has no entry in `relay`",
                line=entry.line,
                hint="senders with one: " + ", ".join(map(str, sorted(senders))),
            )


def senders_of(internode: Internode, owner: int) -> set[int]:
    """The senders that `sender_for` names for the chunks of one GPU; empty when it names none."""
    return {entry.sender for entry in internode.sender_for if owner in entry.owners}


def _may_use(sketch: Sketch, logical: LogicalTopology, layout: SketchLayout) -> BoolArray | None:
    if not sketch.internode.sender_for or not logical.internode.any():
        return None
    widest = max(map(len, layout.ranks))
    sends = np.ones((widest, widest), dtype=np.bool_)  # [owner, sender], by local index
    for owner in range(widest):
        senders = senders_of(sketch.internode, owner)
        if senders:
            sends[owner] = np.isin(np.arange(widest), list(senders))
    by_owner = sends[:, layout.local_of[logical.src]] | ~logical.internode
    return np.asarray(by_owner[layout.local_of])


def _link_preference(sketch: Sketch, logical: LogicalTopology, layout: SketchLayout) -> FloatArray | None:
    if not any(switch.policy in _PREFERENCE for switch in sketch.intranode.switches):
        return None
    preference = np.zeros(logical.num_links)
    for switch in sketch.intranode.switches:
        wanted = _PREFERENCE.get(switch.policy, 0.0)
        for ranks in layout.ranks:
            members = switch_members(switch, ranks)
            for link in (logical.link_index[a, b] for a in members for b in members if a != b):
                if preference[link] == -wanted != 0.0:
                    raise sketch.error(
                        f"GPUs {layout.local_of[logical.src[link]]} and {layout.local_of[logical.dst[link]]} "
                        "are behind two switches, one of policy uc-min and one of uc-max",
                        line=switch.line,
                        hint="give both switches one policy",
                    )
                preference[link] = wanted or preference[link]
    return preference
