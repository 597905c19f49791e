"""A dump as a machine: what `taccl topology import` writes, and the figures that it prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from taccl.errors import TopologyError
from taccl.support.lists import joined
from taccl.support.tables import FileLine
from taccl.topologies import PhysicalTopology, parse_topology
from taccl.topologies.devices import MAX_GPUS
from taccl.topologies.importers.nodes.facts import Dump, Known
from taccl.topologies.importers.nodes.figures import (
    RatedLink,
    gpu_gbps,
    nic_figure,
    rated_links,
    summing_figures,
)
from taccl.topologies.importers.nodes.gpu_models import family, unnamed_generation, with_model
from taccl.topologies.importers.nodes.layout import NodeLayout, machine_yaml, nic_names
from taccl.topologies.importers.nodes.next_to_nics import add_nic_paths, used_nics
from taccl.topologies.importers.nodes.nvlinks import settled, without_open_links
from taccl.topologies.importers.nodes.pcie_tree import add_pcie_tree
from taccl.topologies.importers.nodes.rates import Alphas, Protocol, alphas
from taccl.topologies.importers.nodes.report import known_values, nearest_names
from taccl.topologies.machines.figures import Bandwidth, Figure

#: NICs no faster than this make no network for a collective.
_SLOW_NIC_GBPS = 1.25


@dataclass(frozen=True)
class Imported:
    """A machine and how it is known.

    Parameters
    ----------
    dump : what was read.
    gpu_gbps : for each GPU, GB/s of all its routes to other GPUs together, one direction; None where no file
        tells its links.
    nearest_nics : for each GPU, names as the dump has them.
    links : between GPUs, and from GPUs to the switch, with their speeds.
    values : every number of the machine and how it is known.
    yaml : the text of the machine file.
    topology : the machine in that text.
    """

    dump: Dump
    gpu_gbps: tuple[float | None, ...]
    nearest_nics: tuple[tuple[str, ...], ...]
    links: tuple[RatedLink, ...]
    values: tuple[Known, ...]
    warnings: tuple[str, ...]
    yaml: str
    topology: PhysicalTopology

    def to_dict(self) -> dict[str, object]:
        """What `--json` prints, without its schema."""
        return {
            "format": self.dump.format,
            "gpus": len(self.dump.gpus),
            "nics": len(self.dump.nics or ()),
            "nvswitch": bool(self.dump.has_switch),
            "gpu_gbps": list(self.gpu_gbps),
            "nearest_nics": [list(names) for names in self.nearest_nics],
            "links": [
                {
                    "gpu": link.link.a,
                    "peer": link.link.b,
                    "kind": link.link.kind,
                    "count": int(link.count.value),
                    "total_gbps": link.total.value,
                }
                for link in self.links
            ],
            "values": [asdict(row) for row in self.values],
            "warnings": list(self.warnings),
        }


def make_machine(
    dump: Dump,
    name: str = "imported",
    *,
    nodes: int = 1,
    bandwidth: Bandwidth = "nccl",
    protocol: Protocol | None = None,
    gpu: str | None = None,
) -> Imported:
    """The machine that a dump tells of.

    Parameters
    ----------
    nodes : how many such nodes; their NICs are joined by a flat network.
    bandwidth : `nccl`, what libraries take for reachable, or `peak`, the vendor's figures.
    protocol : whose latencies are taken; those of small messages where it is None.
    gpu : the model of the GPUs, such as `B200`, where no file names it.

    Raises
    ------
    TopologyError : several nodes without a NIC, more GPUs than a machine may have, or a plan alone, or a
        `gpu` that a file contradicts.
    """
    if dump.plan is not None:
        raise FileLine(dump.gpus[0].place.path, 1).error(
            "this is a plan that NCCL made, which tells no link and no speed of a machine",
            "give the file of NCCL_TOPO_DUMP_FILE too: the plan checks it",
        )
    dump = settled(dump if gpu is None else with_model(dump, gpu))
    if nodes > 1 and not dump.nics:
        raise TopologyError(
            f"{nodes} nodes cannot be joined: {dump.gpus[0].place.path or 'the file'} tells of no NIC",
            hint="give a file that lists the NICs too, or leave the number of nodes out",
        )
    if nodes < 1 or nodes * len(dump.gpus) > MAX_GPUS:
        raise TopologyError(
            f"a machine has 1 or more nodes and at most {MAX_GPUS} GPUs, not {nodes} such nodes"
        )
    costs = alphas(protocol)
    layout = _lay_out(without_open_links(dump), costs, bandwidth)
    taken = [unnamed_generation(dump), _network_of_unknown_speed(layout) if nodes > 1 else None]
    warnings = (*dump.warnings, *layout.warnings, *filter(None, taken))
    header = [
        f"Made by `taccl topology import` from {dump.format}; bandwidths: {bandwidth}, one direction.",
        "read = a file says so; inferred = it follows from what a file says; assumed = a constant.",
        *(f"warning: {warning}" for warning in warnings),
    ]
    text = machine_yaml(layout, name, nodes, header, _gpu_comments(dump))
    figures = gpu_gbps(dump, bandwidth)
    return Imported(
        dump=dump,
        gpu_gbps=tuple(None if figure is None else figure.value for figure in figures),
        nearest_nics=nearest_names(dump),
        links=rated_links(dump, bandwidth),
        values=tuple(known_values(dump, layout, figures, bandwidth)),
        warnings=warnings,
        yaml=text,
        topology=parse_topology(text),
    )


def _lay_out(dump: Dump, costs: Alphas, bandwidth: Bandwidth) -> NodeLayout:
    """Devices and wires: NVLinks and xGMI, then PCIe as far as it matters, then the network."""
    layout = NodeLayout(gpus=tuple(f"gpu{i}" for i in range(len(dump.gpus))), gpu=family(dump))
    _name_nics(layout, dump)
    _add_links(layout, dump, costs, bandwidth)
    pieces, all_linked = _joined(dump)
    if pieces > 1:
        if dump.links is None:
            layout.warnings.append(
                "no file tells whether GPUs have NVLinks or xGMI: the machine has PCIe only;"
                " add `nvidia-smi topo -m`, or the file of NCCL_TOPO_DUMP_FILE"
            )
        add_pcie_tree(layout, dump, costs, bandwidth)
    else:
        add_nic_paths(layout, dump, used_nics(dump), costs, bandwidth, all_linked=all_linked)
    if layout.nics:
        _add_network(layout, dump, costs)
    return layout


def _name_nics(layout: NodeLayout, dump: Dump) -> None:
    """The ports of the machine, those near the first GPUs first, since the model takes them in order.

    One that no GPU would use and that is slower than those in use is left out, for the network has one speed.
    """
    nics, routes = dump.nics or (), used_nics(dump)
    used = {i for mine in routes for i in mine}
    slowest = min((nic_figure(nics[i]).value for i in used), default=0.0)
    kept = [i for i, nic in enumerate(nics) if i in used or nic_figure(nic).value >= slowest]
    for i in sorted(set(range(len(nics))) - set(kept)):
        layout.warnings.append(
            f"{nics[i].place}: {nics[i].name} is slower than those next to GPUs: not in the machine file"
        )
    first = {i: next((gpu for gpu, mine in enumerate(routes) if i in mine), len(routes)) for i in kept}
    kept.sort(key=lambda i: (first[i], i))
    layout.nic_of = nic_names(nics, kept)
    layout.nics = tuple(layout.nic_of[i] for i in kept)


def _add_links(layout: NodeLayout, dump: Dump, costs: Alphas, bandwidth: Bandwidth) -> None:
    whole = Figure(costs.link_us, "assumed", costs.link_source)
    half = Figure(
        costs.link_us / 2, "assumed", f"half of {costs.link_us:g} us on each side, {costs.link_source}"
    )
    for rated_link in rated_links(dump, bandwidth):
        link = rated_link.link
        kind = {"nvlink": "NVLink", "xgmi": "xGMI", "pcie": "PCIe"}[link.kind]
        if link.b is None:
            switch = _switch_name(link.switch)
            if switch not in layout.switches:
                layout.switches.append(switch)
            ends = (layout.gpus[link.a], switch)
            layout.wire(ends, f"{kind} to the switch", half, rated_link.total)
        else:
            layout.wire((layout.gpus[link.a], layout.gpus[link.b]), kind, whole, rated_link.total)

    for number, gbps in summing_figures(dump, bandwidth).items():
        layout.summing[_switch_name(number)] = gbps


def _switch_name(number: int) -> str:
    return f"nvswitch{number or ''}"


def _joined(dump: Dump) -> tuple[int, bool]:
    """Into how many parts the GPUs fall by their links, and whether every two have one or the switch."""
    gpus = range(len(dump.gpus))
    pairs, at_switch = set(), {}
    for link in dump.links or ():
        if link.b is None:
            at_switch[link.a] = link.switch
        else:
            pairs |= {(link.a, link.b), (link.b, link.a)}
    linked = pairs | {(a, b) for a in at_switch for b in at_switch if at_switch[a] == at_switch[b]}
    return len(joined(gpus, linked)), all((a, b) in linked for a in gpus for b in gpus if a != b)


def _add_network(layout: NodeLayout, dump: Dump, costs: Alphas) -> None:
    nics = dump.nics or ()
    speeds = [nic_figure(nics[i]) for i in layout.nic_of]
    slowest = min(speeds, key=lambda figure: figure.value)
    if slowest.value < max(figure.value for figure in speeds):
        layout.warnings.append(
            f"NICs have different speeds: the network has that of the slowest, {slowest.value:g} GB/s"
        )
        slowest = Figure(slowest.value, "inferred", f"the slowest NIC, {slowest.how} {slowest.source}")
    if max(figure.value for figure in speeds) <= _SLOW_NIC_GBPS:
        layout.warnings.append(
            f"{nics[0].place}: no NIC is faster than {_SLOW_NIC_GBPS * 8:g} Gb/s: none for a cluster"
        )
    alpha = Figure(costs.network_us, "assumed", f"NIC to NIC, {costs.network_source}")
    layout.fabric = (alpha, slowest)


def _network_of_unknown_speed(layout: NodeLayout) -> str | None:
    """A warning of nodes whose network has a speed that no file tells."""
    if layout.fabric is None or layout.fabric[1].how != "assumed":
        return None
    taken = f"{layout.fabric[1].value:g} GB/s is taken"
    return f"no file tells the speed of a NIC: {taken} between nodes; edit `fabric` in the machine file"


def _gpu_comments(dump: Dump) -> list[str]:
    """For each GPU its place, and what the vendor's tools call it."""
    comments = [f"order: {dump.order}"] if dump.order else []
    for i, gpu in enumerate(dump.gpus):
        facts = [
            f"dev {gpu.dev}" if gpu.dev is not None else "",
            gpu.busid or "",
            gpu.model or gpu.arch or "",
            f"numa {gpu.numa}" if gpu.numa is not None else "",
            f"(read {gpu.place})",
        ]
        comments.append(f"gpu{i} = " + ", ".join(fact for fact in facts[:-1] if fact) + f" {facts[-1]}")
    return comments
