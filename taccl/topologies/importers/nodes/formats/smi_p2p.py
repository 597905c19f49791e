"""`nvidia-smi topo -p2p`: which GPUs may read, write or reach each other, as a mask without any speed.

Knows the words of that table. It names no link and no way, so it makes none: what is not `OK` is told as
such, and the rest is for other dumps to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.facts import Dump, Gpu, Place
from taccl.topologies.importers.nodes.formats.device_matrix import (
    GPU,
    DeviceMatrix,
    has_matrix,
    plain_lines,
    read_matrix,
)

NAME = "nvidia-smi-p2p"
_WORDS = ("X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U")
_COMMAND = re.compile(r"topo\s+(?:-p2p|--p2pstatus)\s+([rwnap]+)\b")


def looks_like(text: str) -> bool:
    """Whether such a table stands in the text; of a single GPU it says nothing."""
    return has_matrix(text, _is_cell)


def _one_sided(table: DeviceMatrix, path: str | None) -> Iterator[str]:
    """Pairs of which the two halves of the table say different things."""
    for i, a in enumerate(table.columns):
        for j, b in enumerate(table.columns[:i]):
            here, there = table.rows[a], table.rows[b]
            forth, back = here.cells[j], there.cells[i]
            if forth != back:
                place = Place(path, here.line)
                yield f"{place}: {a} to {b} is {forth}, and {b} to {a} is {back} (line {there.line})"


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
            raise TopologyError(
                f"{name[:40]} is no GPU: such a table has no other devices", path=path, line=table.line
            )
    commands = [found[1] for line in lines[: table.line] for found in _COMMAND.finditer(line)]
    ability = commands[-1] if commands else "rw"
    cells = [table.rows[name].cells for name in table.columns]
    warnings = list(_one_sided(table, path))
    if table.another is not None:
        place = Place(path, table.another)
        warnings.append(f"{place}: another table begins here; only the first of the file is read")
    reads = "r" in ability or "w" in ability
    apart = [
        (f"{a} and {b}", cells[i][j])
        for i, a in enumerate(table.columns)
        for j, b in enumerate(table.columns)
        if i < j and False in (_access(cells[i][j]), _access(cells[j][i]))
    ]
    if reads and apart:
        warnings.append(
            f"{Place(path, table.line)}: {len(apart)} pairs of GPUs may not reach each other, {apart[0][0]}"
            f" ({apart[0][1]}) among them: what these send passes the host's memory"
        )
    any_ok = any(cell == "OK" for row in cells for cell in row)
    no_links = ability == "n" and not any_ok
    return Dump(
        NAME,
        tuple(Gpu(Place(path, table.rows[name].line), dev=int(name[3:])) for name in table.columns),
        links=() if no_links else None,
        has_switch=False if no_links else None,
        peer_access=tuple(tuple(_access(cell) for cell in row) for row in cells) if reads else None,
        order="as `nvidia-smi` counts GPUs",
        warnings=tuple(warnings),
    )


def _is_cell(word: str) -> bool:
    return word in _WORDS


def _access(cell: str) -> bool | None:
    return None if cell == "U" else cell in ("OK", "X")
