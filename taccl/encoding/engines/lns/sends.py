"""The sends of a window's model: those that stay, and those that open items may have alone or together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taccl.encoding.engines.lns.apart import Row
from taccl.encoding.engines.lns.window import Item, Neighbourhood
from taccl.encoding.sending_model.rules import a_shared_send_has_several_items
from taccl.encoding.sending_model.sends import Option, Send, SendingModel


@dataclass(frozen=True, eq=False)
class KnownSend:
    """A send of the model, and what of the known schedule it continues.

    Parameters
    ----------
    send : its variables.
    kept : the rows that stay in it.
    was : its number in the known schedule, if it continues one of that.
    """

    send: Send[Item]
    kept: Sequence[Row]
    was: int | None


def sends_of(
    model: SendingModel[Item],
    around: Neighbourhood,
    links: Mapping[Item, frozenset[int]],
    begins: Sequence[int],
) -> list[KnownSend]:
    """All sends, those that stay first, with the known schedule as a hint.

    `begins` has the starts of the known schedule's sends in ticks.
    """
    writer = _Writer(model, around, links, begins)
    writer.add_those_that_stay()
    writer.add_those_of_open_items()
    return writer.every


class _Writer:
    """Sends as they are written down."""

    def __init__(
        self,
        model: SendingModel[Item],
        around: Neighbourhood,
        links: Mapping[Item, frozenset[int]],
        begins: Sequence[int],
    ) -> None:
        self._model, self._around, self._begins = model, around, begins
        self.every: list[KnownSend] = []
        self._staying: dict[int, list[KnownSend]] = defaultdict(list)
        self._items_on: dict[int, list[Item]] = defaultdict(list)
        for item, open_to in sorted(links.items()):
            for link in open_to:
                self._items_on[link].append(item)

    def add_those_that_stay(self) -> None:
        """A send for each of the known schedule in which rows stay; open items may join it."""
        model, around = self._model, self._around
        for number, rows in enumerate(around.apart.rows_of()):
            kept = [around.apart.rows[row] for row in rows if not around.is_open(row)]
            if not kept:
                continue
            link = kept[0].link
            joining = [item for item in self._items_on[link] if self._may_join(item, kept)]
            members = model.members(joining if self._may_share(link) else [], f"join{number}")
            known = KnownSend(self._shared(link, members, None, kept, number), kept, number)
            self._add(known)
            self._staying[link].append(known)

    def add_those_of_open_items(self) -> None:
        """Each open item may go alone, join a send that stays, or share one with other open items."""
        now, freed = self._now(), self._freed()
        for link, items in sorted(self._items_on.items()):
            company = []
            if self._may_share(link):
                company = [*self._shared_by(link, items, freed[link]), *self._staying[link]]
            for item in items:
                options = self._options(item, link, company, now.get((item, link)))
                self._model.offer(item, link, options)

    def _add(self, known: KnownSend) -> None:
        self.every.append(known)
        self._model.sends_on[known.send.link].append(known.send)

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
        own_first = self._model.problem.limits.own_first
        return self._model.may_share(link) and (own_first is None or not own_first[link])

    def _may_join(self, item: Item, kept: Sequence[Row]) -> bool:
        """Whether an item may go with what stays: copies and sums mix only where sums are named."""
        fits = self._around.apart.explicit or kept[0].is_sum == item[1]
        return fits and all(row.bundle != item[0] for row in kept)

    def _shared_by(self, link: int, items: list[Item], freed: list[tuple[int, bool]]) -> list[KnownSend]:
        """As many sends for several open items as there were, and one more."""
        shared: list[KnownSend] = []
        for sums in (None,) if self._around.apart.explicit else (False, True):
            of_part = [item for item in items if sums is None or item[1] is sums]
            were = [number for number, is_sum in freed if sums is None or is_sum is sums]
            for number in [*were, None][: max(len(were), len(of_part) // 2)]:
                active = self._model.cp.new_bool_var(f"a{link}")
                self._model.cp.add_hint(active, int(number is not None))
                members = self._model.members(of_part, f"{link}")
                a_shared_send_has_several_items(self._model, members, active)
                shared.append(KnownSend(self._shared(link, members, active, [], number), [], number))
                self._add(shared[-1])
        return shared

    def _shared(
        self, link: int, members: dict[Item, Any], active: Any, kept: Sequence[Row], was: int | None
    ) -> Send[Item]:
        """A send of what stays and what joins; as a copy or as a partial sum, a bundle is in it once."""
        model, last = self._model, self._model.clock.last
        for (bundle, is_sum), literal in members.items():
            copy = members.get((bundle, False))
            if is_sum and copy is not None:
                model.cp.add_at_most_one(literal, copy)
        weights = [model.weight((row.bundle, row.is_sum)) for row in kept]
        counts = model.counts(members, model.problem.max_group, weights)
        send = model.shared_send(link, members, active, counts, 0, last)
        self._hint_start(send, was)
        return send

    def _options(
        self, item: Item, link: int, company: Iterable[KnownSend], now: int | None
    ) -> list[Option[Item]]:
        """In which sends an item may go over a link; `now` is the one of the known schedule."""
        cp, options, is_alone = self._model.cp, list[Option[Item]](), now is not None
        for known in company:
            is_alone = is_alone and known.was != now
            if item in known.send.members:
                literal = known.send.members[item]
                cp.add_hint(literal, int(now is not None and known.was == now))
                options.append((literal, known.send))
        own = self._model.own_send(item, link, 0, self._model.clock.last)
        cp.add_hint(own.active, int(is_alone))
        self._hint_start(own, now)
        self._add(KnownSend(own, [], None))
        return [*options, (own.active, own)]

    def _hint_start(self, send: Send[Item], was: int | None) -> None:
        if was is not None:
            self._model.cp.add_hint(send.start, self._begins[was])
