"""Stages of algorithms on grids, written down once for all algorithms that have them in common.

On a machine of several levels there are hundreds of algorithms, and some dozens of stages of which they are
made: what was gathered along some axes goes along one more by one of a few line algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from taccl.encoding.engines.textbook.sends import Sends
from taccl.encoding.engines.textbook.tuning import KEPT_UNITS_OF_A_STAGE


@dataclass(frozen=True, eq=False)
class Stages:
    """The sends of stages, each kept by all that it depends on; large ones are written down each time."""

    _written: dict[Hashable, Sends] = field(default_factory=dict)
    _linked: dict[Hashable, bool] = field(default_factory=dict)

    def has_links(self, key: Hashable, look: Callable[[], bool]) -> bool:
        """What `look` says, or said when it was last needed for this stage."""
        if key not in self._linked:
            self._linked[key] = look()
        return self._linked[key]

    def once(self, key: Hashable, write: Callable[[], Sends]) -> Sends:
        """What `write` says, or said when it was last needed for this key."""
        made = self._written.get(key)
        if made is None:
            made = write()
            if len(made.units.values) <= KEPT_UNITS_OF_A_STAGE:
                self._written[key] = made
        return made
