"""A CSV file of measured costs between nodes, or between NICs, as the network between nodes.

One row for a pair: `from,to,alpha_us,bandwidth_gbps` (or `beta_us_per_mb`). An end is a node (`3`, `node3`),
which stands for each of its NICs, or a NIC (`node3.nic0`). There are no levels and no
switches: between two NICs is one link for that pair, and what a NIC can do at once is the best of its rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from taccl.errors import TopologyError
from taccl.model.units import MAX_ALPHA_US, MAX_BETA_US_PER_MB, MB, MIN_BETA_US_PER_MB
from taccl.support.reading import utf8_text
from taccl.topologies.devices import MAX_LINKS, NO_NODE, Device, Link
from taccl.topologies.strict_yaml import Node

MAX_BYTES = 2**24
_END = re.compile(r"(?:node)?([0-9]{1,6})(?:\.([A-Za-z][A-Za-z0-9_]{0,39}))?")
_COST_COLUMNS = ("beta_us_per_mb", "bandwidth_gbps")


class At(NamedTuple):
    """Where a number is written."""

    path: Path | None
    line: int


@dataclass(frozen=True)
class Cost:
    """Of one way, and the line that says it."""

    alpha_us: float
    beta_us_per_mb: float
    line: int


def links_with_costs(place: Node, nics: Sequence[Sequence[str]]) -> tuple[list[Device], list[Link]]:
    """The devices and links between the NICs of a machine.

    Each NIC has a way out and a way in at the least of its betas, which all its transfers share, and each
    pair a link of its own with the alpha and beta of its row. A row for one direction stands for the other,
    too, unless that has its own. Rows of nodes that the machine lacks are left out, as are those of a node
    to itself.

    Parameters
    ----------
    place : the value of `fabric`: the name of the file, next to the machine's file.
    nics : the names of the NICs of each node.

    Raises
    ------
    FileError : the file cannot be read.
    TopologyError : with its line; also for a pair without a row.
    """
    path = alongside(place)
    costs = _costs(path, nics)

    def cost(a: str, b: str) -> Cost:
        found = costs.get((a, b)) or costs.get((b, a))
        if found is None:
            raise TopologyError(
                f"there is no row from {a} to {b}", path=path, hint="each pair of nodes needs one"
            )
        return found

    return links_between(place, nics, cost)


def links_between(
    place: Node, nics: Sequence[Sequence[str]], cost: Callable[[str, str], Cost]
) -> tuple[list[Device], list[Link]]:
    """A link for each two NICs of different nodes, and a way out and in for each NIC.

    Parameters
    ----------
    place : of the file, for messages.
    cost : from one NIC to another.
    """
    pairs = [
        (a, b)
        for here, names in enumerate(nics)
        for there, others in enumerate(nics)
        if here != there
        for a in names
        for b in others
    ]
    if len(pairs) > MAX_LINKS:
        raise place.error(f"{len(pairs)} pairs of NICs are more than {MAX_LINKS} links")
    out: dict[str, float] = {}
    into: dict[str, float] = {}
    links: list[Link] = []
    for a, b in pairs:
        found = cost(a, b)
        out[a] = min(out.get(a, math.inf), found.beta_us_per_mb)
        into[b] = min(into.get(b, math.inf), found.beta_us_per_mb)
        links.append(Link(f"{a}.out", f"{b}.in", found.alpha_us, found.beta_us_per_mb))
    ends = [(name, f"{name}.out", beta) for name, beta in out.items()]
    ends += [(f"{name}.in", name, beta) for name, beta in into.items()]
    names = [*(f"{name}.out" for name in out), *(f"{name}.in" for name in into)]
    devices = [Device(name, "fabric", NO_NODE, local) for local, name in enumerate(names)]
    return devices, [*(Link(src, dst, 0.0, beta) for src, dst, beta in ends), *links]


def alongside(place: Node) -> Path:
    """The file that `place` names, from the folder of the YAML file that names it."""
    folder = Path() if place.source.path is None else Path(place.source.path).parent
    return folder / place.string()


def _costs(path: Path, nics: Sequence[Sequence[str]]) -> dict[tuple[str, str], Cost]:
    costs: dict[tuple[str, str], Cost] = {}
    node_of = {name: node for node, names in enumerate(nics) for name in names}
    named: dict[str, Sequence[str]] = {}  # of each word, the NICs that it stands for
    for line, row in _rows(path):
        cost = _cost(path, line, row)
        ends = row["from"], row["to"]
        for word in ends:
            if word not in named:
                named[word] = _ends(path, line, word, nics)
        for a in named[ends[0]]:
            for b in named[ends[1]]:
                if node_of[a] == node_of[b]:
                    continue
                if (a, b) in costs:
                    raise TopologyError(
                        f"the cost from {a} to {b} is already on line {costs[a, b].line}",
                        path=path,
                        line=line,
                    )
                costs[a, b] = cost
    return costs


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The line and the cells of each row by the names in the header; `#` begins a comment."""
    lines = utf8_text(path, MAX_BYTES, TopologyError).split("\n")
    kept = [(number, text) for number, text in enumerate(lines, start=1) if text.split("#")[0].strip()]
    header: list[str] | None = None
    for number, text in kept:
        cells = [cell.strip(" \t\r\"'") for cell in text.split("#")[0].split(",")]
        if header is None:
            header = [cell.lower() for cell in cells]
            _check_header(path, number, header)
        elif len(cells) != len(header):
            raise TopologyError(f"this row has {len(cells)} cells, not {len(header)}", path=path, line=number)
        else:
            yield number, dict(zip(header, cells, strict=True))
    if header is None:
        raise TopologyError("the file is empty", path=path, line=1, hint="from,to,alpha_us,bandwidth_gbps")


def _check_header(path: Path, line: int, header: Sequence[str]) -> None:
    known = {"from", "to", "alpha_us", *_COST_COLUMNS}
    is_whole = {"from", "to", "alpha_us"} <= set(header) and len(set(header) & set(_COST_COLUMNS)) == 1
    if not is_whole or not set(header) <= known or len(set(header)) < len(header):
        raise TopologyError(
            f"the header must be from, to, alpha_us, and bandwidth_gbps or beta_us_per_mb, not "
            f"{', '.join(header)[:80]}",
            path=path,
            line=line,
            hint="from,to,alpha_us,bandwidth_gbps",
        )


def _cost(path: Path, line: int, row: dict[str, str]) -> Cost:
    alpha = _number(path, line, row, "alpha_us")
    column = _COST_COLUMNS[0] if _COST_COLUMNS[0] in row else _COST_COLUMNS[1]
    at = At(path, line)
    return Cost(checked_alpha(at, alpha), beta_of(at, column, _number(path, line, row, column)), line)


def checked_alpha(at: At, alpha_us: float) -> float:
    """An alpha that a link can have.

    Raises
    ------
    TopologyError : at its file and line, for one that none can have.
    """
    if not 0 <= alpha_us <= MAX_ALPHA_US:
        raise TopologyError(f"an alpha of {alpha_us:g} us cannot be", path=at.path, line=at.line)
    return alpha_us


def beta_of(at: At, column: str, value: float) -> float:
    """A beta that a link can have, us per MB.

    Parameters
    ----------
    column : whether `value` is a `bandwidth_gbps` or a `beta_us_per_mb`.

    Raises
    ------
    TopologyError : at its file and line, for one that none can have.
    """
    beta = MB / (value * 1e3) if column == "bandwidth_gbps" and value > 0 else value
    if not MIN_BETA_US_PER_MB <= beta <= MAX_BETA_US_PER_MB:
        raise TopologyError(
            f"{column} must be positive and possible, not {value:g}", path=at.path, line=at.line
        )
    return beta


def _number(path: Path, line: int, row: dict[str, str], column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise TopologyError(f"{column} must be a number, not {row[column]!r}", path=path, line=line)
    return value


def _ends(path: Path, line: int, word: str, nics: Sequence[Sequence[str]]) -> Sequence[str]:
    """The NICs that an end stands for; none of a node that the machine lacks."""
    match = _END.fullmatch(word)
    if match is None:
        raise TopologyError(
            f"{word[:40]!r} is no node and no NIC", path=path, line=line, hint="3, node3 or node3.nic0"
        )
    node = int(match[1])
    if match[2] is None:
        return nics[node] if node < len(nics) else ()
    if node >= len(nics):
        return ()
    name = f"node{node}.{match[2]}"
    if name not in nics[node]:
        raise TopologyError(f"a node has no NIC {match[2]!r}", path=path, line=line, hint=nics[node][0])
    return (name,)
