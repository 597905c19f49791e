"""Rules of ports: one send at a time, no more than there is time for, and whole items of that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from taccl.encoding.sending_model.sends import ItemT, Send, SendingModel

#: Ticks that belong to an item at a rank.
Moment = Callable[[ItemT, int], int]
#: The sends that keep a port busy, each with the pair of its link and the port.
Uses = Sequence[tuple[Send[Any], int]]


def uses_of_ports(model: SendingModel[ItemT]) -> list[Uses]:
    """For each port what keeps it busy; of ports with the same uses, only the first.

    A send that counts on a port for no time is in nobody's way.
    """
    topology, clock = model.problem.topology, model.clock
    seen: set[frozenset[tuple[Send[ItemT], tuple[int, ...]]]] = set()
    found: list[Uses] = []
    for links, pairs in zip(topology.port_links, topology.port_pairs, strict=True):
        uses: dict[tuple[Send[ItemT], tuple[int, ...]], int] = {}
        for link, pair in zip(links, pairs.tolist(), strict=True):
            for send in model.sends_on[link] if clock.counts_on[pair] else ():
                costs = clock.costs_of(pair, send.counts)
                if any(costs):
                    uses.setdefault((send, costs), pair)
        signature = frozenset(uses)
        if uses and signature not in seen:
            seen.add(signature)
            found.append([(send, pair) for (send, _), pair in uses.items()])
    return found


def a_port_serves_one_at_a_time(model: SendingModel[ItemT], uses: Uses) -> None:
    """Ports: what keeps a port busy does not overlap."""
    if len(uses) > 1:
        model.cp.add_no_overlap([model.interval(send, pair) for send, pair in uses])


def a_port_has_time_for_all(model: SendingModel[ItemT], uses: Uses, idle: int = 0) -> None:
    """What a port carries takes no longer than all; if it carries anything, it is `idle` for so long.

    It follows from the rule before, and is for the linear relaxation, which sees loads and nothing else.
    """
    load = sum(model.load(send, pair) for send, pair in uses)
    if idle:
        used = model.cp.new_bool_var("p")
        for send, _ in uses:
            model.cp.add_implication(send.active, used)
        load += idle * used
    model.cp.add(load <= model.finish)


def idle_ticks(model: SendingModel[ItemT], uses: Uses, head: Moment[ItemT], tail: Moment[ItemT]) -> int:
    """For how long a port that carries anything is idle: before the first can come, and after the last.

    `head` and `tail` say what lies at least before an item is at a rank, and after it came there.
    """
    clock, before, after = model.clock, [], []
    for send, pair in uses:
        for item in send.members:
            counts = {model.weight(item).size: model.weight(item).times}
            before.append(head(item, model.src[send.link]))
            beyond = clock.duration(send.link, counts) - clock.busy(pair, counts)
            after.append(beyond + tail(item, model.dst[send.link]))
    return min(before, default=0) + min(after, default=0)


def whole_items_fit_a_port(model: SendingModel[ItemT], uses: Uses, idle: int) -> None:
    """How many items a port has time for: a whole number, which CP-SAT does not see by itself."""
    clock = model.clock
    costs: list[tuple[Any, int]] = []
    of_each: dict[tuple[ItemT, int], int] = {}
    for send, pair in uses:
        for item, literal in send.members.items():
            size, times, _ = model.weight(item)
            cost = times * clock.port_cost[size][pair]
            costs.append((literal, cost))
            of_each[item, pair] = cost
    unit = math.gcd(*of_each.values())
    if not unit:
        return
    alpha = min(clock.alpha[send.link] for send, _ in uses) if clock.is_serial else 0
    room = max(0, clock.last - idle - alpha) // unit
    if sum(of_each.values()) // unit > room:
        model.cp.add(sum(cost // unit * literal for literal, cost in costs) <= room)
