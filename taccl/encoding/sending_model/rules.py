"""The rules of a model, one constraint family each (the package has the equations); `ports` has others.

Each is a function of the model and of that for which it holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from taccl.encoding.sending_model.sends import ItemT, Option, Send, SendingModel, only_if


def a_shared_send_has_several_items(
    model: SendingModel[ItemT], members: Mapping[ItemT, Any], active: Any, least: int = 2
) -> None:
    """Shared: at least two, for one alone has its own send; and none where it does not take place."""
    model.cp.add(sum(members.values()) >= least).only_enforce_if(active)
    model.cp.add(sum(members.values()) == 0).only_enforce_if(active.negated())


def shared_sends_start_in_order(model: SendingModel[ItemT], sends: Sequence[Send[ItemT]]) -> None:
    """Sends of one link that may have the same items: the second starts after the first has its ports.

    With `pipelined` that is before the first has come.
    """
    for one, other in itertools.pairwise(sends):
        model.cp.add_implication(other.active, one.active)
        model.cp.add(ports_are_free(model, one) <= other.start).only_enforce_if(other.active)


def ports_are_free(model: SendingModel[ItemT], send: Send[ItemT]) -> Any:
    """From when on another send over the same link may start, if it starts later.

    The slowest port of a link is as slow as the link.
    """
    topology, clock = model.problem.topology, model.clock
    first = int(topology.first_pair[send.link])
    if not any(clock.counts_on[first : first + len(topology.ports[send.link])]):
        return send.start
    return send.end - (0 if clock.is_serial else clock.alpha[send.link])


def an_item_comes_once(
    model: SendingModel[ItemT], item: ItemT, rank: int, is_needed: bool, made: Sequence[Any] = ()
) -> None:
    """Received once: a copy comes to a rank, or is made there, if it is needed there, else at most once.

    What a send brings is that send, so this is also what makes an item have one send over a link.
    """
    arrivals = [*model.into.get((item, rank), ()), *made]
    if is_needed:
        model.cp.add_exactly_one(arrivals)
    else:
        model.cp.add_at_most_one(arrivals)


def an_item_is_held_before_it_is_sent(
    model: SendingModel[ItemT], item: ItemT, link: int, made: Sequence[Any] = ()
) -> None:
    """Held first: an item that goes over a link has come to its sender, or was made there."""
    arrivals = [*model.into.get((item, model.src[link]), ()), *made]
    model.cp.add(model.use(item, link) <= sum(arrivals))


def an_item_takes_one_path(model: SendingModel[ItemT], item: ItemT, rank: int, end: str) -> None:
    """Of an item that one rank wants no more leave a rank than come to it.

    `end` : "start", "goal", or empty for a rank between them.
    Without this, CP-SAT's linear relaxation copies fractions of it until they add up to one.
    """
    out = model.out_of.get((item, rank), ())
    if end == "start":
        model.cp.add_at_most_one(out)
    elif out:
        into = 0 if end == "goal" else sum(model.into.get((item, rank), ()))
        model.cp.add(sum(out) <= into)


def a_sum_leaves_once(model: SendingModel[ItemT], item: ItemT, rank: int, made: Sequence[Any]) -> None:
    """Passed on once: a partial sum leaves a rank once, unless the whole is made there."""
    model.cp.add_exactly_one([*model.out_of.get((item, rank), ()), *made])


def a_helper_passes_on_the_sum_that_it_has(
    model: SendingModel[ItemT], item: ItemT, rank: int, made: Sequence[Any]
) -> None:
    """Helpers: without a contribution of its own, a rank has of a partial sum what comes, if any does.

        sum over l out of r of use[i, l] + root[r]  <=  1
        use[i, k]  <=  sum over l out of r of use[i, l] + root[r]  <=  sum over l into r of use[i, l]

    for each link k into r.
    """
    into, leaves = model.into.get((item, rank), ()), [*model.out_of.get((item, rank), ()), *made]
    model.cp.add_at_most_one(leaves)
    model.cp.add(sum(leaves) <= sum(into))
    for arrival in into:
        model.cp.add(arrival <= sum(leaves))


def a_rank_that_may_not_sum_has_one_part(
    model: SendingModel[ItemT], item: ItemT, rank: int, has_its_own: bool
) -> None:
    """No sums: sum over l into r of use[i, l] <= 1, and 0 where r has a contribution of its own."""
    model.cp.add(sum(model.into.get((item, rank), ())) <= 1 - has_its_own)


def a_rank_that_may_not_copy_has_one_use(
    model: SendingModel[ItemT], item: ItemT, rank: int, keeps_it: bool
) -> None:
    """No copies: sum over l out of r of use[i, l] <= 1, and 0 where r wants i itself."""
    model.cp.add(sum(model.out_of.get((item, rank), ())) <= 1 - keeps_it)


def a_sum_is_made_at_one_rank(
    model: SendingModel[ItemT], chunk: int, copy: ItemT, parts: ItemT, ranks: Iterable[int]
) -> None:
    """One root: there the whole sum is a copy as soon as all parts have come."""
    roots = {rank: model.root[chunk, rank] for rank in ranks}
    for rank, root in roots.items():
        model.cp.add(model.at[copy, rank] >= model.at[parts, rank]).only_enforce_if(root)
    model.cp.add_exactly_one(roots.values())


def sends_start_when_their_items_are_there(
    model: SendingModel[ItemT], item: ItemT, link: int, needed: Iterable[Any] | None = None
) -> None:
    """Presence: an item is where a link begins before it is sent there, and comes when the send has ended.

    `needed` : the moments for which it waits, if not the one at which it is at the sender.
    """
    cp, brought = model.cp, model.at.get((item, model.dst[link]))
    waits = [model.at[item, model.src[link]]] if needed is None else list(needed)
    for literal, send in model.options[item, link]:
        for moment in waits:
            cp.add(send.start >= moment).only_enforce_if(literal)
        if brought is not None:
            cp.add(brought >= send.end).only_enforce_if(literal)


def own_chunks_go_first(
    model: SendingModel[ItemT], own: Collection[Option[ItemT]], others: Collection[Option[ItemT]]
) -> None:
    """Own first: over each link the copies of its sender's own chunks end before any other starts.

    Both are the copies that go over links with that rule; of those that go in any case the literal is None.
    """
    own_end: dict[int, Any] = {}
    for literal, send in own:
        if send.link not in own_end:
            own_end[send.link] = model.cp.new_int_var(0, model.clock.last, f"own{send.link}")
        only_if(model.cp.add(own_end[send.link] >= send.end), literal)
    for literal, send in others:
        if send.link in own_end:
            only_if(model.cp.add(send.start >= own_end[send.link]), literal)


def all_that_is_wanted_has_come(
    model: SendingModel[ItemT], cells: Iterable[tuple[ItemT, int]], tails: Mapping[tuple[ItemT, int], int]
) -> None:
    """The end: every wanted item is there, and what follows it has ended."""
    ends: dict[tuple[bool, int, int], Any] = {}
    for cell in cells:
        end, tail = model.at[cell], tails.get(cell, 0)
        is_constant = isinstance(end, int)
        ends[is_constant, end if is_constant else end.index, tail] = end + tail
    for end in ends.values():
        model.cp.add(model.finish >= end)
