"""For whom the rules of a window's model are, and those that only a neighbourhood has.

What stays keeps its order on each port, and of solutions that end at the same time those are better in which
fewer sends end last.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from taccl.encoding.engines.lns.apart import Cell
from taccl.encoding.engines.lns.sends import KnownSend
from taccl.encoding.engines.lns.tuning import RULES_MOST_COUNTED
from taccl.encoding.engines.lns.window import Item, Neighbourhood
from taccl.encoding.sending_model import ports, rules
from taccl.encoding.sending_model.sends import Option, SendingModel, only_if


def copies_come_once_and_sums_leave_once(model: SendingModel[Item], around: Neighbourhood) -> None:
    """Received once, held first and passed on once, wherever something is open."""
    elsewhere: set[Cell] = set()
    comes = {(bundle, rank) for (bundle, is_sum), rank in model.at if not is_sum}
    for bundle, rank in sorted(comes):
        if isinstance(model.at[(bundle, False), rank], int):  # where it starts, nothing comes
            continue
        is_needed = rank in around.wanted_at[bundle] or (bundle, rank) in around.taken_on
        rules.an_item_comes_once(model, (bundle, False), rank, is_needed, _made_at(model, bundle, rank))
        if not is_needed:
            elsewhere.add((bundle, rank))
    for (bundle, is_sum), link in model.options:
        cell = bundle, around.src[link]
        if not is_sum and cell in elsewhere:
            rules.an_item_is_held_before_it_is_sent(model, (bundle, False), link, _made_at(model, *cell))
    leaves = {
        (bundle, rank)
        for bundle in around.window.opened
        for rank in (around.starts_at[bundle] if around.is_reduced(bundle) else ())
    }
    for bundle, rank in sorted(leaves | around.sum_cells):
        rules.a_sum_leaves_once(model, (bundle, True), rank, _made_at(model, bundle, rank))


def _made_at(model: SendingModel[Item], bundle: int, rank: int) -> list[Any]:
    root = model.root.get((bundle, rank))
    return [] if root is None else [root]


def ports_serve_one_at_a_time(
    model: SendingModel[Item], around: Neighbourhood, sends: Sequence[KnownSend], begins: Sequence[int]
) -> None:
    """Ports: what may move goes anywhere between the others, which keep their order."""
    in_place = {
        known.send: (begins[known.was], known.was)
        for known in sends
        if known.was is not None and known.kept and known.was not in around.window.movable
    }
    for uses in ports.uses_of_ports(model):
        ordered = sorted(
            ((send, pair) for send, pair in uses if send in in_place), key=lambda use: in_place[use[0]]
        )
        for (before, pair), (after, _) in itertools.pairwise(ordered):
            model.cp.add(after.start >= before.start + model.clock.busy(pair, before.counts))
        if len(ordered) < len(uses):
            ports.a_port_serves_one_at_a_time(model, uses)


def own_chunks_go_first(model: SendingModel[Item], around: Neighbourhood, sends: Sequence[KnownSend]) -> None:
    """Own first: over links where the sketch says so."""
    own_first, owner = model.problem.limits.own_first, model.problem.collective.owner
    if own_first is None:
        return
    own: list[Option[Item]] = []
    others: list[Option[Item]] = []

    def is_own(bundle: int, link: int) -> bool:
        return bool(owner[around.apart.bundles[bundle][0]] == around.src[link])

    for known in (known for known in sends if own_first[known.send.link]):
        link, members = known.send.link, known.send.members
        kept = [is_own(row.bundle, link) for row in known.kept if not row.is_sum]
        if kept:
            (own if any(kept) else others).append((None, known.send))
        for (bundle, is_sum), literal in members.items():
            if not is_sum:
                (own if is_own(bundle, link) else others).append((literal, known.send))
    rules.own_chunks_go_first(model, own, others)


def everything_ends_in_time(
    model: SendingModel[Item], around: Neighbourhood, sends: Sequence[KnownSend]
) -> list[Any]:
    """The end: after every send. Returns whether each ends no earlier than the known schedule.

    Of very many sends none is requested.
    """
    late = []
    for known in sends:
        send, done = known.send, _done(model, around, known)
        only_if(model.cp.add(model.finish >= done), send.active)
        if len(sends) <= RULES_MOST_COUNTED:
            literal = model.cp.new_bool_var("late")
            in_time = [literal.negated()] + ([] if send.active is None else [send.active])
            model.cp.add(done <= model.clock.last - 1).only_enforce_if(in_time)
            late.append(literal)
    return late


def _done(model: SendingModel[Item], around: Neighbourhood, known: KnownSend) -> Any:
    """When a send has ended, and what follows what it brings."""
    send, receiver = known.send, around.dst[known.send.link]

    def tail(bundle: int) -> int:
        return model.tails.get((around.apart.bundles[bundle][0], receiver), 0)

    kept = max((tail(row.bundle) for row in known.kept), default=0)
    joining = {literal: tail(bundle) for (bundle, _), literal in send.members.items()}
    if len(joining) == 1 and not known.kept:
        return send.end + sum(joining.values())
    if not any(each > kept for each in joining.values()):
        return send.end + kept
    done = model.cp.new_int_var(0, model.clock.last, "d")
    model.cp.add(done >= send.end + kept)
    for literal, each in joining.items():
        if each > kept:
            model.cp.add(done >= send.end + each).only_enforce_if(literal)
    return done
