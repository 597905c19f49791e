"""Sketch and machine -> logical topology: which links there are, what they cost, what they share.

A logical link is a path of the machine that the sketch lets be used. Every physical link of a path
is a port, because it serves one transfer at a time, each at its own rate. A port whose links all use
another port as well, one that is no faster, adds nothing, since the other one already keeps them apart
for longer, and is left out: so a plain link keeps one port, a GPU below an NVSwitch one in and one out, a
NIC one each way, and a trunk between switches that is faster than the GPUs one next to theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import numpy as np
from scipy.sparse import csr_array

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.sketch.equal_nodes import all_paths_of_equal_nodes, paths_of_equal_nodes
from taccl.sketch.layout import SketchLayout
from taccl.sketch.model import Internode, Sketch, Switch
from taccl.support.gc_paused import gc_paused
from taccl.support.size_limits import MAX_LINKS, check_links
from taccl.topologies.model import NO_NODE, Path, PhysicalTopology
from taccl.topologies.reach import may_reach


def count_links(sketch: Sketch, topology: PhysicalTopology, layout: SketchLayout) -> int:
    """The number of links from rank to rank, or somewhat more."""
    same_node = layout.node_of[:, None] == layout.node_of
    reached = may_reach(topology)
    if sketch.internode.strategy == "none":
        return int(reached.sum())
    return int((reached & same_node).sum()) + _named_between_nodes(sketch.internode, layout)


def _named_between_nodes(internode: Internode, layout: SketchLayout) -> int:
    sizes = np.array([len(ranks) for ranks in layout.ranks])
    if internode.strategy == "fully-connected":
        return int(sizes.sum() ** 2 - (sizes**2).sum())
    if internode.strategy == "direct-map":
        return int(np.minimum(sizes[:, None], sizes).sum() - sizes.sum())
    relayed = {(relay.sender, receiver) for relay in internode.relays for receiver in relay.receivers}
    return len(relayed) * len(sizes) * (len(sizes) - 1)


@gc_paused()
def logical_topology(sketch: Sketch, topology: PhysicalTopology, layout: SketchLayout) -> LogicalTopology:
    """The links that a sketch lets be used, ordered by source and destination rank.

    Raises
    ------
    SketchError : a switch or relay joins GPUs that the machine does not join; the machine has helpers, and
        the sketch chooses links, which it can do for GPUs only.
    TopologyError : there are too many of them.
    """
    if topology.num_helpers and not takes_all_links(sketch):
        raise sketch.error(
            f"{topology.name} has helpers, and this sketch chooses links of GPUs only",
            hint="leave the sketch out, let it use all links, or leave the helpers out",
        )
    few = None
    if has_too_many_links(sketch, topology, layout):
        few = paths_of_equal_nodes(topology, layout) if takes_all_links(sketch) else None
        if few is None:
            check_links(topology.name, count_links(sketch, topology, layout))
    paths = few or (all_paths_of_equal_nodes(topology, layout) if takes_all_links(sketch) else None)
    if paths is None:
        paths = [*_intranode_paths(sketch, topology, layout), *_internode_paths(sketch, topology, layout)]
    return network_of_paths(paths, topology, layout, is_static=sketch.internode.nic_sharing == "static")


def network_of_paths(
    paths: Sequence[Path], topology: PhysicalTopology, layout: SketchLayout, *, is_static: bool = False
) -> LogicalTopology:
    """The network whose links are these paths, whose ports are the numbers in their `links`.

    `is_static` : whether links between nodes divide NICs by TACCL's rule, and not as ports.
    """
    paths = sorted(paths, key=lambda path: (path.src_rank, path.dst_rank))
    src = np.array([path.src_rank for path in paths], dtype=np.int64)
    dst = np.array([path.dst_rank for path in paths], dtype=np.int64)
    beta = np.array([path.beta_us_per_mb for path in paths], dtype=np.float64)
    if is_static:
        beta = beta * _static_shares(paths, topology, layout)
    ports, names, betas = _ports(paths, topology, layout, beta, is_static)
    return LogicalTopology(
        name=topology.name,
        node_of=layout.node_of,
        src=src,
        dst=dst,
        alpha_us=np.array([path.alpha_us for path in paths], dtype=np.float64),
        beta_us_per_mb=beta,
        ports=ports,
        port_names=names,
        occupancy=topology.occupancy,
        port_betas=betas,
        is_helper=np.array([gpu.kind == "helper" for gpu in topology.gpus], dtype=np.bool_),
        helper_names=tuple(helper.name for helper in topology.gpus[topology.num_members :]),
        memory_mb=_memory_mb(topology),
        may_sum=np.array([gpu.may_sum for gpu in topology.gpus], dtype=np.bool_),
        may_copy=np.array([gpu.may_copy for gpu in topology.gpus], dtype=np.bool_),
        domain_of=_domains(paths, topology, layout),
        executor=topology.executor,
    )


def _memory_mb(topology: PhysicalTopology) -> FloatArray | None:
    """How much each rank can hold; None where no helper has a limit."""
    if all(rank.memory_mb is None for rank in topology.gpus):
        return None
    return np.array([np.inf if rank.memory_mb is None else rank.memory_mb for rank in topology.gpus])


def has_too_many_links(sketch: Sketch, topology: PhysicalTopology, layout: SketchLayout) -> bool:
    """Whether a sketch would leave more than MAX_LINKS links from rank to rank."""
    return topology.num_ranks**2 > MAX_LINKS and count_links(sketch, topology, layout) > MAX_LINKS


def few_links_note(logical: LogicalTopology, layout: SketchLayout) -> str:
    """What is reported of a machine with too many links."""
    between = int(logical.internode.sum()) // layout.num_members
    return (
        f"all GPUs of {logical.name} reach each other, which is too many links: used are those inside nodes, "
        f"and from each GPU to the equal GPU of {between} other nodes; bounds are for these"
    )


def takes_all_links(sketch: Sketch) -> bool:
    """Whether a sketch leaves every link of a machine as it is, and says nothing of who uses them."""
    return (
        sketch.intranode.strategy == "none"
        and (sketch.internode.strategy, sketch.internode.nic_sharing) == ("none", "port")
        and not (sketch.internode.sender_for or sketch.internode.own_first or sketch.symmetry)
    )


def switch_members(switch: Switch, ranks: Sequence[int]) -> list[int]:
    """The ranks of a node that are behind a switch."""
    return list(ranks) if switch.gpus is None else [ranks[gpu] for gpu in switch.gpus]


def _intranode_paths(sketch: Sketch, topology: PhysicalTopology, layout: SketchLayout) -> Iterator[Path]:
    for ranks in layout.ranks:
        if sketch.intranode.strategy != "switch":
            yield from _paths(topology, ranks, ranks)
            continue
        pairs: set[tuple[int, int]] = set()
        for switch in sketch.intranode.switches:
            members = switch_members(switch, ranks)
            pairs |= (new := {(a, b) for a in members for b in members if a != b})
            for a, b in sorted(new):
                if topology.path(a, b) is None:
                    raise sketch.error(
                        f"no switch of {topology.name} joins GPUs {layout.local_of[a]} "
                        f"and {layout.local_of[b]}",
                        line=switch.line,
                        hint="strategy: none uses the links of a node as they are",
                    )
        yield from (path for a, b in sorted(pairs) if (path := topology.path(a, b)) is not None)


def _paths(topology: PhysicalTopology, sources: Sequence[int], ends: Sequence[int]) -> Iterator[Path]:
    """From each source to each end that it has a path to."""
    for src in sources:
        paths = topology.paths_from(src)
        if len(paths) < len(ends):
            wanted = frozenset(ends)
            yield from (path for end, path in paths.items() if end in wanted)
        else:
            yield from (paths[end] for end in ends if end in paths)


def _internode_paths(sketch: Sketch, topology: PhysicalTopology, layout: SketchLayout) -> Iterator[Path]:
    if sketch.internode.strategy == "none":
        node_of = layout.node_of.tolist()
        for src in range(layout.num_ranks):
            paths = topology.paths_from(src)
            yield from (path for end, path in paths.items() if node_of[end] != node_of[src])
        return
    for here in layout.ranks:
        for there in layout.ranks:
            if here is there:
                continue
            for sender, receiver, line in _pairs(sketch.internode, len(here), len(there)):
                path = topology.host_path(here[sender], there[receiver])
                if path is None:
                    raise sketch.error(
                        f"{topology.name} has no way from rank {here[sender]} to rank {there[receiver]}: "
                        "their nodes have no NICs on one fabric",
                        line=line,
                    )
                yield path


def _pairs(internode: Internode, here: int, there: int) -> list[tuple[int, int, int | None]]:
    """(sender, receiver, line) by local index, for nodes of `here` and `there` GPUs; no pair twice."""
    if internode.strategy == "fully-connected":
        return [(a, b, internode.line) for a in range(here) for b in range(there)]
    if internode.strategy == "direct-map":
        return [(a, a, internode.line) for a in range(min(here, there))]
    first_line: dict[tuple[int, int], int | None] = {}
    for relay in internode.relays:
        for receiver in relay.receivers:
            first_line.setdefault((relay.sender, receiver), relay.line)
    return [(sender, receiver, line) for (sender, receiver), line in first_line.items()]


def _static_shares(paths: Sequence[Path], topology: PhysicalTopology, layout: SketchLayout) -> FloatArray:
    """TACCL's beta split: inter-node links that leave a node, over its NICs, where that is above 1."""
    source_node = np.array([layout.node_of[path.src_rank] for path in paths], dtype=np.int64)
    target_node = np.array([layout.node_of[path.dst_rank] for path in paths], dtype=np.int64)
    domains = _into_domains(topology)
    is_plain = np.array([domains.isdisjoint(path.links) for path in paths], dtype=np.bool_)
    internode = (source_node != target_node) & is_plain
    leaving = np.bincount(source_node[internode], minlength=len(layout.ranks))
    nics = [topology.nic_count(topology.gpus[ranks[0]].node) for ranks in layout.ranks]
    share = np.maximum(1.0, leaving / np.maximum(1, nics))
    return np.where(internode, share[source_node], 1.0)


def _ports(
    paths: Sequence[Path], topology: PhysicalTopology, layout: SketchLayout, beta: FloatArray, static: bool
) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...], tuple[tuple[float, ...], ...]]:
    """Ports of each path, the names of the ports, and the beta of each port of each path.

    With `static`, a path between nodes is its own port, as slow as its share of the NICs; what it passes
    between switches, such as the uplinks of a leaf, stays shared.
    """
    shared = _between_switches(topology) if static else frozenset()
    domains = _into_domains(topology) if static else frozenset()
    used = [
        (-1 - link, *(each for each in p.links if each in shared))
        if static and layout.node_of[p.src_rank] != layout.node_of[p.dst_rank] and domains.isdisjoint(p.links)
        else p.links
        for link, p in enumerate(paths)
    ]
    link = np.repeat(np.arange(len(used)), [len(physical) for physical in used])
    port = np.fromiter(chain.from_iterable(used), np.int64, len(link))
    cost = np.array([*(each.beta_us_per_mb for each in topology.links), 0.0])
    betas = np.where(port >= 0, cost[np.maximum(port, -1)], beta[link])
    first = np.searchsorted(link, np.arange(len(used)))
    for number, path in enumerate(paths):
        if path.betas is not None:  # helpers' own rates
            betas[first[number] : first[number] + len(path.links)] = path.betas
    numbers, place = np.unique(port, return_inverse=True)
    is_kept = ~_covered(link, place, betas)
    kept = is_kept[place]
    ends = np.concatenate([[0], np.cumsum(np.bincount(link[kept], minlength=len(used)))]).tolist()
    columns = (np.cumsum(is_kept) - 1)[place[kept]].tolist(), betas[kept].tolist()
    ports, rates = (tuple(tuple(column[a:b]) for a, b in pairwise(ends)) for column in columns)
    return ports, tuple(_port_name(each, paths, topology) for each in numbers[is_kept].tolist()), rates


def _between_switches(topology: PhysicalTopology) -> frozenset[int]:
    """The links whose ends both belong to no node."""
    outside = {device.name for device in topology.devices if device.node == NO_NODE}
    return frozenset(number for number, link in enumerate(topology.links) if {link.src, link.dst} <= outside)


def _domains(paths: Sequence[Path], topology: PhysicalTopology, layout: SketchLayout) -> IntArray | None:
    """By rank, its NVLink domain: the nodes that share a switch with its own. None: each node is one."""
    shared = _into_domains(topology)
    domain_of = layout.node_of
    for path in paths if shared else ():
        here, there = domain_of[path.src_rank], domain_of[path.dst_rank]
        if here != there and not shared.isdisjoint(path.links):
            domain_of = np.where(domain_of == max(here, there), min(here, there), domain_of)
    return None if domain_of is layout.node_of else domain_of


def _into_domains(topology: PhysicalTopology) -> frozenset[int]:
    """The links into switches that several nodes share, whose paths pass no NIC."""
    shared = {
        device.name for device in topology.devices if device.kind == "switch" and device.node == NO_NODE
    }
    return frozenset(number for number, link in enumerate(topology.links) if link.dst in shared)


def _covered(link: IntArray, port: IntArray, beta: FloatArray) -> BoolArray:
    """Whether another port, as slow or slower for every link of this one, keeps all of them apart; of equal
    ports the first stays. Shape (ports,).

    Parameters
    ----------
    link, port, beta : of each use of a port by a link, by links, and how slow it is.
    """
    many = np.bincount(port)
    if not len(link):
        return np.zeros(0, dtype=np.bool_)
    used = csr_array((np.ones(len(link), dtype=np.int64), (link, port)))
    both = (used.T @ used).tocoo()
    is_on_all = (both.data == many[both.row]) & (both.row != both.col)
    one, other = both.row[is_on_all], both.col[is_on_all]
    of_port = np.argsort(port, kind="stable")  # uses by port
    begin = np.cumsum(many) - many
    use = of_port[_ranges(begin[one], many[one])]
    at = np.repeat(np.arange(len(one)), many[one])
    key = link * len(many) + port
    by_key = np.argsort(key, kind="stable")
    wanted = link[use] * len(many) + other[at]
    slower = beta[by_key[np.searchsorted(key[by_key], wanted)]] - beta[use]
    least, most = np.full(len(one), np.inf), np.full(len(one), -np.inf)
    np.minimum.at(least, at, slower)
    np.maximum.at(most, at, slower)
    covers = (least >= 0) & ((many[other] > many[one]) | (most > 0) | (other < one))
    found = np.zeros(len(many), dtype=np.bool_)
    found[one[covers]] = True
    return found


def _ranges(first: IntArray, many: IntArray) -> IntArray:
    """`many` numbers from each `first` on, one range after another."""
    return np.repeat(first - (np.cumsum(many) - many), many) + np.arange(many.sum())


def _port_name(port: int, paths: Sequence[Path], topology: PhysicalTopology) -> str:
    if port < 0:
        path = paths[-1 - port]
        return f"{topology.gpus[path.src_rank].name} -> {topology.gpus[path.dst_rank].name}"
    return f"{topology.links[port].src} -> {topology.links[port].dst}"
