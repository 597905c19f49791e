"""The table of an import: every number of a machine and how it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from taccl.support.lists import equal, few, spans
from taccl.topologies.importers.nodes.facts import Dump, Known, Nearness, Nic
from taccl.topologies.importers.nodes.figures import (
    nearest_nics,
    nic_figure,
    pcie_figure,
    rated_links,
)
from taccl.topologies.importers.nodes.layout import NodeLayout
from taccl.topologies.machines.figures import Bandwidth, Figure


def nearest_names(dump: Dump) -> tuple[tuple[str, ...], ...]:
    """Of each GPU, the names of the nearest ports as the dump has them."""
    nics = dump.nics or ()
    return tuple(tuple(nics[i].name for i in near) for near in nearest_nics(dump))


def _rows_of_links(dump: Dump, bandwidth: Bandwidth) -> Iterator[Known]:
    """How many links there are and how fast they are, equal ones in one row."""
    rated = rated_links(dump, bandwidth)
    for wires in equal([(each.count.value, each.each.value, each.link.b is None) for each in rated]):
        first = rated[wires[0]]
        if first.link.b is None:
            to = "to the switch" if dump.has_switch else "to ends that are not stated"
            who = f"GPUs {_runs(rated[i].link.a for i in wires)} {to}"
        else:
            who = "GPUs " + few(f"{rated[i].link.a}-{rated[i].link.b}" for i in wires)
        yield _row(f"links, {who}", first.count)
        yield _row(f"GB/s of a link, {who}", first.each)


def _rows_of_nics(dump: Dump, nics: Sequence[Nic]) -> Iterator[Known]:
    """How many NICs there are, how fast they are, and which is nearest to each GPU."""
    source = str(nics[0].place) if nics else f"no NIC in {dump.gpus[0].place.path or 'the file'}"
    yield Known("NICs", len(nics), "read", source)
    ports = [nic_figure(nic) for nic in nics]
    for which in equal([(port.value, port.how) for port in ports]):
        yield _row(f"GB/s of {', '.join(nics[i].name for i in which)}", ports[which[0]])
    if nics and (dump.nic_nearness or dump.nearest_nics):
        for gpu, names in enumerate(nearest_names(dump)):
            nearest = ", ".join(names) or "none on its CPU"
            yield Known(f"nearest NIC of GPU {gpu}", nearest, "inferred", _rule_of_nearness(dump, gpu))


def known_values(
    dump: Dump, layout: NodeLayout, figures: Sequence[Figure | None], bandwidth: Bandwidth
) -> list[Known]:
    """Every number of the machine and how it is known, those equivalent in one row."""
    rows = [Known("GPUs", len(dump.gpus), "read", str(dump.gpus[0].place))]
    if layout.gpu is not None:
        rows.append(layout.gpu)
    if dump.order:
        rows.append(Known("order of GPUs", dump.order, "inferred", f"devs {[gpu.dev for gpu in dump.gpus]}"))
    rows += _rows_of_links(dump, bandwidth)
    pcie = [pcie_figure(gpu, bandwidth) for gpu in dump.gpus]
    if layout.pcie or any(figure.how != "assumed" for figure in pcie):
        rows += _rows_equivalent("PCIe GB/s of GPUs", pcie)
    rows += _rows_equivalent("GB/s to other GPUs, of GPUs", figures)
    if dump.nics is not None:
        rows += _rows_of_nics(dump, dump.nics)
    for wire in layout.wires:
        rows.append(_row(f"alpha us, {wire.what}", wire.alpha_us))
        rows.append(_row(f"GB/s, {wire.what}", wire.gbps))
    rows += [_row(f"GB/s of a GPU, sums in {switch}", gbps) for switch, gbps in layout.summing.items()]
    if layout.fabric is not None:
        rows.append(_row("alpha us, network", layout.fabric[0]))
        rows.append(_row("GB/s, network", layout.fabric[1]))
    seen: dict[tuple[str, object], Known] = {}
    for row in rows:
        seen.setdefault((row.quantity, row.value), row)
    return list(seen.values())


def _rule_of_nearness(dump: Dump, gpu: int) -> str:
    row = [each for each in (dump.nic_nearness[gpu] if dump.nic_nearness else ()) if each is not None]
    word = Nearness(min(row)).name if row else "unknown"
    return f"the lowest common place in PCIe: {word} (GPU: {dump.gpus[gpu].place})"


def _row(quantity: str, figure: Figure) -> Known:
    value = int(figure.value) if float(figure.value).is_integer() else figure.value
    return Known(quantity, value, figure.how, figure.source)


def _rows_equivalent(quantity: str, figures: Sequence[Figure | None]) -> list[Known]:
    rows = []
    for which in equal([None if figure is None else (figure.value, figure.how) for figure in figures]):
        first = figures[which[0]]
        if first is None:
            rows.append(
                Known(f"{quantity} {_runs(which)}", "not stated", "inferred", "no file has their links")
            )
        else:
            rows.append(_row(f"{quantity} {_runs(which)}", first))
    return rows


def _runs(numbers: Iterable[int]) -> str:
    return ", ".join(spans(sorted(numbers)))
