"""What a permutation of the ranks does to a network: the one check of what is a symmetry.

An automorphism keeps nodes together, takes helpers to helpers, every link to a link that costs as much, ports
to ports that serve the images of their links as fast, and what the designer ruled out or prefers to itself.
Sketches, engines, bounds and files all ask here, so that none takes for a symmetry what another refuses.

Costs count as equal within a relative tolerance, since the same cost may come of sums and products in
another order. Where they are not equal to the last bit (`is_exact`), whoever moves a schedule computes its
times anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.problem import RoutingLimits
from taccl.model.tolerance import SAME_COST


@dataclass(frozen=True, eq=False)
class NetworkMap:
    """An automorphism of a network.

    Parameters
    ----------
    ranks, links, ports, pairs : the image of each; pairs (link, port) as in `topology.incidence`.
    is_exact : whether all costs are equal to the last bit to those of their images.
    """

    ranks: IntArray
    links: IntArray
    ports: IntArray
    pairs: IntArray
    is_exact: bool


@dataclass(frozen=True)
class Broken:
    """Why a permutation is no automorphism, as the end of a sentence."""

    reason: str


def same_costs(topology: LogicalTopology, links: IntArray, pairs: IntArray) -> bool:
    """Whether all costs count as equal to those of such images of links and pairs."""
    columns = [(topology.alpha_us, links), (topology.beta_us_per_mb, links)]
    if topology.port_betas is not None:
        columns.append((topology.pair_betas, pairs))
    return all(bool((differences(cost, cost[image]) <= SAME_COST).all()) for cost, image in columns)


def differences(one: FloatArray, other: FloatArray) -> FloatArray:
    """By which part of the larger cost two costs differ, elementwise."""
    larger = np.maximum(one, other)
    return np.asarray(np.divide(np.abs(one - other), larger, out=np.zeros(len(larger)), where=larger > 0))


def network_map(ranks: IntArray, topology: LogicalTopology, limits: RoutingLimits) -> NetworkMap | Broken:
    """The automorphism that a permutation of the ranks is, or the first reason why it is none."""
    if not np.array_equal(np.sort(ranks), np.arange(topology.num_ranks)):
        return Broken(f"it is no permutation of the ranks 0 .. {topology.num_ranks - 1}")
    links = topology.link_map(ranks)
    reason = _broken_nodes(ranks, topology) or _broken_roles(ranks, topology)
    reason = reason or _broken_links(ranks, links, topology)
    if reason is not None:
        return Broken(reason)
    ports = _port_map(links, topology)
    if isinstance(ports, Broken):
        return ports
    pairs = _pair_map(links, ports, topology)
    reason = _broken_rates(links, pairs, topology) or _broken_limits(ranks, links, topology, limits)
    if reason is not None:
        return Broken(reason)
    return NetworkMap(ranks, links, ports, pairs, _is_exact(links, pairs, topology))


def broken_by(ranks: IntArray, topology: LogicalTopology, limits: RoutingLimits) -> str | None:
    """Why a permutation of the ranks is no automorphism of a network; None if it is."""
    found = network_map(ranks, topology, limits)
    return found.reason if isinstance(found, Broken) else None


def _port_map(links: IntArray, topology: LogicalTopology) -> IntArray | Broken:
    """The port that each port goes to: the one that the images of its links share, shape (num_ports,).

    Among ports of the same links, the k-th fastest goes to the k-th fastest. A port that no link uses stays.
    Sets of links are compared by the sum of a random number for each link: equal sets have equal sums. That
    equal sums are of equal sets is then checked pair by pair.
    """
    link, port = topology.incidence
    order = np.concatenate(topology.port_pairs)
    first = np.flatnonzero(np.diff(port[order], prepend=-1))
    number = np.random.default_rng(0).integers(0, 2**63, topology.num_links, dtype=np.uint64)
    before, after = (np.add.reduceat(number[each], first) for each in (link[order], links[link[order]]))
    rate = np.add.reduceat(topology.pair_betas[order], first)
    used, ports = port[order][first], np.arange(topology.num_ports)
    ports[used[np.lexsort((rate, after))]] = used[np.lexsort((rate, before))]
    if (_pair_map(links, ports, topology) >= 0).all():
        return ports
    lost = np.flatnonzero(~np.isin(after, before))
    first_lost = int(used[lost[0] if len(lost) else 0])
    members = topology.port_links[first_lost]
    return Broken(
        f"link {topology.describe_link(members[0])} shares port {topology.port_names[first_lost]!r} with "
        f"{len(members) - 1} others, but {topology.describe_link(int(links[members[0]]))}, where it goes, "
        "shares no port with the links that those go to"
    )


def _pair_map(links: IntArray, ports: IntArray, topology: LogicalTopology) -> IntArray:
    """The pair of `incidence` that each pair (link, port) goes to; -1 where there is none."""
    link, port = topology.incidence
    key = link * topology.num_ports + port
    image = links[link] * topology.num_ports + ports[port]
    order = np.argsort(key)
    place = np.minimum(np.searchsorted(key[order], image), max(len(key) - 1, 0))
    return np.where(key[order[place]] == image, order[place], -1)


def _is_exact(links: IntArray, pairs: IntArray, topology: LogicalTopology) -> bool:
    columns = ((topology.alpha_us, links), (topology.beta_us_per_mb, links), (topology.pair_betas, pairs))
    return all(bool((cost == cost[image]).all()) for cost, image in columns)


def _broken_nodes(ranks: IntArray, topology: LogicalTopology) -> str | None:
    """Ranks of one node must go to one node, and those of two to two."""
    node_of = topology.node_of
    _, first, node = np.unique(node_of, return_index=True, return_inverse=True)
    goes_to = node_of[ranks[first]][node]  # where the first rank of each rank's node goes
    apart = np.flatnonzero(goes_to != node_of[ranks])
    if len(apart):
        rank = int(apart[0])
        with_it = int(first[node[rank]])
        return (
            f"ranks {with_it} and {rank} share a node, "
            f"but ranks {ranks[with_it]} and {ranks[rank]}, where they go, do not"
        )
    if len(np.unique(node_of[ranks[first]])) < len(first):
        return "it moves two nodes into one"
    return None


def _broken_roles(ranks: IntArray, topology: LogicalTopology) -> str | None:
    """Helpers must go to helpers, and ranks that may not sum or copy to such."""
    for what, column in (
        ("a helper", topology.is_helper),
        ("a rank that may sum", topology.may_sum),
        ("a rank that may copy", topology.may_copy),
        ("a rank with this much memory", topology.memory_mb),
    ):
        if column is not None and (column != column[ranks]).any():
            rank = int(np.flatnonzero(column != column[ranks])[0])
            one, other = ("is", "is not") if column[rank] else ("is not", "is")
            return f"rank {rank} {one} {what}, but rank {ranks[rank]}, where it goes, {other}"
    return None


def _broken_links(ranks: IntArray, links: IntArray, topology: LogicalTopology) -> str | None:
    """Links must go to links that cost as much; of those that do not, the most unlike is reported."""
    missing = np.flatnonzero(links < 0)
    if len(missing):
        link = int(missing[0])
        to = f"{ranks[topology.src[link]]} -> {ranks[topology.dst[link]]}"
        return f"link {topology.describe_link(link)} goes to {to}, which is no link"
    for name, unit, cost in (
        ("alpha", "us", topology.alpha_us),
        ("beta", "us/MB", topology.beta_us_per_mb),
    ):
        unlike = differences(cost, cost[links])
        if len(unlike) and (unlike > SAME_COST).any():
            link = int(unlike.argmax())
            one, other = _distinguished(cost[link], cost[links[link]])
            return (
                f"link {topology.describe_link(link)} has {name} {one} {unit}, "
                f"but {topology.describe_link(int(links[link]))}, where it goes, has {other} {unit}"
                f"{_and_others(unlike)}"
            )
    return None


def _distinguished(one: float, other: float) -> tuple[str, str]:
    """Two unequal numbers with as many digits as show that they are unequal."""
    for digits in (6, 9, 12):
        shown = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if shown[0] != shown[1]:
            return shown
    return repr(float(one)), repr(float(other))


def _and_others(unlike: FloatArray) -> str:
    """How much that is, and of how many links it is the most."""
    many = int((unlike > SAME_COST).sum())
    return f" ({unlike.max():.2g} of it, the most of {many} links)" if many > 1 else ""


def _broken_rates(links: IntArray, pairs: IntArray, topology: LogicalTopology) -> str | None:
    """Ports must serve the images of their links as fast as they serve them."""
    if topology.port_betas is None:
        return None
    betas = topology.pair_betas
    image = betas[pairs]
    unlike = differences(betas, image)
    if not (unlike > SAME_COST).any():
        return None
    pair = int(unlike.argmax())
    link, port = (int(column[pair]) for column in topology.incidence)
    one, other = _distinguished(betas[pair], image[pair])
    return (
        f"port {topology.port_names[port]!r} serves link {topology.describe_link(link)} at "
        f"{one} us/MB, but {topology.describe_link(int(links[link]))}, where it goes, is served at {other}"
    )


def _broken_limits(
    ranks: IntArray, links: IntArray, topology: LogicalTopology, limits: RoutingLimits
) -> str | None:
    """What chunks may use and how links are treated must be the same for the images."""
    if limits.may_use is not None:
        differs = limits.may_use != limits.may_use[np.ix_(ranks, links)]
        if differs.any():
            owner, link = (int(i) for i in np.argwhere(differs)[0])
            return (
                f"link {topology.describe_link(link)} is treated unlike "
                f"{topology.describe_link(int(links[link]))} "
                f"for the chunks of ranks {owner} and {ranks[owner]}"
            )
    for what, column in (
        ("for the order of its chunks", limits.own_first),
        ("in its switch policy", limits.link_preference),
    ):
        if column is not None and (column != column[links]).any():
            link = int(np.flatnonzero(column != column[links])[0])
            return (
                f"link {topology.describe_link(link)} is treated unlike "
                f"{topology.describe_link(int(links[link]))} {what}"
            )
    return None
