"""`nvidia-smi topo -p2p`: which GPUs may read, write or reach each other, as a mask without any speed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from taccl.support.tables import FileLine, plain_lines
from taccl.topologies.importers.nodes.facts import Dump, Gpu
from taccl.topologies.importers.nodes.formats.device_matrix import (
    GPU,
    DeviceMatrix,
    has_matrix,
    read_matrix,
)

NAME = "nvidia-smi-p2p"
_WORDS = ("X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U")
_COMMAND = re.compile(r"topo\s+(?:-p2p|--p2pstatus)\s+([rwnap]+)\b")


def looks_like(text: str) -> bool:
    """Whether such a table stands in the text; of a single GPU it says nothing."""
    return has_matrix(text, _is_cell)


def read(text: str, path: str | None) -> Dump:
    """What the mask tells.

    Without the command above the table it is taken as one of reads or writes. That of NVLink (`n`) says
    nothing of access by PCIe, and one without any `OK` says that there are no NVLinks.

    Raises
    ------
    TopologyError : the table is not whole, or a device in it is no GPU.
    """
    lines = plain_lines(text)
    table = read_matrix(lines, _is_cell, "`nvidia-smi topo -p2p`", path)
    for name in table.columns:
        if not GPU.fullmatch(name):
            raise FileLine(path, table.line).error(
                f"{name[:40]} is no GPU: such a table has no other devices"
            )
    commands = [found[1] for line in lines[: table.line] for found in _COMMAND.finditer(line)]
    ability = commands[-1] if commands else "rw"
    reads = "r" in ability or "w" in ability
    warnings = list(_one_sided(table, path))
    if table.another is not None:
        place = FileLine(path, table.another)
        warnings.append(f"{place}: another table begins here; only the first of the file is read")
    if reads:
        warnings += _apart(table, path)
    cells = [table.rows[name].cells for name in table.columns]
    any_ok = any(cell == "OK" for row in cells for cell in row)
    no_links = ability == "n" and not any_ok
    return Dump(
        NAME,
        tuple(Gpu(FileLine(path, table.rows[name].line), dev=int(name[3:])) for name in table.columns),
        links=() if no_links else None,
        has_switch=False if no_links else None,
        peer_access=tuple(tuple(_access(cell) for cell in row) for row in cells) if reads else None,
        order="as `nvidia-smi` counts GPUs",
        warnings=tuple(warnings),
    )


def _one_sided(table: DeviceMatrix, path: str | None) -> Iterator[str]:
    """Warnings of GPUs whose cells towards each other differ."""
    for i, a in enumerate(table.columns):
        for j, b in enumerate(table.columns[:i]):
            here, there = table.rows[a], table.rows[b]
            if here.cells[j] != there.cells[i]:
                yield (
                    f"{FileLine(path, here.line)}: {a} to {b} is {here.cells[j]}, and {b} to {a} is "
                    f"{there.cells[i]} (line {there.line})"
                )


def _apart(table: DeviceMatrix, path: str | None) -> Iterator[str]:
    """A warning of the pairs of GPUs that may not reach each other; it names the first of them."""
    apart = [
        (f"{a} and {b}", table.rows[a].cells[j])
        for (i, a), (j, b) in combinations(enumerate(table.columns), 2)
        if False in (_access(table.rows[a].cells[j]), _access(table.rows[b].cells[i]))
    ]
    if apart:
        which = (
            f"{len(apart)} pairs of GPUs may not reach each other, {apart[0][0]} ({apart[0][1]}) among them"
        )
        yield f"{FileLine(path, table.line)}: {which}: what these send passes the host's memory"


def _is_cell(word: str) -> bool:
    return word in _WORDS


def _access(cell: str) -> bool | None:
    return None if cell == "U" else cell in ("OK", "X")
