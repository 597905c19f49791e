"""All that a rule of a window's model may speak of: what is known, and the variables (`model` names them)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taccl.encoding.engines.lns.clock import Clock
from taccl.encoding.engines.lns.moments import Moments, moments_of
from taccl.encoding.engines.lns.sends import Sends, sends_of
from taccl.encoding.engines.lns.window import Neighbourhood, open_links

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, eq=False)
class Variables:
    """What is known, and the variables.

    Parameters
    ----------
    cp : the model, to which rules are added.
    around, clock : the window in the known schedule, and times in ticks.
    finish : when everything has ended.
    sends, moments : what goes when in which send, and when it is where.
    """

    cp: cp_model.CpModel
    around: Neighbourhood
    clock: Clock
    finish: Any
    sends: Sends
    moments: Moments


def variables_of(around: Neighbourhood, clock: Clock, allowed: Callable[[int, int], bool]) -> Variables:
    """The variables of a new model; `allowed` says which links the chunks of a bundle may use."""
    from ortools.sat.python import cp_model  # only now, since it takes half a second

    cp = cp_model.CpModel()
    links = open_links(around, allowed)
    finish = cp.new_int_var(0, clock.last, "T")
    sends = sends_of(cp, around, links, clock)
    moments = moments_of(cp, around, links, clock)
    cp.add_hint(finish, clock.last)
    return Variables(cp, around, clock, finish, sends, moments)
