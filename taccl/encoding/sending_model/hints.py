"""A known schedule as a hint to a model, so that its search starts from something good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Generic

import numpy as np

from taccl.encoding.sending_model.sends import ItemT, SendingModel
from taccl.model.network import FloatArray
from taccl.model.schedule import Schedule


class Hints(Generic[ItemT]):
    """The values of variables; of several of one variable the first, or the largest where that is wished."""

    def __init__(self, model: SendingModel[ItemT]) -> None:
        self._model = model
        self._values: dict[int, tuple[Any, int]] = {}

    def hint(self, variable: Any, value: int, largest: bool = False) -> None:
        """Note a value, if it is a variable's."""
        if isinstance(variable, int):
            return
        _, now = self._values.get(variable.index, (None, None))
        if now is None or (largest and value > now):
            self._values[variable.index] = variable, int(value)

    def value(self, variable: Any) -> int | None:
        """What is noted of a variable."""
        return self._values.get(variable.index, (None, None))[1]

    def hint_sends(self, schedule: Schedule, items: Sequence[ItemT]) -> None:
        """Which items go together, and when; `items` has one for each row.

        Where items have sends of their own next to shared ones, what goes alone goes there.
        """
        rows_of: dict[int, list[int]] = defaultdict(list)
        for row, send in enumerate(schedule.sends.of_row.tolist()):
            rows_of[send].append(row)
        starts = self.in_ticks(schedule.start_us)
        on_link: dict[int, list[tuple[int, set[ItemT]]]] = defaultdict(list)
        for rows in sorted(rows_of.values(), key=lambda rows: starts[rows[0]]):
            on_link[int(schedule.link[rows[0]])].append((starts[rows[0]], {items[row] for row in rows}))
        for link, groups in enumerate(on_link[link] for link in range(len(self._model.sends_on))):
            self._hint_link(link, groups)

    def _hint_link(self, link: int, groups: list[tuple[int, set[ItemT]]]) -> None:
        clock = self._model.clock
        sends = [send for send in self._model.sends_on[link] if send.link == link]
        own = [send for send in sends if not send.is_shared]
        has_both = 0 < len(own) < len(sends)
        alone = {item: start for start, group in groups if len(group) == 1 or not has_both for item in group}
        for send in own:
            (item,) = send.members
            self.hint(send.active, item in alone)
            if item in alone:
                self.hint(send.start, alone[item])
        shared = [(start, group) for start, group in groups if len(group) > 1 or not has_both]
        for send in (send for send in sends if send.is_shared):
            fitting = [each for each in shared if each[1] <= send.members.keys()]
            start, group = fitting[0] if fitting else (-1, set[ItemT]())
            shared = [each for each in shared if each[1] is not group]
            self.hint(send.active, bool(group))
            for item, member in send.members.items():
                self.hint(member, item in group)
            if group:
                sizes: dict[int, int] = defaultdict(int)
                for item in group:
                    sizes[self._model.weight(item).size] += self._model.weight(item).times
                self.hint(send.start, start)
                self.hint(send.end, start + clock.duration(link, sizes))

    def in_ticks(self, us: FloatArray) -> list[int]:
        """Moments of a schedule in whole ticks."""
        counted = np.floor(us / self._model.clock.ticks.tick_us + 1e-6)
        ticks: list[int] = counted.astype(np.int64).tolist()
        return ticks

    def add(self) -> None:
        """Hand all of it to CP-SAT."""
        for variable, value in self._values.values():
            self._model.cp.add_hint(variable, value)
