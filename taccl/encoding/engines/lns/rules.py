"""The rules of a window's model, one constraint family each (`model` has the equations).

Who goes first on a port, what comes once, and how long sends take; what waits for what is in `presence`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from taccl.encoding.engines.lns.apart import Cell
from taccl.encoding.engines.lns.sends import Sending
from taccl.encoding.engines.lns.tuning import RULES_MOST_COUNTED
from taccl.encoding.engines.lns.variables import Variables


def a_send_lasts_as_long_as_its_chunks_take(variables: Variables, sending: Sending) -> None:
    """Duration: alpha and n betas, for the n chunks of what stays in it and of what joins."""
    cp, around = variables.cp, variables.around
    kept = sum(len(around.apart.bundles[row.bundle]) for row in sending.kept)
    joining = sum(around.width(item) * literal for item, literal in sending.members.items())
    cp.add(sending.count == kept + joining)
    ends = sending.start + variables.clock.duration(sending.link, sending.count)
    _if(cp.add(sending.end == ends), sending.active)


def a_send_has_a_bundle_once(variables: Variables, sending: Sending) -> None:
    """One kind: as a copy or as a partial sum. Only where sums are named can both be members."""
    for (bundle, is_sum), literal in sending.members.items():
        copy = sending.members.get((bundle, False))
        if is_sum and copy is not None:
            variables.cp.add_at_most_one(literal, copy)


def a_shared_send_has_several_items(variables: Variables, sending: Sending) -> None:
    """Shared: at least two, for one alone has its own send; what stays needs no company."""
    if sending.active is None:
        return
    members = list(sending.members.values())
    for literal in members:
        variables.cp.add_implication(literal, sending.active)
    variables.cp.add(sum(members) >= 2).only_enforce_if(sending.active)


def a_sum_is_made_at_one_rank(variables: Variables, bundle: int) -> None:
    """One root: there the whole sum is a copy as soon as all parts have come."""
    around, at, root = variables.around, variables.moments.at, variables.moments.root
    places = around.root_candidates(bundle)
    for rank in sorted(places & around.starts_at[bundle]):
        rule = variables.cp.add(at[(bundle, False), rank] >= at[(bundle, True), rank])
        rule.only_enforce_if(root[bundle, rank])
    variables.cp.add_exactly_one(root[bundle, rank] for rank in places if (bundle, rank) in root)


def copies_come_once_and_sums_leave_once(variables: Variables) -> None:
    """Received once, held first and passed on once, wherever something is open."""
    around, at = variables.around, variables.moments.at
    for bundle in sorted(around.window.opened):
        for rank in sorted(rank for item, rank in at if item == (bundle, False)):
            if not isinstance(at[(bundle, False), rank], int):  # where it starts, nothing comes
                _comes_once(variables, (bundle, rank))
        if around.is_reduced(bundle):
            for rank in sorted(around.starts_at[bundle]):
                _leaves_once(variables, (bundle, rank))
    for cell in sorted(around.copy_cells):
        _comes_once(variables, cell)
    for cell in sorted(around.sum_cells):
        _leaves_once(variables, cell)


def _comes_once(variables: Variables, cell: Cell) -> None:
    """A copy comes to a rank once, or is made there, if it is wanted there or anything takes it on."""
    (bundle, rank), cp, sends = cell, variables.cp, variables.sends
    routes = [*sends.into.get(((bundle, False), rank), ()), *_made_at(variables, cell)]
    if rank in variables.around.wanted_at[bundle] or cell in variables.around.taken_on:
        cp.add_exactly_one(routes)
        return
    cp.add_at_most_one(routes)
    for literal in sends.out_of.get(((bundle, False), rank), ()):
        cp.add_bool_or(*routes, literal.negated())


def _leaves_once(variables: Variables, cell: Cell) -> None:
    """A partial sum leaves a rank once, unless the whole is made there."""
    bundle, rank = cell
    routes = variables.sends.out_of.get(((bundle, True), rank), ())
    variables.cp.add_exactly_one(*routes, *_made_at(variables, cell))


def _made_at(variables: Variables, cell: Cell) -> list[Any]:
    root = variables.moments.root
    return [root[cell]] if cell in root else []


def ports_serve_one_at_a_time(variables: Variables) -> None:
    """Ports: what may move goes anywhere between the others, which keep their order."""
    topology = variables.around.apart.problem.topology
    on_link: dict[int, list[Sending]] = defaultdict(list)
    for sending in variables.sends.every:
        on_link[sending.link].append(sending)
    for links, pairs in zip(topology.port_links, topology.port_pairs, strict=True):
        uses = [
            (sending, variables.clock.busy(link, pair, sending.count))
            for link, pair in zip(links, pairs.tolist(), strict=True)
            for sending in on_link[link]
        ]
        uses = [(sending, busy) for sending, busy in uses if not isinstance(busy, int) or busy]
        intervals = [_interval(variables, sending, busy) for sending, busy in uses]
        in_order = _in_known_order(variables, uses)
        for (before, busy), (after, _) in itertools.pairwise(in_order):
            variables.cp.add(after.start >= before.start + busy)
        if len(uses) > 1 and len(in_order) < len(uses):
            variables.cp.add_no_overlap(intervals)


def _in_known_order(variables: Variables, uses: list[tuple[Sending, Any]]) -> list[tuple[Sending, Any]]:
    """Those uses of a port that keep their places, in the order of the known schedule."""
    begins, movable = variables.clock.begins, variables.around.window.movable
    placed = [
        (begins[sending.was], sending.was, sending, busy)
        for sending, busy in uses
        if sending.was is not None and sending.kept and sending.was not in movable
    ]
    return [(sending, busy) for _, _, sending, busy in sorted(placed, key=lambda each: each[:2])]


def _interval(variables: Variables, sending: Sending, busy: Any) -> Any:
    cp, start, active = variables.cp, sending.start, sending.active
    if isinstance(busy, int):
        if active is None:
            return cp.new_fixed_size_interval_var(start, busy, "i")
        return cp.new_optional_fixed_size_interval_var(start, busy, active, "i")
    end = cp.new_int_var(0, variables.clock.last, "f")
    if active is None:
        return cp.new_interval_var(start, busy, end, "i")
    return cp.new_optional_interval_var(start, busy, end, active, "i")


def own_chunks_go_first(variables: Variables) -> None:
    """Own first: over links where the sketch says so, the sender's own chunks end before any other starts."""
    cp, last = variables.cp, variables.clock.last
    own_end: dict[int, Any] = {}
    copies = list(_copies_in_turn(variables))
    for is_own, literal, sending in copies:
        if is_own:
            end = own_end.setdefault(sending.link, cp.new_int_var(0, last, "own"))
            _if(cp.add(end >= sending.end), literal)
    for is_own, literal, sending in copies:
        if not is_own and sending.link in own_end:
            _if(cp.add(sending.start >= own_end[sending.link]), literal)


def _copies_in_turn(variables: Variables) -> Iterator[tuple[bool, Any, Sending]]:
    """Of sends over links with that rule: whether copies are own ones, whether they go (None: they do)."""
    problem, around = variables.around.apart.problem, variables.around
    own_first, owner = problem.limits.own_first, problem.collective.owner
    if own_first is None:
        return
    for sending in variables.sends.every:
        if not own_first[sending.link]:
            continue
        sender = around.src[sending.link]
        if sending.kept and not sending.kept[0].is_sum:
            bundles = [row.bundle for row in sending.kept]
            is_own = any(owner[around.apart.bundles[bundle][0]] == sender for bundle in bundles)
            yield is_own, None, sending
        for (bundle, is_sum), literal in sending.members.items():
            if not is_sum:
                yield bool(owner[around.apart.bundles[bundle][0]] == sender), literal, sending


def everything_ends_in_time(variables: Variables) -> list[Any]:
    """The end: after every send. Returns whether each ends no earlier than the known schedule.

    Of very many sends none is requested.
    """
    cp, late = variables.cp, []
    is_counted = len(variables.sends.every) <= RULES_MOST_COUNTED
    for sending in variables.sends.every:
        _if(cp.add(variables.finish >= sending.end), sending.active)
        if is_counted:
            literal = cp.new_bool_var("late")
            in_time = [literal.negated()] + ([] if sending.active is None else [sending.active])
            cp.add(sending.end <= variables.clock.last - 1).only_enforce_if(in_time)
            late.append(literal)
    return late


def _if(rule: Any, literal: Any) -> None:
    """The rule holds if the literal does; None: always."""
    if literal is not None:
        rule.only_enforce_if(literal)
