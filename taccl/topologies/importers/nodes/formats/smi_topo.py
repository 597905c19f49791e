"""`nvidia-smi topo -m`: which GPUs have NVLinks, and how near GPUs and NICs are by PCIe."""

from __future__ import annotations

import re
from typing import NoReturn

from taccl.support.tables import FileLine, plain_lines
from taccl.topologies.importers.nodes.facts import Cpu, Dump, Gpu, GpuLink, Nearness, Nic
from taccl.topologies.importers.nodes.formats.device_matrix import (
    GPU,
    DeviceMatrix,
    Row,
    has_matrix,
    read_matrix,
)
from taccl.topologies.importers.nodes.nvlinks import Wiring, wiring

NAME = "nvidia-smi-topo"
_NEARNESS = {
    "X": Nearness.SELF,
    "PSB": Nearness.PIX,  # of boards with two GPUs and a bridge, by old drivers
    "PIX": Nearness.PIX,
    "PXB": Nearness.PXB,
    "PHB": Nearness.PHB,
    "NODE": Nearness.NODE,
    "SYS": Nearness.SYS,
    "SOC": Nearness.SYS,  # as old drivers said it
}
_NVLINKS = re.compile(r"NV(\d{1,3})")
#: A node, or several of which the first has the CPU: memory of a Grace Hopper's GPU is nodes of its own.
_FIRST_NUMA = re.compile(r"(\d{1,4})(?:,[\d,-]*)?")
_LEGEND = re.compile(r"\b(NIC\d+)\s*[:=]\s*(\S+)")
_COMMAND = re.compile(r"topo\s+(-mp?\b|--matrix(?:_pci)?)")


def looks_like(text: str) -> bool:
    """Whether such a table stands in the text; that of `topo -p2p` has other words."""
    return has_matrix(text, _is_cell)


def read(text: str, path: str | None) -> Dump:
    """What the table tells.

    Counts of NVLinks that differ between the two ends of a pair are a link that is down: the smaller one
    holds. Nearness by PCIe cannot differ, so then the paste is damaged.

    Raises
    ------
    TopologyError : the table is not whole, or says two things of one pair.
    """
    lines = plain_lines(text)
    table = read_matrix(lines, _is_cell, "`nvidia-smi topo -m`", path)
    gpus = tuple(name for name in table.columns if GPU.fullmatch(name))
    nics = tuple(name for name in table.columns if not GPU.fullmatch(name))
    warnings = [
        f"{FileLine(path, row.line)}: row {name}: two cells stood joined before column {column}; taken apart"
        for name, row in table.rows.items()
        for column in row.split
    ]
    if table.is_headless:
        warnings.append(
            f"{FileLine(path, table.line)}: the table has no header; columns are named by its rows"
        )
    if table.another is not None:
        place = FileLine(path, table.another)
        warnings.append(f"{place}: another table begins here; only the first of the file is read")
    counts = _link_counts(table, gpus, path, warnings)
    pcie_only = _is_pcie_only(lines, table) and not any(any(row) for row in counts)
    wires = wiring(counts)
    links = None if pcie_only else _links(table, gpus, counts, wires, path)
    if pcie_only:
        warnings.append(f"{FileLine(path, table.line)}: `topo -mp` shows no NVLinks: give `topo -m` too")
    elif not links and len(gpus) > 1:
        warnings.append(
            f"{FileLine(path, table.line)}: no NVLink stands in this table; `topo -mp` and many containers"
            " hide them"
        )
    warnings += _odd_counts(table, gpus, counts, wires, path)
    return Dump(
        NAME,
        tuple(_gpu(name, table.rows[name], path) for name in gpus),
        nics=_nics(lines, table, nics, path),
        links=links,
        has_switch=None if pcie_only else wires.has_switch,
        gpu_nearness=tuple(tuple(_nearness(table, a, b, path) for b in gpus) for a in gpus),
        nic_nearness=tuple(tuple(_nearness(table, a, b, path) for b in nics) for a in gpus),
        cpus=_grace(table, gpus, path),
        order="as `nvidia-smi` counts GPUs",
        warnings=tuple(warnings),
    )


def _is_pcie_only(lines: list[str], table: DeviceMatrix) -> bool:
    """Whether this is `topo -mp`: the command stands above the table, or the legend below lacks `NV#`."""
    commands = [found[1] for line in lines[: table.line] for found in _COMMAND.finditer(line)]
    if commands:
        return commands[-1] in ("-mp", "--matrix_pci")
    below = lines[table.end - 1 : None if table.another is None else table.another - 1]
    words = {line.split()[0] for line in below if "=" in line and line.split()}
    return {"SYS", "PIX"} <= words and "NV#" not in words


def _is_cell(word: str) -> bool:
    return word in _NEARNESS or _NVLINKS.fullmatch(word) is not None


def _gpu(name: str, row: Row, path: str | None) -> Gpu:
    numa = _FIRST_NUMA.fullmatch(row.tail.get("NUMA Affinity", ""))
    return Gpu(FileLine(path, row.line), numa=None if numa is None else int(numa[1]), dev=int(name[3:]))


def _grace(table: DeviceMatrix, gpus: tuple[str, ...], path: str | None) -> tuple[Cpu, ...] | None:
    """The Grace processors of GPUs whose memory is a NUMA node; None where no GPU's is."""
    rows = [table.rows[name] for name in gpus if table.rows[name].tail.get("GPU NUMA ID", "")[:1].isdigit()]
    first = {_gpu(name, table.rows[name], path).numa: table.rows[name].line for name in reversed(gpus)}
    found = tuple(Cpu(FileLine(path, line), numa, "arm64") for numa, line in reversed(first.items()))
    return found if rows else None


def _nics(lines: list[str], table: DeviceMatrix, nics: tuple[str, ...], path: str | None) -> tuple[Nic, ...]:
    """Ports with the names that the legend below the table gives them."""
    names: dict[str, str] = {}
    for line in lines[table.end - 1 : None if table.another is None else table.another - 1]:
        for short, name in _LEGEND.findall(line):
            names.setdefault(short, name)
    return tuple(
        Nic(
            FileLine(path, table.rows[nic].line if nic in table.rows else table.line),
            names.get(nic, nic),
        )
        for nic in nics
    )


def _cell(table: DeviceMatrix, a: str, b: str) -> str | None:
    row = table.rows.get(a)
    return None if row is None else row.cells[table.columns.index(b)]


def _nearness(table: DeviceMatrix, a: str, b: str, path: str | None) -> Nearness | None:
    """By PCIe; None where NVLinks stand in its place."""
    here, there = _cell(table, a, b), _cell(table, b, a)
    near = {_NEARNESS.get(cell) for cell in (here, there) if cell is not None} - {None}
    if len(near) > 1:
        _disagree(table, a, b, path)
    if (here or "").startswith("NV") and not GPU.fullmatch(b):
        line = table.rows[a].line
        message = f"row {a}, column {b}: NVLinks to a NIC do not exist"
        raise FileLine(path, line).error(message, "give the table as it was printed")
    return next(iter(near), None)


def _link_counts(
    table: DeviceMatrix, gpus: tuple[str, ...], path: str | None, warnings: list[str]
) -> list[list[int]]:
    counts = [[0] * len(gpus) for _ in gpus]
    for i, a in enumerate(gpus):
        for j, b in enumerate(gpus[:i]):
            here, there = _count(table, a, b), _count(table, b, a)
            if here != there:
                rows = table.rows[a], table.rows[b]
                if rows[0].split or rows[1].split:
                    _disagree(table, a, b, path)
                warnings.append(
                    f"{FileLine(path, rows[1].line)}: {b} has {there} NVLinks towards {a}, and {a} has {here}"
                    f" towards {b} (line {rows[0].line}): a link is down; {min(here, there)} are taken"
                )
            counts[i][j] = counts[j][i] = min(here, there)
    return counts


def _count(table: DeviceMatrix, a: str, b: str) -> int:
    found = _NVLINKS.fullmatch(_cell(table, a, b) or "")
    return 0 if found is None else int(found[1])


def _links(
    table: DeviceMatrix, gpus: tuple[str, ...], counts: list[list[int]], wires: Wiring, path: str | None
) -> tuple[GpuLink, ...]:
    places = [FileLine(path, table.rows[name].line) for name in gpus]
    if wires.apart is not None:
        a, b = wires.apart
        raise FileLine(path, table.rows[gpus[a]].line).error(
            f"{gpus[a]} and {gpus[b]} have NVLinks to a switch, but towards each other"
            f" {_cell(table, gpus[a], gpus[b])}",
            "one switch joins all; give the GPUs of one NVLink domain, or the whole table as printed",
        )
    ports = [max(row) for row in counts] if wires.has_switch is None else wires.ports
    if ports:
        switches = wires.switch_of or (0,) * len(gpus)
        return tuple(
            GpuLink(places[gpu], gpu, None, "nvlink", count, switch=switches[gpu])
            for gpu, count in enumerate(ports)
            if count
        )
    return tuple(
        GpuLink(places[a], a, b, "nvlink", counts[a][b])
        for a in range(len(gpus))
        for b in range(a + 1, len(gpus))
        if counts[a][b]
    )


def _odd_counts(
    table: DeviceMatrix, gpus: tuple[str, ...], counts: list[list[int]], wires: Wiring, path: str | None
) -> list[str]:
    """What is odd about how many links GPUs have."""
    if not any(any(row) for row in counts):
        return []
    found = []
    if max(wires.switch_of, default=0):
        other = next(gpu for gpu, switch in enumerate(wires.switch_of) if switch)
        found.append(
            f"{FileLine(path, table.rows[gpus[other]].line)}: {gpus[other]} hangs at another NVSwitch than"
            f" {gpus[0]}: no NVLinks lead from one to the other"
        )
    totals = wires.ports or [sum(row) for row in counts]
    for name, total in zip(gpus, totals, strict=True):
        if total < max(totals):
            found.append(
                f"{FileLine(path, table.rows[name].line)}: {name} has {total} NVLinks, others {max(totals)}"
            )
    return found


def _disagree(table: DeviceMatrix, a: str, b: str, path: str | None) -> NoReturn:
    here, there = table.rows[a], table.rows[b]
    raise FileLine(path, max(here.line, there.line)).error(
        f"{a} to {b} is {_cell(table, a, b)} in line {here.line}, and {b} to {a} is {_cell(table, b, a)}"
        f" in line {there.line}",
        "the paste is damaged: give the table as it was printed",
    )
