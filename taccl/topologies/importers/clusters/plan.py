"""Levels of a fabric, with rails and domains, for some hosts of a cluster.

The hosts become nodes 0, 1, ... in their order; the NICs of a host are counted in the order of their names,
unless another is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from taccl.errors import TopologyError
from taccl.support.lists import equal, natural
from taccl.topologies.importers.clusters.facts import ClusterFacts, HostBlock
from taccl.topologies.importers.clusters.hostlist import shortened
from taccl.topologies.importers.clusters.tiers import Tiers, Uplinks, tier_name
from taccl.topologies.strict_yaml import nearest

Nic = tuple[int, int]


@dataclass(frozen=True)
class PlannedLevel:
    """A level of the fabric.

    Parameters
    ----------
    groups : the nodes below each switch, or below each set of rails; None where NICs must be listed.
    rails : the NICs of each rail by their places; None where all NICs of a node meet.
    nic_groups : the NICs below each switch.
    uplinks : of each switch, in the order of `nic_groups`; None at the top.
    leaves : one leaf below each switch, which names it.
    """

    name: str
    groups: tuple[tuple[int, ...], ...] | None
    rails: tuple[tuple[int, ...], ...] | None
    nic_groups: tuple[tuple[Nic, ...], ...]
    uplinks: tuple[Uplinks, ...] | None
    leaves: tuple[str, ...]


@dataclass(frozen=True)
class ClusterFile:
    """What a machine file says of hosts of a cluster.

    Parameters
    ----------
    hosts : node -> host.
    nics : names of the NICs of the first host; empty where the file does not name NICs.
    levels : from the leaves upwards; empty where the file tells of no switch.
    domains : nodes that share NVLinks, each node in one; None where the file tells of none.
    """

    hosts: tuple[str, ...]
    nics: tuple[str, ...]
    levels: tuple[PlannedLevel, ...]
    domains: tuple[tuple[int, ...], ...] | None
    warnings: tuple[str, ...] = ()


def plan(
    cluster: ClusterFacts,
    hosts: Sequence[str] | None = None,
    nodes: int | None = None,
    nics: Sequence[str] | None = None,
) -> ClusterFile:
    """The levels for some hosts.

    Parameters
    ----------
    hosts : which, in the order of the nodes; all that have as many NICs as most, when not given.
    nodes : only this many of them.
    nics : only NICs of these names, in this order.

    Raises
    ------
    TopologyError : a host or NIC that the file does not have, or hosts with different numbers of NICs.
    """
    if nics is not None:
        cluster = _with_nics(cluster, nics)
    tiers = Tiers(cluster, hosts or (), nics or ())
    chosen, warnings = _chosen(tiers, hosts)
    if nodes is not None and nodes > len(chosen):
        raise TopologyError(f"the file tells of {len(chosen)} such hosts, not of {nodes}")
    chosen = chosen[:nodes]
    levels: list[PlannedLevel] = []
    if cluster.ports:
        levels = _levels(tiers, chosen)
        warnings += _crossed(tiers, chosen)
        if len(levels[-1].nic_groups) > 1 and levels[-1].rails is None:
            one, other = levels[-1].leaves[:2]
            warnings.append(
                f"no switch of the file joins {one} and {other}: their nodes have no way to each other"
            )
    elif any(not block.is_nvlink for block in cluster.blocks):
        levels = _block_levels([block for block in cluster.blocks if not block.is_nvlink], chosen)
    first = tiers.ports_of.get(chosen[0], [])
    return ClusterFile(
        tuple(chosen),
        tuple(port.nic for port in first if port.nic is not None),
        tuple(levels),
        _domains(cluster, chosen),
        tuple(warnings),
    )


def _with_nics(cluster: ClusterFacts, nics: Sequence[str]) -> ClusterFacts:
    known = {port.nic for port in cluster.ports if port.nic is not None}
    for nic in nics:
        if nic not in known:
            hint = nearest(nic, sorted(known)[:20]) if known else "leave --nics out: the file names no NIC"
            raise TopologyError(f"no host of the file has a NIC {nic!r}", hint=hint)
    return replace(cluster, ports=tuple(port for port in cluster.ports if port.nic in nics))


def _chosen(tiers: Tiers, hosts: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """The hosts in order, and warnings of those that are left out."""
    cluster = tiers.cluster
    if hosts is not None:
        _check_hosts(tiers, hosts)
        return list(hosts), []
    if not cluster.hosts and cluster.unnamed:
        first = cluster.unnamed[0].place
        raise first.error(
            f"no host has a name: {len(cluster.unnamed)} port(s) tell only the model of their card",
            "ibnetdiscover --node-name-map FILE names them",
        )
    if not cluster.hosts:
        raise TopologyError("the file names no host")
    if not cluster.ports:
        return list(cluster.hosts), []
    usual = [host for host in cluster.hosts if len(tiers.ports_of.get(host, ())) == tiers.usual_nics]
    warnings = []
    unusual = sorted(set(cluster.hosts) - set(usual), key=natural)
    if unusual:
        warnings.append(
            f"left out, since most hosts have {tiers.usual_nics} NICs in the file and these have not: "
            f"{shortened(unusual)}"
        )
    if not usual:
        raise TopologyError("no port in the file belongs to a host with a name")
    return sorted(usual, key=lambda host: (_place_in_tree(tiers, host), natural(host))), warnings


def _check_hosts(tiers: Tiers, hosts: Sequence[str]) -> None:
    known = tiers.ports_of if tiers.cluster.ports else set(tiers.cluster.hosts)
    counts: dict[int, str] = {}
    for host in hosts:
        if host not in known:
            near = nearest(host, sorted(known, key=natural)[:2000])
            raise TopologyError(f"no host {host!r} is in the file", hint=near if len(near) < 80 else None)
        counts.setdefault(len(tiers.ports_of.get(host, ())), host)
    if len(set(hosts)) < len(hosts):
        raise TopologyError("a host is named twice")
    if not hosts:
        raise TopologyError("no host is named")
    if len(counts) > 1:
        (few, one), (many, other) = sorted(counts.items())[:2]
        raise TopologyError(
            f"{one} has {few} NICs in the file and {other} has {many}", hint="name hosts that are equivalent"
        )


def _place_in_tree(tiers: Tiers, host: str) -> tuple[object, ...]:
    """A key that keeps hosts together that are near each other, from the top down."""
    leaves = sorted((port.switch for port in tiers.ports_of[host]), key=natural)
    parts = [
        natural(tiers.parts(tier)[leaf]) if leaf in tiers.tier_of else ()
        for tier in range(tiers.top, 0, -1)
        for leaf in leaves[:1]
    ]
    return (*parts, tuple(map(natural, leaves)))


def _crossed(tiers: Tiers, hosts: Sequence[str]) -> list[str]:
    """Warnings of hosts whose NICs are at the leaves of their neighbours, but not in their order."""
    tuples = {host: tuple(port.switch for port in tiers.ports_of[host]) for host in hosts}
    said = []
    for group in equal([frozenset(tuple_) for tuple_ in tuples.values()]):
        members = [hosts[node] for node in group]
        usual = Counter(tuples[host] for host in members).most_common(1)[0][0]
        for host in members:
            if tuples[host] == usual or len(members) < 3:
                continue
            port = next(p for p, leaf in zip(tiers.ports_of[host], usual, strict=True) if p.switch != leaf)
            leaf = usual[tiers.ports_of[host].index(port)]
            said.append(
                f"{port.place}: {host} {port.nic} is at {port.switch}, where its neighbours' are at {leaf}"
            )
    return said


def _levels(tiers: Tiers, hosts: Sequence[str]) -> list[PlannedLevel]:
    leaf_of = {
        (node, place): port.switch
        for node, host in enumerate(hosts)
        for place, port in enumerate(tiers.ports_of[host])
    }
    levels: list[PlannedLevel] = []
    for tier in range(1, max(tiers.top, 1) + 1):
        parts = tiers.parts(tier)
        part_of = {nic: parts.get(leaf, leaf) for nic, leaf in leaf_of.items()}
        made = _level(tiers, tier, part_of)
        if levels and levels[-1].nic_groups == made.nic_groups:
            above, below = made.uplinks or (), levels[-1].uplinks or ()
            levels[-1] = replace(levels[-1], uplinks=tuple(map(_fewer, below, above)))
        else:
            levels.append(made)
        if len(levels[-1].nic_groups) == 1:
            break
    levels[-1] = replace(levels[-1], uplinks=None)
    return levels


def _fewer(below: Uplinks, above: Uplinks) -> Uplinks:
    """What limits two tiers one above the other that join the same; a part without a way up has no say."""
    if not above.number:
        return below
    least, most = below.gbps(1.0), above.gbps(1.0)
    return above if least is not None and most is not None and most < least else below


def _level(tiers: Tiers, tier: int, part_of: dict[Nic, str]) -> PlannedLevel:
    by_node: dict[int, list[str]] = {}
    for (node, _), part in part_of.items():
        by_node.setdefault(node, []).append(part)
    patterns = {tuple(map(tuple, equal(parts))) for parts in by_node.values()}
    groups = equal([tuple(parts) for parts in by_node.values()])
    used = [set(by_node[group[0]]) for group in groups]
    is_regular = len(patterns) == 1 and sum(map(len, used)) == len(set().union(*used))
    rails = next(iter(patterns)) if is_regular else None
    if rails is not None:
        nic_groups = [
            tuple((node, place) for node in group for place in rail) for group in groups for rail in rails
        ]
    else:
        nics = list(part_of)
        nic_groups = [tuple(nics[index] for index in group) for group in equal(list(part_of.values()))]
    leaves = [part_of[nics[0]] for nics in nic_groups]
    return PlannedLevel(
        tier_name(tier),
        tuple(map(tuple, groups)) if is_regular else None,
        rails if rails is not None and len(rails) > 1 else None,
        tuple(nic_groups),
        tuple(tiers.uplinks(tier, leaf) if leaf in tiers.tier_of else Uplinks({}) for leaf in leaves),
        tuple(leaves),
    )


def _block_levels(blocks: Sequence[HostBlock], hosts: Sequence[str]) -> list[PlannedLevel]:
    """Blocks as a level of their own, below one that joins them all."""
    block_of = {host: block.name for block in blocks for host in block.hosts}
    names = [block_of.get(host, "") for host in hosts]
    groups = tuple(map(tuple, equal(names)))
    nics = tuple(tuple((node, 0) for node in group) for group in groups)
    unknown = tuple(Uplinks(None) for _ in groups)
    leaves = tuple(names[group[0]] for group in groups)
    if len(groups) == 1:
        return [PlannedLevel("block", groups, None, nics, None, leaves)]
    together = tuple(node for group in groups for node in group)
    return [
        PlannedLevel("block", groups, None, nics, unknown, leaves),
        PlannedLevel("spine", (together,), None, (tuple((n, 0) for n in together),), None, leaves[:1]),
    ]


def _domains(cluster: ClusterFacts, hosts: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
    blocks = [block for block in cluster.blocks if block.is_nvlink]
    if not blocks:
        return None
    block_of = {host: block.name for block in blocks for host in block.hosts}
    return tuple(map(tuple, equal([block_of.get(host, ("alone", host)) for host in hosts])))
