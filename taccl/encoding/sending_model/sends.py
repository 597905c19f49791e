"""The variables of a model: sends that items may have alone or share, and when items are where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from taccl.encoding.core.grouping import one_by_one
from taccl.encoding.sending_model.clock import Counts, TickClock
from taccl.model.problem import Problem

ItemT = TypeVar("ItemT", bound=Hashable)


class Weight(NamedTuple):
    """What an item is for a send: `times` of one size, which are `chunks` chunks of a group."""

    size: int
    times: int = 1
    chunks: int = 1


@dataclass(frozen=True, eq=False)
class Send(Generic[ItemT]):
    """A send that may take place.

    Parameters
    ----------
    link : over which it goes.
    start, end : ticks.
    active : whether it takes place; None: in every solution.
    members : of each item that may be in it, whether it is.
    counts : how many of each size are in it, with what is in it in every solution.
    """

    link: int
    start: Any
    end: Any
    active: Any
    members: Mapping[ItemT, Any]
    counts: Counts

    @property
    def is_shared(self) -> bool:
        """Whether several items may be in it."""
        return len(self.members) > 1


#: That an item goes over a link, and the send in which it does.
Option = tuple[Any, Send[ItemT]]


class SendingModel(Generic[ItemT]):
    """A model that is being written down, and the keys to read it by.

    Parameters
    ----------
    problem, clock : what is sent, and durations.
    least : no solution lasts less than this many ticks.
    weight : of each item.

    Attributes
    ----------
    cp : what CP-SAT is given.
    finish : when everything has ended.
    sends_on : of each link its sends; where a symmetry holds, an image of a send is the send itself.
    options : of each item and link, the sends in which the item may go there.
    into, out_of : the same literals, by item and rank to which they bring it, or from which they take it.
    ready, tails : the moments of late inputs, and what follows outputs, by chunk and rank, in ticks.
    at : of each item and rank, when it is there.
    root : of each chunk and rank, whether its sum is made there.
    """

    def __init__(
        self, problem: Problem, clock: TickClock, weight: Callable[[ItemT], Weight], least: int = 0
    ) -> None:
        from ortools.sat.python import cp_model  # takes half a second, which other searches need not wait

        self.problem, self.clock, self.weight = problem, clock, weight
        self.cp = cp_model.CpModel()
        topology = problem.topology
        self.src: list[int] = topology.src.tolist()
        self.dst: list[int] = topology.dst.tolist()
        self._goes_one_by_one: list[bool] = one_by_one(topology).tolist()
        self.finish = self.cp.new_int_var(min(least, clock.last), clock.last, "T")
        self.sends_on: list[list[Send[ItemT]]] = [[] for _ in range(topology.num_links)]
        self.options: dict[tuple[ItemT, int], list[Option[ItemT]]] = {}
        self.into: dict[tuple[ItemT, int], list[Any]] = defaultdict(list)
        self.out_of: dict[tuple[ItemT, int], list[Any]] = defaultdict(list)
        self.ready, self.tails = clock.moments(problem.ready_at), clock.moments(problem.tail_at)
        self.at: dict[tuple[ItemT, int], Any] = {}
        self.root: dict[tuple[int, int], Any] = {}
        self._intervals: dict[tuple[Send[ItemT], tuple[int, ...]], Any] = {}

    def may_share(self, link: int) -> bool:
        """Whether a send of several items can be of use on a link (`core.grouping`)."""
        return self.problem.max_group > 1 and not self._goes_one_by_one[link]

    def own_send(self, item: ItemT, link: int, first: int, last: int, active: Any = None) -> Send[ItemT]:
        """A send of one item that starts from tick `first` to tick `last`; `active` is its literal."""
        literal = self.cp.new_bool_var(f"x{item},{link}") if active is None else active
        weight = self.weight(item)
        counts = {weight.size: weight.times}
        start = self.cp.new_int_var(first, last, f"s{item},{link}")
        return Send(link, start, start + self.clock.duration(link, counts), literal, {item: literal}, counts)

    def members(self, items: Iterable[ItemT], name: str) -> dict[ItemT, Any]:
        """A literal for each item, whether it is in a send of that name."""
        return {item: self.cp.new_bool_var(f"in{item},{name}") for item in items}

    def counts(self, members: Mapping[ItemT, Any], most: int, kept: Iterable[Weight] = ()) -> Counts:
        """How many of each size are in a send of at most `most` chunks, with what stays in it."""
        terms: dict[int, list[Any]] = defaultdict(list)
        chunks: list[tuple[int, Any]] = []
        for weight, literal in (
            *((weight, 1) for weight in kept),
            *((self.weight(item), literal) for item, literal in members.items()),
        ):
            terms[weight.size].append(weight.times * literal)
            chunks.append((weight.chunks, literal))
        if members and sum(each for each, _ in chunks) > most:
            self.cp.add(sum(each * literal for each, literal in chunks) <= most)
        return {size: sum(several) for size, several in terms.items()}

    def shared_send(
        self, link: int, members: Mapping[ItemT, Any], active: Any, counts: Counts, first: int, last: int
    ) -> Send[ItemT]:
        """A send of several items that starts from tick `first` to tick `last`."""
        start = self.cp.new_int_var(first, last, f"S{link}")
        duration = self.clock.duration(link, counts)
        if isinstance(duration, int):
            return Send(link, start, start + duration, active, members, counts)
        end = self.cp.new_int_var(0, self.clock.last, f"E{link}")
        only_if(self.cp.add(end == start + duration), active)
        return Send(link, start, end, active, members, counts)

    def offer(self, item: ItemT, link: int, options: list[Option[ItemT]]) -> None:
        """Note in which sends an item may go over a link."""
        self.options[item, link] = options
        literals = [literal for literal, _ in options]
        self.into[item, self.dst[link]] += literals
        self.out_of[item, self.src[link]] += literals

    def use(self, item: ItemT, link: int) -> Any:
        """Whether an item goes over a link."""
        return sum(literal for literal, _ in self.options[item, link])

    def load(self, send: Send[ItemT], pair: int) -> Any:
        """Ticks for which a send keeps the port of a pair busy, if it is made."""
        busy = self.clock.busy(pair, send.counts)
        if send.active is None:
            return busy
        if isinstance(busy, int):
            return busy * send.active
        alpha = self.clock.busy(pair, {})
        return alpha * send.active + busy - alpha

    def interval(self, send: Send[ItemT], pair: int) -> Any:
        """When a send keeps the port of a pair busy."""
        key = send, self.clock.costs_of(pair, send.counts)
        if key not in self._intervals:
            self._intervals[key] = self._interval(send, pair)
        return self._intervals[key]

    def _interval(self, send: Send[ItemT], pair: int) -> Any:
        cp, busy = self.cp, self.clock.busy(pair, send.counts)
        if isinstance(busy, int):
            if send.active is None:
                return cp.new_fixed_size_interval_var(send.start, busy, "i")
            return cp.new_optional_fixed_size_interval_var(send.start, busy, send.active, "i")
        size = cp.new_int_var(0, self.clock.last, "n")
        if self.clock.is_as_slow_as_its_link(pair, send.counts):
            end = send.end - (0 if self.clock.is_serial else self.clock.alpha[send.link])
        else:
            end = cp.new_int_var(0, self.clock.last, "e")
            only_if(cp.add(size == busy), send.active)
        busy = size
        if send.active is None:
            return cp.new_interval_var(send.start, busy, end, "i")
        return cp.new_optional_interval_var(send.start, busy, end, send.active, "i")


def only_if(rule: Any, literal: Any) -> None:
    """The rule holds if the literal does; None: always."""
    if literal is not None:
        rule.only_enforce_if(literal)
