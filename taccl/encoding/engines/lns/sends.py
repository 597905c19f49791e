"""The sends of a window's model: those that stay, and those that open items may have alone or together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.engines.lns.apart import Row
from taccl.encoding.engines.lns.clock import Clock
from taccl.encoding.engines.lns.window import Item, Neighbourhood

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


@dataclass(frozen=True, eq=False)
class Sending:
    """A send of the model.

    Parameters
    ----------
    link : over which it goes.
    start, end : ticks.
    active : whether it takes place; None: in every solution.
    kept : the rows that stay in it.
    members : of each open item that may be in it, whether it is.
    count : its chunks: a number where that is known, else a variable.
    was : its number in the known schedule, if it continues one of that.
    """

    link: int
    start: Any
    end: Any
    active: Any
    kept: list[Row]
    members: dict[Item, Any]
    count: Any
    was: int | None

    @property
    def has_known_count(self) -> bool:
        """Whether every solution in which it takes place has as many chunks in it."""
        return isinstance(self.count, int)


@dataclass(frozen=True, eq=False)
class Sends:
    """All sends, and the choices of the open items.

    Parameters
    ----------
    every : those that stay come first, in the order of the known schedule.
    options : of each item and link, whether it goes there in which send.
    into, out_of : the same literals, by item and rank to which they bring it, or from which they take it.
    """

    every: list[Sending]
    options: dict[tuple[Item, int], list[tuple[Any, Sending]]]
    into: Mapping[tuple[Item, int], list[Any]]
    out_of: Mapping[tuple[Item, int], list[Any]]

    @property
    def staying(self) -> dict[int, Sending]:
        """Those in which rows stay, by their numbers in the known schedule."""
        return {sending.was: sending for sending in self.every if sending.kept and sending.was is not None}


def sends_of(
    cp: cp_model.CpModel, around: Neighbourhood, links: Mapping[Item, frozenset[int]], clock: Clock
) -> Sends:
    """Variables for all sends, with the known schedule as a hint."""
    drafts = _Drafts(cp, around, clock)
    drafts.add_those_that_stay()
    drafts.add_those_of_open_items(links)
    made = {draft: drafts.made(draft) for draft in drafts.every}
    into: dict[tuple[Item, int], list[Any]] = defaultdict(list)
    out_of: dict[tuple[Item, int], list[Any]] = defaultdict(list)
    for (item, link), options in drafts.options.items():
        literals = [literal for literal, _ in options]
        into[item, around.dst[link]] += literals
        out_of[item, around.src[link]] += literals
    return Sends(
        list(made.values()),
        {key: [(literal, made[draft]) for literal, draft in each] for key, each in drafts.options.items()},
        into,
        out_of,
    )


@dataclass(eq=False)
class _Draft:
    """A send that items still join."""

    link: int
    start: Any
    active: Any
    was: int | None
    kept: list[Row] = field(default_factory=list)
    members: dict[Item, Any] = field(default_factory=dict)


class _Drafts:
    """Sends in the making."""

    def __init__(self, cp: cp_model.CpModel, around: Neighbourhood, clock: Clock) -> None:
        self._cp, self._around, self._clock = cp, around, clock
        self._shares = ~one_by_one(around.apart.problem.topology)
        self.every: list[_Draft] = []
        self.options: dict[tuple[Item, int], list[tuple[Any, _Draft]]] = {}

    def add_those_that_stay(self) -> None:
        """A send for each of the known schedule in which rows stay."""
        for number, rows in enumerate(self._around.apart.rows_of()):
            if kept := [self._around.apart.rows[row] for row in rows if not self._around.is_open(row)]:
                start = self._start(number, f"s{number}")
                self.every.append(_Draft(kept[0].link, start, None, number, kept))

    def add_those_of_open_items(self, links: Mapping[Item, frozenset[int]]) -> None:
        """Each open item may go alone, join a send that stays, or share one with other open items."""
        staying: dict[int, list[_Draft]] = defaultdict(list)
        for draft in self.every:
            staying[draft.link].append(draft)
        now = self._now()
        freed = self._freed()
        on_link: dict[int, list[Item]] = defaultdict(list)
        for item, each in sorted(links.items()):
            for link in each:
                on_link[link].append(item)
        for link, items in sorted(on_link.items()):
            company: list[_Draft] = []
            if self._may_share(link):
                company = self._shared(link, items, freed[link]) + staying[link]
            for item in items:
                self.options[item, link] = self._choices(item, link, company, now.get((item, link)))

    def _now(self) -> dict[tuple[Item, int], int]:
        """In which send of the known schedule each open item goes over a link."""
        return {
            ((row.bundle, row.is_sum), row.link): row.send
            for number, row in enumerate(self._around.apart.rows)
            if self._around.is_open(number)
        }

    def _freed(self) -> dict[int, list[tuple[int, bool]]]:
        """By link the sends of the known schedule in which nothing stays, if they had several items: their
        numbers, and whether the first item was a sum.
        """
        freed: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        for number, rows in enumerate(self._around.apart.rows_of()):
            if len(rows) > 1 and all(self._around.is_open(row) for row in rows):
                first = self._around.apart.rows[rows[0]]
                freed[first.link].append((number, first.is_sum))
        return freed

    def _may_share(self, link: int) -> bool:
        problem = self._around.apart.problem
        own_first = problem.limits.own_first
        held_up = own_first is not None and bool(own_first[link])
        return bool(self._shares[link]) and problem.max_group > 1 and not held_up

    def _shared(self, link: int, items: list[Item], freed: list[tuple[int, bool]]) -> list[_Draft]:
        """As many sends for several open items as there were, and one more."""
        shared: list[_Draft] = []
        for sums in (None,) if self._around.apart.explicit else (False, True):
            of_kind = [item for item in items if sums is None or item[1] is sums]
            were = [number for number, is_sum in freed if sums is None or is_sum is sums]
            for number in [*were, None][: max(len(were), len(of_kind) // 2)]:
                active = self._cp.new_bool_var(f"a{link}")
                start = self._cp.new_int_var(0, self._clock.last, f"S{link}")
                self._cp.add_hint(active, int(number is not None))
                if number is not None:
                    self._cp.add_hint(start, self._clock.begins[number])
                members = {item: self._cp.new_bool_var("in") for item in of_kind}
                shared.append(_Draft(link, start, active, number, members=members))
        self.every += shared
        return shared

    def _choices(
        self, item: Item, link: int, company: list[_Draft], now: int | None
    ) -> list[tuple[Any, _Draft]]:
        """In which sends an item may go over a link; `now` is the one of the known schedule."""
        choices: list[tuple[Any, _Draft]] = []
        for draft in company:
            if self._may_join(item, draft):
                draft.members[item] = self._cp.new_bool_var("join")
            if item in draft.members:
                self._cp.add_hint(draft.members[item], int(now is not None and draft.was == now))
                choices.append((draft.members[item], draft))
        alone = self._cp.new_bool_var("x")
        is_alone = now is not None and all(draft.was != now for draft in company)
        self._cp.add_hint(alone, int(is_alone))
        own = _Draft(link, self._start(now, "s"), alone, None, members={item: alone})
        self.every.append(own)
        return [*choices, (alone, own)]

    def _may_join(self, item: Item, draft: _Draft) -> bool:
        """Whether an item may go with what stays: copies and sums mix only where sums are named."""
        if not draft.kept:
            return False
        equivalent = self._around.apart.explicit or draft.kept[0].is_sum == item[1]
        return equivalent and all(row.bundle != item[0] for row in draft.kept)

    def _start(self, now: int | None, name: str) -> Any:
        start = self._cp.new_int_var(0, self._clock.last, name)
        if now is not None:
            self._cp.add_hint(start, self._clock.begins[now])
        return start

    def made(self, draft: _Draft) -> Sending:
        """The send, with variables for its chunks and its end where they are not known."""
        least = sum(len(self._around.apart.bundles[row.bundle]) for row in draft.kept)
        most = least + sum(self._around.width(item) for item in draft.members)
        if not draft.members or (len(draft.members) == 1 and not draft.kept):
            count: Any = most
            end = draft.start + self._clock.duration(draft.link, count)
        else:
            most = min(most, self._around.apart.problem.max_group)
            count = self._cp.new_int_var(least, most, "n")
            end = self._cp.new_int_var(0, self._clock.last, "e")
        return Sending(
            draft.link, draft.start, end, draft.active, draft.kept, draft.members, count, draft.was
        )
