"""Symmetries of a sketch: from [offset, group] to permutations of ranks, and the check that they are.

A symmetry must be an automorphism of everything that an engine sees: the node structure, the links
and their costs, which links share which ports, the limits, and the collective. An engine then needs
one variable for each orbit of (chunk, link).
"""

from __future__ import annotations

import math

import numpy as np

from taccl.collectives import Collective, IntArray
from taccl.problem import LogicalTopology, RoutingLimits
from taccl.sketch.layout import Layout
from taccl.sketch.model import Rotation, Sketch


def rank_map(sketch: Sketch, rotation: Rotation, layout: Layout) -> IntArray:
    """The permutation of a rotation, shape (num_ranks,).

    Raises
    ------
    SketchError : the group does not divide the ranks, or the nodes are not alike.
    """
    offset = _number(sketch, rotation, rotation.offset, layout)
    group = _number(sketch, rotation, rotation.group, layout)
    if group < 1 or layout.num_ranks % group:
        raise sketch.error(
            f"symmetry {rotation}: groups of {group} ranks do not divide the {layout.num_ranks} ranks",
            line=rotation.line,
            hint="write `node` for the GPUs of a node and `machine` for all ranks, "
            "and the sketch serves any number of nodes",
        )
    ranks = np.arange(layout.num_ranks)
    return np.asarray((ranks // group) * group + (ranks % group + offset) % group)


def _number(sketch: Sketch, rotation: Rotation, value: int | str, layout: Layout) -> int:
    if isinstance(value, int):
        return value
    if value == "machine":
        return layout.num_ranks
    if layout.gpus_per_node is None:
        raise sketch.error(
            f"symmetry {rotation}: the nodes of this machine differ in size", line=rotation.line
        )
    return layout.gpus_per_node


def check_rotation(
    sketch: Sketch,
    rotation: Rotation,
    ranks: IntArray,
    logical: LogicalTopology,
    limits: RoutingLimits,
) -> None:
    """Raise SketchError, naming the first link that breaks it, unless `ranks` is a symmetry."""
    reason = broken_by(ranks, logical, limits)
    if reason is not None:
        raise sketch.error(
            f"{rotation} is no symmetry of this network: {reason}",
            line=rotation.line,
            hint="leave it out, or make the links it names alike; `taccl explain` names the lines against it",
        )


def broken_by(ranks: IntArray, logical: LogicalTopology, limits: RoutingLimits) -> str | None:
    """Why a permutation of ranks is no automorphism of the topology and the limits; None if it is."""
    return (
        _broken_nodes(ranks, logical)
        or _broken_links(ranks, logical)
        or _broken_ports(ranks, logical)
        or _broken_limits(ranks, logical, limits)
    )


def keeps_collective(ranks: IntArray, collective: Collective) -> bool:
    """Whether a collective is the same after a permutation of the ranks."""
    return collective.chunk_map(ranks) is not None


def _link_map(ranks: IntArray, logical: LogicalTopology) -> IntArray:
    """The link that each link goes to, shape (num_links,); -1 where there is none."""
    table = np.full((logical.num_ranks, logical.num_ranks), -1, dtype=np.int64)
    table[logical.src, logical.dst] = np.arange(logical.num_links)
    return np.asarray(table[ranks[logical.src], ranks[logical.dst]])


def _moved(link: int, ranks: IntArray, logical: LogicalTopology) -> str:
    return f"{ranks[logical.src[link]]} -> {ranks[logical.dst[link]]}"


def _broken_nodes(ranks: IntArray, logical: LogicalTopology) -> str | None:
    node_of = logical.node_of
    moved: dict[int, int] = {}
    for rank, node in enumerate(node_of):
        to = moved.setdefault(int(node), int(node_of[ranks[rank]]))
        if to != node_of[ranks[rank]]:
            first = int(np.flatnonzero(node_of == node)[0])
            return (
                f"ranks {first} and {rank} share a node, "
                f"but ranks {ranks[first]} and {ranks[rank]}, where they go, do not"
            )
    if len(set(moved.values())) < len(moved):
        return "it moves two nodes into one"
    return None


def _broken_links(ranks: IntArray, logical: LogicalTopology) -> str | None:
    links = _link_map(ranks, logical)
    missing = np.flatnonzero(links < 0)
    if len(missing):
        link = int(missing[0])
        return f"link {logical.describe_link(link)} goes to {_moved(link, ranks, logical)}, which is no link"
    for name, unit, cost in (
        ("alpha", "us", logical.alpha_us),
        ("beta", "us/MB", logical.beta_us_per_mb),
    ):
        unequal = np.flatnonzero(~np.isclose(cost, cost[links], rtol=1e-9, atol=0.0))
        if len(unequal):
            link = int(unequal[0])
            return (
                f"link {logical.describe_link(link)} has {name} {cost[link]:g} {unit}, "
                f"but {_moved(link, ranks, logical)}, where it goes, has {cost[links[link]]:g} {unit}"
            )
    return None


def _broken_ports(ranks: IntArray, logical: LogicalTopology) -> str | None:
    links = _link_map(ranks, logical)
    link_of, beta = logical.incidence[0].tolist(), logical.pair_betas.tolist()
    known: dict[frozenset[int], list[dict[int, float]]] = {}
    for members, pairs in zip(logical.port_links, logical.port_pairs, strict=True):
        rates = {link_of[pair]: beta[pair] for pair in pairs.tolist()}
        known.setdefault(frozenset(members), []).append(rates)
    for port, members in enumerate(logical.port_links):
        theirs = known.get(frozenset(int(links[link]) for link in members), [])
        if not theirs:
            link = members[0]
            return (
                f"link {logical.describe_link(link)} shares port {logical.port_names[port]!r} with "
                f"{len(members) - 1} others, but {_moved(link, ranks, logical)}, where it goes, "
                "shares no port with the links that those go to"
            )
        pairs = logical.port_pairs[port].tolist()
        moved = {int(links[link_of[pair]]): beta[pair] for pair in pairs}
        if not any(_same_rates(moved, rates) for rates in theirs):
            other = min(theirs, key=lambda rates: sum(abs(moved[each] - rates[each]) for each in moved))
            link = next(each for each in members if not _same_rates(moved, other, int(links[each])))
            return (
                f"port {logical.port_names[port]!r} serves link {logical.describe_link(link)} at "
                f"{moved[int(links[link])]:g} us/MB, but {_moved(link, ranks, logical)}, where it goes, "
                f"is served at {other[int(links[link])]:g}"
            )
    return None


def _same_rates(some: dict[int, float], others: dict[int, float], link: int | None = None) -> bool:
    """Whether a port is as fast as another for one link, or for all."""
    links = some if link is None else (link,)
    return all(math.isclose(some[each], others[each], rel_tol=1e-9) for each in links)


def _broken_limits(ranks: IntArray, logical: LogicalTopology, limits: RoutingLimits) -> str | None:
    links = _link_map(ranks, logical)
    if limits.may_use is not None:
        differs = limits.may_use != limits.may_use[np.ix_(ranks, links)]
        if differs.any():
            home, link = (int(i) for i in np.argwhere(differs)[0])
            return (
                f"link {logical.describe_link(link)} is treated unlike {_moved(link, ranks, logical)} "
                f"for the chunks of ranks {home} and {ranks[home]}"
            )
    for what, column in (
        ("for the order of its chunks", limits.own_first),
        ("in its switch policy", limits.link_preference),
    ):
        if column is not None and (column != column[links]).any():
            link = int(np.flatnonzero(column != column[links])[0])
            return (
                f"link {logical.describe_link(link)} is treated unlike {_moved(link, ranks, logical)} {what}"
            )
    return None
