r"""A window as a model: what is inside is decided anew, by the side of all that stays.

Time is counted in ticks. A *way* is an item (a bundle as a copy, or as a partial sum) over a link.

    start[s]        of each send; one that has nothing but open items may be left out
    in[i, s]        open item i travels in send s: one that stays, its own, or one that open items share
    at[i, r]        when open item i is at rank r; of partial sums, when all that comes there has come
    root[b, r]      whether the sum of an opened bundle is made at rank r

    minimise T, and among equal T the number of sends that end at the known time

    once            an open copy comes once to each rank that wants it; an open partial sum leaves once
    presence        a send starts when all that it carries is at its sender, and brings it when it ends
    ports           sends on a port do not overlap; those that stay and may not move keep their order
    own first       the sender's own chunks end before any other starts, where the sketch says so

A send lasts alpha + n beta for the n chunks in it, so what joins a send makes it longer.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.core.ticks import Ticks
from taccl.encoding.core.timing import Decision
from taccl.encoding.engines.windows.apart import Apart, Cell, Row

#: A bundle, and whether as a partial sum.
Item = tuple[int, bool]
#: Of more sends than this the number of those that end last is not counted.
_MOST_COUNTED = 1_000


@dataclass(frozen=True)
class Window:
    """What is decided anew.

    Parameters
    ----------
    opened : bundles of which every way is open, and where their sums are made.
    rows : rows of which the ways are open, of other bundles.
    movable : sends that leave their places in the orders of their ports.
    """

    opened: frozenset[int]
    rows: frozenset[int]
    movable: frozenset[int]


@dataclass(eq=False)
class Sending:
    """A send of the model: `members` are its open items, `kept` the rows that stay in it."""

    link: int
    start: Any
    end: Any
    active: Any
    kept: list[Row] = field(default_factory=list)
    members: dict[Item, Any] = field(default_factory=dict)
    width: int = 0
    count: Any = 0


class WindowModel:
    """The model of a window, and how its solutions are read.

    Parameters
    ----------
    apart : the known schedule.
    starts : when each of its sends starts, us.
    window : what is decided anew.
    ticks : at least one tick for every transfer.
    last : no solution takes more ticks.
    allowed : whether the chunks of a bundle may travel over a link.
    """

    def __init__(
        self,
        apart: Apart,
        starts: list[float],
        window: Window,
        ticks: Ticks,
        last: int,
        allowed: Callable[[int, int], bool],
    ) -> None:
        from ortools.sat.python import cp_model  # only now, since it takes half a second

        problem, topology = apart.problem, apart.problem.topology
        self.apart, self.window, self.last, self._allowed = apart, window, last, allowed
        self.cp = cp_model.CpModel()
        self._hints: dict[int, tuple[Any, int]] = {}
        self._alpha = ticks.of(topology.alpha_us).tolist()
        self._cost = ticks.of(topology.beta_us_per_mb * problem.chunk_mb).tolist()
        self._pair_cost = ticks.of(topology.pair_betas * problem.chunk_mb).tolist()
        self._serial, self._shares = topology.is_serial, ~one_by_one(topology)
        self._src, self._dst = topology.src.tolist(), topology.dst.tolist()
        self._begin = ticks.of(np.array(starts)).tolist()
        self._own_first = problem.limits.own_first
        self._reduces = problem.collective.reduces
        self._starts_at: dict[int, set[int]] = defaultdict(set)
        self._wanted_at: dict[int, set[int]] = defaultdict(set)
        self._find_places()
        self.sendings: list[Sending] = []
        self.finish = self.cp.new_int_var(0, last, "T")
        self._options: dict[tuple[Item, int], list[tuple[Any, Sending]]] = {}
        self._into: dict[tuple[Item, int], list[Any]] = defaultdict(list)
        self._out_of: dict[tuple[Item, int], list[Any]] = defaultdict(list)
        self._at: dict[tuple[Item, int], Any] = {}
        self._root: dict[Cell, Any] = {}
        self._place: dict[int, Sending] = {}  # of each send that stays
        self._links: dict[Item, set[int]] = defaultdict(set)
        self._build()

    # What there is.

    def _find_places(self) -> None:
        collective = self.apart.problem.collective
        first = {chunks[0]: bundle for bundle, chunks in enumerate(self.apart.bundles)}
        for places, placement in (
            (self._starts_at, collective.inputs),
            (self._wanted_at, collective.outputs),
        ):
            for chunk, rank in zip(placement.chunk.tolist(), placement.rank.tolist(), strict=True):
                if chunk in first:
                    places[first[chunk]].add(rank)

    def _is_reduced(self, bundle: int) -> bool:
        return bool(self._reduces[self.apart.bundles[bundle][0]])

    def _is_open(self, number: int) -> bool:
        return number in self.window.rows or self.apart.rows[number].bundle in self.window.opened

    def _build(self) -> None:
        self._open_cells()
        self._sends_that_stay()
        self._sends_of_open_items()
        self._moments()
        self._each_comes_once()
        self._each_is_there_before()
        self._ports_serve_one_at_a_time()
        self._own_chunks_go_first()
        self._ends()
        for variable, value in self._hints.values():
            self.cp.add_hint(variable, value)

    def _open_cells(self) -> None:
        """The links that each open item may use."""
        topology = self.apart.problem.topology
        every = range(topology.num_links)
        self._copy_cells: set[Cell] = set()
        self._sum_cells: set[Cell] = set()
        for bundle in sorted(self.window.opened):
            for sums in (False, True) if self._is_reduced(bundle) else (False,):
                self._links[bundle, sums] = {link for link in every if self._allowed(bundle, link)}
        for number in sorted(self.window.rows):
            row = self.apart.rows[number]
            if row.is_sum:
                sender = self._src[row.link]
                self._sum_cells.add((row.bundle, sender))
                sink = self.apart.sink[row.bundle, sender]
                links = {
                    link
                    for link in topology.links_from[sender]
                    if self._dst[link] == sink or self.apart.sink.get((row.bundle, self._dst[link])) == sink
                }
            else:
                self._copy_cells.add((row.bundle, self._dst[row.link]))
                links = set(topology.links_into[self._dst[row.link]])
            self._links[row.bundle, row.is_sum] |= {
                link for link in links if self._allowed(row.bundle, link)
            } | {row.link}
        for (bundle, sums), links in self._links.items():
            opened, may = bundle in self.window.opened, self._may_sum if sums else self._may_leave
            if opened or not sums:
                links.intersection_update([link for link in links if may(bundle, link)])

    def _may_sum(self, bundle: int, link: int) -> bool:
        places = self._starts_at[bundle]
        return self._src[link] in places and self._dst[link] in places

    def _may_leave(self, bundle: int, link: int) -> bool:
        """Whether a copy can be where the link begins, and is not there already where it ends."""
        sender, receiver = self._src[link], self._dst[link]
        if not self._is_reduced(bundle) and receiver in self._starts_at[bundle]:
            return False
        return bundle in self.window.opened or self._held(bundle, sender) is not None

    def _held(self, bundle: int, rank: int) -> Any:
        """How a bundle of which some ways stay comes to a rank: a word for it, None if it does not."""
        if not self._is_reduced(bundle) and rank in self._starts_at[bundle]:
            return "start"
        if (bundle, rank) in self._copy_cells:
            return "open"
        if (bundle, rank) in self.apart.copy_into:
            return "copied"
        if (bundle, rank) in self.apart.made:
            return "made"
        return None

    # Sends.

    def _bool(self, name: str) -> Any:
        return self.cp.new_bool_var(name)

    def _hint(self, variable: Any, value: int) -> None:
        self._hints[variable.index] = variable, int(value)

    def _sends_that_stay(self) -> None:
        for number, rows in enumerate(self.apart.rows_of()):
            kept = [self.apart.rows[row] for row in rows if not self._is_open(row)]
            if not kept:
                continue
            start = self.cp.new_int_var(0, self.last, f"s{number}")
            self._hint(start, self._begin[number])
            width = sum(len(self.apart.bundles[row.bundle]) for row in kept)
            sending = Sending(self.apart.decisions[number].link, start, None, None, kept, {}, width)
            self._place[number] = sending
            self.sendings.append(sending)

    def _sends_of_open_items(self) -> None:
        """Each open item may go alone, join a send that stays, or share one with other open items."""
        staying: dict[int, list[tuple[int, Sending]]] = defaultdict(list)
        for number, sending in self._place.items():
            staying[sending.link].append((number, sending))
        now: dict[tuple[Item, int], int] = {}
        freed: dict[int, list[tuple[int, list[Item]]]] = defaultdict(list)
        for number, rows in enumerate(self.apart.rows_of()):
            items = [self._item(row) for row in rows if self._is_open(row)]
            for item in items:
                now[item, self.apart.decisions[number].link] = number
            if number not in self._place and len(items) > 1:
                freed[self.apart.decisions[number].link].append((number, items))
        on_link: dict[int, list[Item]] = defaultdict(list)
        for item, links in sorted(self._links.items()):
            for link in links:
                on_link[link].append(item)
        for link, items in sorted(on_link.items()):
            places = staying[link] if self._may_share(link) else []
            shared = self._shared(link, items, freed[link])
            for item in items:
                self._choose(item, link, places, shared, now.get((item, link)))
        for sending in self.sendings:
            self._last_as_long_as(sending)

    def _item(self, number: int) -> Item:
        row = self.apart.rows[number]
        return row.bundle, row.is_sum

    def _may_share(self, link: int) -> bool:
        held_up = self._own_first is not None and bool(self._own_first[link])
        return bool(self._shares[link]) and self.apart.problem.max_group > 1 and not held_up

    def _shared(
        self, link: int, items: list[Item], freed: list[tuple[int, list[Item]]]
    ) -> list[tuple[int, Sending]]:
        """As many sends for several open items as there were, and one more."""
        if not self._may_share(link):
            return []
        made: list[tuple[int, Sending]] = []
        for sums in (None,) if self.apart.explicit else (False, True):
            of_kind = [item for item in items if sums is None or item[1] is sums]
            were = [number for number, these in freed if sums is None or these[0][1] is sums]
            for number in [*were, -1][: max(len(were), len(of_kind) // 2)]:
                active = self._bool(f"a{link}")
                start = self.cp.new_int_var(0, self.last, f"S{link}")
                self._hint(active, number >= 0)
                if number >= 0:
                    self._hint(start, self._begin[number])
                sending = Sending(link, start, None, active)
                sending.members = {item: self._bool("in") for item in of_kind}
                made.append((number, sending))
                self.sendings.append(sending)
        return made

    def _choose(
        self,
        item: Item,
        link: int,
        staying: list[tuple[int, Sending]],
        shared: list[tuple[int, Sending]],
        now: int | None,
    ) -> None:
        options: list[tuple[Any, Sending]] = []
        for number, sending in shared:
            if item in sending.members:
                self._hint(sending.members[item], now is not None and number == now)
                options.append((sending.members[item], sending))
        for number, sending in staying:
            alike = self.apart.explicit or sending.kept[0].is_sum == item[1]
            if alike and all(row.bundle != item[0] for row in sending.kept):
                literal = sending.members[item] = self._bool("join")
                self._hint(literal, number == now)
                options.append((literal, sending))
        among = any(number == now for number, _ in (*shared, *staying)) and now is not None
        alone = self._bool("x")
        self._hint(alone, now is not None and not among)
        start = self.cp.new_int_var(0, self.last, "s")
        if now is not None:
            self._hint(start, self._begin[now])
        own = Sending(link, start, None, alone, [], {item: alone})
        self.sendings.append(own)
        options.append((alone, own))
        self._options[item, link] = options
        literals = [literal for literal, _ in options]
        self._into[item, self._dst[link]] += literals
        self._out_of[item, self._src[link]] += literals

    def _last_as_long_as(self, sending: Sending) -> None:
        """When a send ends, and how many chunks it may have."""
        link, most = sending.link, self.apart.problem.max_group
        sending.count = sending.width or sum(self._width(item) for item in sending.members)
        if not sending.members or (len(sending.members) == 1 and not sending.kept):
            sending.end = sending.start + (self._alpha[link] + self._cost[link] * sending.count)
            return
        widest = sending.width + sum(self._width(item) for item in sending.members)
        sending.count = self.cp.new_int_var(sending.width, min(widest, most), "n")
        self.cp.add(
            sending.count
            == sending.width + sum(self._width(item) * each for item, each in sending.members.items())
        )
        sending.end = self.cp.new_int_var(0, self.last, "e")
        rule = self.cp.add(
            sending.end == sending.start + self._alpha[link] + self._cost[link] * sending.count
        )
        if sending.active is not None:
            rule.only_enforce_if(sending.active)
        if self.apart.explicit:
            for item, literal in sending.members.items():
                other = sending.members.get((item[0], not item[1]))
                if item[1] and other is not None:
                    self.cp.add_at_most_one(literal, other)
        if sending.active is not None:
            members = list(sending.members.values())
            for literal in members:
                self.cp.add_implication(literal, sending.active)
            self.cp.add(sum(members) >= 2).only_enforce_if(sending.active)

    def _width(self, item: Item) -> int:
        return len(self.apart.bundles[item[0]])

    # Rules.

    def _moments(self) -> None:
        """When open items are where they may be, and where sums are made."""
        begun = self._known_moments()
        for bundle in sorted(self.window.opened):
            ranks = {end for link in self._links[bundle, False] for end in (self._src[link], self._dst[link])}
            ranks |= self._wanted_at[bundle] | self._starts_at[bundle]
            for rank in sorted(ranks):
                self._moment((bundle, False), rank, begun)
                if self._is_reduced(bundle):
                    self._moment((bundle, True), rank, begun)
            if self._is_reduced(bundle):
                self._make_root(bundle)
        for bundle, rank in sorted(self._copy_cells):
            self._moment((bundle, False), rank, begun)
        for bundle in sorted({bundle for bundle, _ in self._sum_cells}):
            for rank in sorted({self._dst[link] for link in self._links[bundle, True]}):
                self._moment((bundle, True), rank, begun)

    def _known_moments(self) -> dict[tuple[Item, int], int]:
        """When items come in the known schedule."""
        moments: dict[tuple[Item, int], int] = defaultdict(int)
        counts = [len(decision.chunks) for decision in self.apart.decisions]
        for row in self.apart.rows:
            end = self._begin[row.send] + self._alpha[row.link] + self._cost[row.link] * counts[row.send]
            key = (row.bundle, row.is_sum), self._dst[row.link]
            moments[key] = max(moments[key], end)
        for bundle, root in self.apart.root.items():
            moments[(bundle, False), root] = moments[(bundle, True), root]
        return moments

    def _moment(self, item: Item, rank: int, begun: dict[tuple[Item, int], int]) -> None:
        if (item, rank) in self._at:
            return
        bundle, is_sum = item
        if not is_sum and not self._is_reduced(bundle) and rank in self._starts_at[bundle]:
            self._at[item, rank] = 0
            return
        self._at[item, rank] = moment = self.cp.new_int_var(0, self.last, "at")
        self._hint(moment, min(begun.get((item, rank), 0), self.last))

    def _make_root(self, bundle: int) -> None:
        now = self.apart.root.get(bundle)
        places = self._wanted_at[bundle] | ({now} if now is not None else set())
        for rank in sorted(places & self._starts_at[bundle]):
            self._root[bundle, rank] = literal = self._bool("root")
            if now is not None:
                self._hint(literal, rank == now)
            there, made = self._at[(bundle, False), rank], self._at[(bundle, True), rank]
            self.cp.add(there >= made).only_enforce_if(literal)
        self.cp.add_exactly_one(self._root[bundle, rank] for rank in places if (bundle, rank) in self._root)

    def _each_comes_once(self) -> None:
        for bundle in sorted(self.window.opened):
            copies = bundle, False
            ranks = sorted({rank for item, rank in self._at if item == copies})
            for rank in ranks:
                if isinstance(self._at[copies, rank], int):  # it starts there
                    continue
                into = list(self._into[copies, rank])
                if (bundle, rank) in self._root:
                    into.append(self._root[bundle, rank])
                if rank in self._wanted_at[bundle]:
                    self.cp.add_exactly_one(into)
                    continue
                self.cp.add_at_most_one(into)
                for literal in self._out_of[copies, rank]:
                    self.cp.add_bool_or(*into, literal.negated())
            if self._is_reduced(bundle):
                for rank in sorted(self._starts_at[bundle]):
                    made = [self._root[bundle, rank]] if (bundle, rank) in self._root else []
                    self.cp.add_exactly_one(*self._out_of[(bundle, True), rank], *made)
        for bundle, rank in sorted(self._copy_cells):
            into = self._into[(bundle, False), rank]
            if rank in self._wanted_at[bundle] or self._is_needed(bundle, rank):
                self.cp.add_exactly_one(into)
            else:
                self.cp.add_at_most_one(into)
                for literal in self._out_of[(bundle, False), rank]:
                    self.cp.add_bool_or(*into, literal.negated())
        for bundle, rank in sorted(self._sum_cells):
            self.cp.add_exactly_one(self._out_of[(bundle, True), rank])

    def _is_needed(self, bundle: int, rank: int) -> bool:
        """Whether a row that stays takes a bundle on from a rank."""
        return (bundle, rank) in self._taken_on

    @property
    def _taken_on(self) -> set[Cell]:
        if not hasattr(self, "_taken"):
            self._taken = {
                (row.bundle, self._src[row.link])
                for number, row in enumerate(self.apart.rows)
                if not row.is_sum and not self._is_open(number)
            }
        return self._taken

    def _each_is_there_before(self) -> None:
        sums_into: dict[Cell, list[Any]] = defaultdict(list)  # that stay, of trees
        ends: dict[int, Any] = {}  # of each row that stays
        for send in self._place.values():
            for row in send.kept:
                if row.is_sum and (row.bundle, self._src[row.link]) in self.apart.sink:
                    sums_into[row.bundle, self._dst[row.link]].append(send.end)
        for number, row in enumerate(self.apart.rows):
            if not self._is_open(number):
                ends[number] = self._place[row.send].end

        def gathered(bundle: int, rank: int) -> list[Any]:
            """What a rank of a tree waits for, or the one where it ends."""
            open_ones = self._at.get(((bundle, True), rank))
            return sums_into[bundle, rank] + ([] if open_ones is None else [open_ones])

        def all_of(needs: tuple[int, ...]) -> list[Any]:
            moments: list[Any] = []
            trees: set[Cell] = set()
            for need in needs:
                row = self.apart.rows[need]
                if row.is_sum and (row.bundle, self._src[row.link]) in self.apart.sink:
                    trees.add((row.bundle, self._dst[row.link]))
                elif need in ends:
                    moments.append(ends[need])
                else:
                    moments.append(self._at[(row.bundle, row.is_sum), self._dst[row.link]])
            return moments + [moment for cell in sorted(trees) for moment in gathered(*cell)]

        def there(bundle: int, rank: int) -> list[Any]:
            """What a copy of a bundle that leaves a rank waits for, where `_held` knows it."""
            if ((bundle, False), rank) in self._at:
                return [self._at[(bundle, False), rank]]
            if (bundle, rank) in self.apart.copy_into:
                return [ends[self.apart.copy_into[bundle, rank]]]
            return all_of(self.apart.made.get((bundle, rank), ()))

        for sending in self._place.values():
            for row in sending.kept:
                sender = self._src[row.link]
                if row.is_sum and (row.bundle, sender) in self.apart.sink:
                    waits = gathered(row.bundle, sender)
                elif not row.is_sum and self._held(row.bundle, sender):
                    waits = there(row.bundle, sender)
                else:
                    waits = all_of(row.needs)
                for moment in waits:
                    self.cp.add(sending.start >= moment)
        for (item, link), options in self._options.items():
            sender, receiver = self._src[link], self._dst[link]
            opened = item[0] in self.window.opened
            if opened:
                waits = [self._at[item, sender]]
            else:
                waits = gathered(item[0], sender) if item[1] else there(item[0], sender)
            for literal, sending in options:
                for moment in waits:
                    self.cp.add(sending.start >= moment).only_enforce_if(literal)
                if (item, receiver) in self._at:
                    self.cp.add(self._at[item, receiver] >= sending.end).only_enforce_if(literal)

    def _ports_serve_one_at_a_time(self) -> None:
        topology = self.apart.problem.topology
        on_link: dict[int, list[Sending]] = defaultdict(list)
        number_of = {id(sending): number for number, sending in self._place.items()}
        for sending in self.sendings:
            on_link[sending.link].append(sending)
        for links, pairs in zip(topology.port_links, topology.port_pairs, strict=True):
            intervals, staying, loose = [], [], False
            for link, pair in zip(links, pairs.tolist(), strict=True):
                cost = self._pair_cost[pair]
                for sending in on_link[link]:
                    busy = (self._alpha[link] if self._serial else 0) + cost * sending.count
                    if isinstance(busy, int) and not busy:
                        continue
                    intervals.append(self._interval(sending, busy))
                    number = number_of.get(id(sending))
                    if number is None or number in self.window.movable:
                        loose = True
                    else:
                        staying.append((self._begin[number], number, sending, busy))
            staying.sort(key=lambda each: each[:2])
            for (_, _, one, busy), (_, _, other, _) in itertools.pairwise(staying):
                self.cp.add(other.start >= one.start + busy)
            if loose and len(intervals) > 1:
                self.cp.add_no_overlap(intervals)

    def _interval(self, sending: Sending, busy: Any) -> Any:
        if isinstance(busy, int):
            if sending.active is None:
                return self.cp.new_fixed_size_interval_var(sending.start, busy, "i")
            return self.cp.new_optional_fixed_size_interval_var(sending.start, busy, sending.active, "i")
        end = self.cp.new_int_var(0, self.last, "f")
        if sending.active is None:
            return self.cp.new_interval_var(sending.start, busy, end, "i")
        return self.cp.new_optional_interval_var(sending.start, busy, end, sending.active, "i")

    def _own_chunks_go_first(self) -> None:
        if self._own_first is None:
            return
        owner = self.apart.problem.collective.owner

        def is_own(bundle: int, link: int) -> bool:
            return bool(owner[self.apart.bundles[bundle][0]] == self._src[link])

        last: dict[int, Any] = {}
        copies: list[tuple[bool, int, Any, Sending]] = []
        for sending in self.sendings:
            if not self._own_first[sending.link]:
                continue
            if sending.kept and not sending.kept[0].is_sum:
                own = any(is_own(row.bundle, sending.link) for row in sending.kept)
                copies.append((own, sending.link, None, sending))
            for (bundle, is_sum), literal in sending.members.items():
                if not is_sum:
                    copies.append((is_own(bundle, sending.link), sending.link, literal, sending))
        for own, link, literal, sending in copies:
            if own:
                bound = last.setdefault(link, self.cp.new_int_var(0, self.last, "own"))
                rule = self.cp.add(bound >= sending.end)
                if literal is not None:
                    rule.only_enforce_if(literal)
        for own, link, literal, sending in copies:
            if not own and link in last:
                rule = self.cp.add(sending.start >= last[link])
                if literal is not None:
                    rule.only_enforce_if(literal)

    def _ends(self) -> None:
        late = []
        counted = len(self.sendings) <= _MOST_COUNTED
        for sending in self.sendings:
            rule = self.cp.add(self.finish >= sending.end)
            if sending.active is not None:
                rule.only_enforce_if(sending.active)
            if counted:
                literal = self._bool("late")
                on_time = [literal.negated()] + ([] if sending.active is None else [sending.active])
                self.cp.add(sending.end <= self.last - 1).only_enforce_if(on_time)
                late.append(literal)
        self._hint(self.finish, self.last)
        self.late = sum(late) if late else 0
        self.cp.minimize(self.finish * (len(late) + 1) + self.late)

    # Solutions.

    def decisions(self, value: Callable[[Any], int]) -> list[Decision]:
        """The sends that a solution says, in the order of their starts."""
        taken: list[tuple[int, int, int, list[tuple[int, bool, int]]]] = []
        for number, sending in enumerate(self.sendings):
            carries = [(row.bundle, row.is_sum, row.carried) for row in sending.kept]
            carries += [
                (bundle, is_sum, 0) for (bundle, is_sum), literal in sending.members.items() if value(literal)
            ]
            if carries:
                taken.append((value(sending.start), number, sending.link, carries))
        taken.sort(key=lambda each: each[:2])
        sets = self._sets(taken) if self.apart.explicit else {}
        return [self._decision(link, carries, sets) for _, _, link, carries in taken]

    def _decision(self, link: int, carries: list[tuple[int, bool, int]], sets: dict[Cell, int]) -> Decision:
        chunks = tuple(chunk for bundle, _, _ in carries for chunk in self.apart.bundles[bundle])
        if not self.apart.explicit:
            return Decision(chunks, link, carries[0][1])
        sums = tuple(
            (sets.get((bundle, self._src[link]), carried) if is_sum else 0)
            for bundle, is_sum, carried in carries
            for _ in self.apart.bundles[bundle]
        )
        return Decision(chunks, link, any(sums), sums)

    def _sets(self, taken: list[tuple[int, int, int, list[tuple[int, bool, int]]]]) -> dict[Cell, int]:
        """What each rank of a tree passes on: it may have changed."""
        held: dict[Cell, int] = {}
        for _, _, link, carries in taken:
            for bundle, is_sum, _ in carries:
                sender, receiver = (bundle, self._src[link]), (bundle, self._dst[link])
                if is_sum and (bundle in self.window.opened or sender in self.apart.sink):
                    held.setdefault(sender, 1 << sender[1])
                    held[receiver] = held.get(receiver, 1 << receiver[1]) | held[sender]
        return {cell: held[cell] for cell in held if cell[0] in self.window.opened or cell in self.apart.sink}
