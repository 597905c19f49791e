"""GPUs and their NICs on a machine whose GPUs have NVLinks or xGMI between them: PCIe is for NICs only.

So that PCIe does not become a way from GPU to GPU where their own links leave pairs out, what several GPUs
share is one device on the way out, another on the way in.
"""

from __future__ import annotations

from collections.abc import Sequence

from taccl.topologies.importers.nodes.facts import Dump, Nearness
from taccl.topologies.importers.nodes.figures import (
    card_figure,
    nearest_nics,
    nic_figure,
    pcie_figure,
    pcie_gbps,
)
from taccl.topologies.importers.nodes.layout import NodeLayout, narrowest
from taccl.topologies.importers.nodes.pcie_tree import between_cpus, cards
from taccl.topologies.importers.nodes.rates import Alphas
from taccl.topologies.machines.figures import Bandwidth, Figure


def used_nics(dump: Dump) -> tuple[tuple[int, ...], ...]:
    """Of each GPU, the ports that it sends and receives through.

    The fastest of its nearest; of a GPU that has none on its CPU, the fastest of all that are no further than
    others; all of them where the dump does not say where they are.
    """
    nics = dump.nics or ()
    found = []
    for gpu, nearest in enumerate(nearest_nics(dump)):
        near = nearest
        if not near and nics:
            row = dump.nic_nearness[gpu] if dump.nic_nearness else [None] * len(nics)
            far = [Nearness.SYS if each is None else each for each in row]
            here = [i for i, nic in enumerate(nics) if nic.host == dump.gpus[gpu].host]
            near = tuple(i for i in here if far[i] == min(far[j] for j in here))
        speeds = {i: nic_figure(nics[i]).value for i in near}
        found.append(tuple(i for i in near if speeds[i] == max(speeds.values())))
    return tuple(found)


def add_nic_paths(
    layout: NodeLayout,
    dump: Dump,
    routes: Sequence[Sequence[int]],
    alphas: Alphas,
    bandwidth: Bandwidth,
    *,
    all_linked: bool,
) -> None:
    """Adds a wire from each GPU to each of its ports, or to what the ports of a card share.

    Parameters
    ----------
    routes : of each GPU, positions of its ports.
    all_linked : every two GPUs have a link or a switch between them, so PCIe is no better way.
    """
    for number, ports in enumerate(cards(layout, dump)):
        users = [gpu for gpu, mine in enumerate(routes) if set(ports) & set(mine)]
        nics = [(dump.nics or ())[i] for i in ports]
        lines = {i: nic_figure(nic) for i, nic in zip(ports, nics, strict=True)}
        card = card_figure(nics[0], bandwidth)
        is_tight = card is not None and sum(line.value for line in lines.values()) > card.value
        if card is not None and is_tight and len(users) > 0 and (len(ports) > 1 or len(users) > 1):
            _share_card(layout, dump, number, (ports, users, routes), card, alphas, bandwidth, all_linked)
            continue
        for gpu in users:
            for i in ports:
                if i in routes[gpu]:
                    alpha, limits = _way(dump, gpu, i, alphas, bandwidth)
                    own = (lines[i], *((card,) if card is not None else ()), *limits)
                    layout.wire((layout.gpus[gpu], layout.nic_of[i]), "GPU to NIC", alpha, narrowest(*own))


def _share_card(
    layout: NodeLayout,
    dump: Dump,
    number: int,
    shared: tuple[Sequence[int], Sequence[int], Sequence[Sequence[int]]],
    card: Figure,
    alphas: Alphas,
    bandwidth: Bandwidth,
    all_linked: bool,
) -> None:
    """A card that is narrower than its ports, or that several GPUs use: its link is a device's way."""
    ports, users, routes = shared
    none = Figure(0.0, "assumed", "the network's latency is from NIC to NIC")
    one_way = not all_linked and len(users) > 1
    for suffix, inwards in (("_out", False), ("_in", True)) if one_way else (("", False),):
        slot = layout.add_pcie(f"slot{number}{suffix}")

        def ends(a: str, b: str, inwards: bool = inwards) -> tuple[str, str]:
            return (b, a) if inwards else (a, b)

        for gpu in users:
            alpha, limits = _way(dump, gpu, next(i for i in ports if i in routes[gpu]), alphas, bandwidth)
            layout.wire(
                ends(layout.gpus[gpu], slot),
                "GPU to a network card",
                alpha,
                narrowest(*(limits or (card,))),
                one_way=one_way,
            )
        above = slot
        if len(ports) > 1:
            above = layout.add_pcie(f"card{number}{suffix}")
            layout.wire(ends(slot, above), "PCIe of a network card", none, card, one_way=one_way)
        for i in ports:
            gbps = card if len(ports) == 1 else nic_figure((dump.nics or ())[i])
            layout.wire(ends(above, layout.nic_of[i]), "card to its port", none, gbps, one_way=one_way)


def _way(
    dump: Dump, gpu: int, nic: int, alphas: Alphas, bandwidth: Bandwidth
) -> tuple[Figure, tuple[Figure, ...]]:
    """The latency that a GPU's way to a port adds, and what is reported of what limits it before the card."""
    limits = [pcie_figure(dump.gpus[gpu], bandwidth)] if dump.gpus[gpu].pcie_gbps is not None else []
    for bridge in dump.bridges or ():
        if bridge.gbps is not None and (gpu in bridge.gpus) != (nic in bridge.nics):
            limits.append(pcie_gbps(bridge.gbps, bridge.place, bandwidth))
    near = dump.nic_nearness[gpu][nic] if dump.nic_nearness else None
    if near == Nearness.SYS:
        limits.append(between_cpus(dump))
        rule = f"the NIC is at another CPU: {alphas.cpu_source}"
        return Figure(alphas.cpu_us, "assumed", rule), tuple(limits)
    return Figure(0.0, "assumed", "the network's latency is from NIC to NIC"), tuple(limits)
