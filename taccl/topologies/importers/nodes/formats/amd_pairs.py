"""What AMD's words for two GPUs mean: which have xGMI links, how many, and how far apart they are by PCIe.

rocm-smi and amd-smi ask the same driver and share this vocabulary. No link is made up: hops of 1 and a type
of XGMI stand also for GPUs that only other GPUs join, as in an MI250X; weights and bandwidths tell them
apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from taccl.support.lists import few, joined
from taccl.support.tables import FileLine, SquareTable, plain_lines
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink, Nearness

WEIGHT, HOPS, TYPE, BANDWIDTH, ACCESS = "weights", "hops", "link types", "bandwidths", "access"
#: No node has this many GPUs, or partitions of GPUs.
MOST_GPUS = 256

#: Weights of one xGMI hop. The kernel gives 15 for each; RCCL takes 13 and 41 for one hop as well.
_ONE_HOP = (13, 15, 41)
#: Weights that PCIe does not have either: they tell a link where the table of types is missing.
_SURELY_XGMI = (13, 15)
#: Weight of two GPUs below one host bridge; more of it crosses sockets.
_ONE_ROOT = 40
#: Between two GPUs; an MI250X has 4, and more of them is a damaged number.
_MOST_LINKS = 8

_XGMI, _PCIE, _NOTHING = "XGMI", "PCIE", ""
_UNKNOWN = {"XXXX", "N/A", "NA", "-", "UNKNOWN", "INTERNAL", "NOT_APPLICABLE"}
_SELF = {"0", "X", "SELF"}
_T = TypeVar("_T")
_TRUE, _FALSE = {"ENABLED", "TRUE", "T"}, {"DISABLED", "FALSE", "F"}


@dataclass(frozen=True)
class _Pair:
    """What all tables say of two GPUs; the line is that of the cell that tells their kind."""

    a: int
    b: int
    both: str
    kind: str
    weight: int | None
    hops: int | None
    bandwidth: tuple[int, int] | None
    access: bool | None
    line: int

    @property
    def is_weighed(self) -> bool:
        """Whether anything is reported of two GPUs but their kind."""
        return bool(self.weight or self.hops or (self.bandwidth and self.bandwidth[1]))


def table_lines(text: str) -> list[str]:
    """The lines of a paste without colours and without what web pages add to tables: bars, stars, quotes."""
    return [
        re.sub(r"[|`*]", " ", re.sub("not supported", "N/A", line, flags=re.I)) for line in plain_lines(text)
    ]


def names_of(tables: Sequence[SquareTable], path: str | None) -> tuple[str, ...]:
    """The GPUs that all tables are about.

    Raises
    ------
    TopologyError : two tables are about different ones.
    """
    first = tables[0]
    for table in tables:
        if sorted(table.names) != sorted(first.names):
            raise FileLine(path, table.line).error(
                f"this table is about other GPUs than the one that begins on line {first.line}",
                "give the output of one machine in a file",
            )
    return first.names


def dump_of_pairs(
    tool: str, tables: Sequence[SquareTable], names: Sequence[str], gpus: Sequence[Gpu], path: str | None
) -> Dump:
    """What the tables tell.

    Parameters
    ----------
    tool : that printed them, `rocm-smi` or `amd-smi`; its index is the order of `gpus`.
    tables : of the titles that this module names.
    names : of `gpus`, in their order.

    Raises
    ------
    TopologyError : a cell is none that the tools print, or nothing tells how the GPUs are joined.
    """
    warnings: list[str] = []
    pairs = _pairs(tables, names, path, warnings)
    if pairs and all(pair.kind == _NOTHING for pair in pairs):
        raise FileLine(path, min(table.line for table in tables)).error(
            "no table here tells whether any two GPUs are joined by xGMI or by PCIe",
            "give all of `rocm-smi --showtopo` or `amd-smi topology`; partitioned GPUs may tell none",
        )
    links: tuple[GpuLink, ...] | None = None
    if any(pair.kind == _XGMI for pair in pairs) and not any(pair.is_weighed for pair in pairs):
        warnings.append(
            "xGMI joins GPUs here, and neither weights nor hops nor bandwidths tell which have a link of "
            "their own"
        )
    else:
        links = tuple(_links(pairs, path, warnings))
    warnings += _hives(pairs, names)
    shut = [pair.both for pair in pairs if pair.access is False]
    if shut:
        warnings.append(f"GPUs that cannot reach each other's memory (access disabled): {few(shut, 3, '; ')}")
    has_access = any(pair.access is not None for pair in pairs)
    return Dump(
        format=tool,
        gpus=tuple(gpus),
        links=links,
        has_switch=False,
        gpu_nearness=_square(pairs, len(gpus), Nearness.SELF, lambda pair: _nearness(pair, gpus)),
        peer_access=_square(pairs, len(gpus), True, lambda pair: pair.access) if has_access else None,
        order=f"by the index of {tool}",
        warnings=tuple(warnings),
    )


def _number(text: str) -> int | None:
    """A weight or a number of hops; None where the driver tells none."""
    if text.upper() in _UNKNOWN:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(text)
    return int(text)


def _kind(text: str) -> str:
    word = text.upper()
    if word not in {_XGMI, _PCIE} | _UNKNOWN | _SELF:
        raise ValueError(text)
    return word if word in (_XGMI, _PCIE) else _NOTHING


def _bandwidth(text: str) -> tuple[int, int] | None:
    """MB/s of one link and of all between the two; None where none is reported."""
    match = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", text)
    if match is None and text.upper() not in _UNKNOWN and text not in _SELF:
        raise ValueError(text)
    return None if match is None else (int(match[1]), int(match[2]))


def _access(text: str) -> bool | None:
    word = text.upper()
    if word not in _TRUE | _FALSE | _UNKNOWN | _SELF:
        raise ValueError(text)
    return word in _TRUE if word in _TRUE | _FALSE else None


@dataclass
class _Tables:
    """The tables that are whole, and the pairs whose two directions differ, by title."""

    path: str | None
    by_title: dict[str, SquareTable] = field(default_factory=dict)
    unequal: dict[str, list[str]] = field(default_factory=dict)

    def values(self, title: str, both: tuple[str, str], read: Callable[[str], _T | None]) -> list[_T]:
        """What the one or two cells of two GPUs say, without those that say nothing.

        Raises
        ------
        TopologyError : a cell is none of such a table, with the line.
        """
        table = self.by_title.get(title)
        cells = [] if table is None else [table.cells.get(both), table.cells.get(both[::-1])]
        found = [cell for cell in cells if cell is not None]
        values = []
        for cell in found:
            try:
                values.append(read(cell.text))
            except ValueError:
                raise FileLine(self.path, cell.line).error(
                    f"{cell.text[:40]!r} is nothing that a table of {title} has for {both[0]} and {both[1]}",
                    "paste the output again, whole; that of a partitioned GPU cannot be imported",
                ) from None
        if len(values) == 2 and values[0] != values[1]:
            lines = f"{found[0].text} on line {found[0].line}, {found[1].text} on line {found[1].line}"
            self.unequal.setdefault(title, []).append(f"{both[0]} and {both[1]} ({lines})")
        return [value for value in values if value is not None]


def _only_table(tables: Sequence[SquareTable], title: str, path: str | None) -> SquareTable | None:
    """The only table of a title; None where there is none.

    Raises
    ------
    TopologyError : several of them say different things.
    """
    found = [table for table in tables if table.title == title]
    for other in found[1:]:
        for pair, cell in other.cells.items():
            first = found[0].cells.get(pair)
            if first is None or first.text != cell.text:
                before = "nothing" if first is None else f"{first.text} on line {first.line}"
                raise FileLine(path, cell.line).error(
                    f"a second table of the {title} says {cell.text} for {pair[0]} and {pair[1]}, "
                    f"the one that begins on line {found[0].line} says {before}",
                    "give the output of one machine in a file",
                )
    return found[0] if found else None


def _pairs(
    tables: Sequence[SquareTable], names: Sequence[str], path: str | None, warnings: list[str]
) -> list[_Pair]:
    """Every two GPUs, once, by both directions of all tables; what does not agree becomes a warning."""
    whole = _Tables(path)
    for title in (TYPE, BANDWIDTH, WEIGHT, HOPS, ACCESS):
        table = _only_table(tables, title, path)
        if table is not None and table.is_whole:
            whole.by_title[title] = table
        elif table is not None:
            warnings.append(
                f"{FileLine(path, table.line)}: the table of the {title} is cut short and not used"
            )
    pairs = [_pair(whole, names, a, b) for a in range(len(names)) for b in range(a + 1, len(names))]
    for title, unequal in whole.unequal.items():
        warnings.append(
            f"the {title} differ in the two directions (a broken link or a damaged paste), "
            f"the weaker is taken: {few(unequal, 3, '; ')}"
        )
    if TYPE not in whole.by_title and any(pair.kind for pair in pairs):
        warnings.append(
            "no table of link types: a weight of 13 or 15, or a bandwidth, is taken for an xGMI link"
        )
    return pairs


def _pair(tables: _Tables, names: Sequence[str], a: int, b: int) -> _Pair:
    both = (names[a], names[b])
    kinds = set(tables.values(TYPE, both, _kind))
    weight = max(filter(None, tables.values(WEIGHT, both, _number)), default=None)
    hops = max(filter(None, tables.values(HOPS, both, _number)), default=None)
    bandwidths = tables.values(BANDWIDTH, both, _bandwidth)
    if len(bandwidths) == 2 and (0, 0) not in bandwidths:  # the fewer and slower of two directions
        bandwidths = [(max(one for one, _ in bandwidths), min(total for _, total in bandwidths))]
    bandwidth = min(bandwidths, default=None)
    access = tables.values(ACCESS, both, _access)
    kind = kinds.pop() if len(kinds) == 1 else _NOTHING
    if TYPE not in tables.by_title and weight is not None:
        kind = _XGMI if weight in _SURELY_XGMI or weight % 15 == 0 else _PCIE
    elif TYPE not in tables.by_title and bandwidth is not None and bandwidth[1] > 0:
        kind = _XGMI
    cells = (table.cells.get(pair) for table in tables.by_title.values() for pair in (both, both[::-1]))
    line = next((cell.line for cell in cells if cell is not None), 1)
    open_ = all(access) if access else None
    return _Pair(a, b, f"{both[0]} and {both[1]}", kind, weight, hops, bandwidth, open_, line)


def _links(pairs: Sequence[_Pair], path: str | None, warnings: list[str]) -> Iterator[GpuLink]:
    """The pairs with links of their own, and how many."""
    reported = any(pair.bandwidth is not None and pair.bandwidth[1] > 0 for pair in pairs)
    weighed = any(pair.weight for pair in pairs)
    uncounted, by_hops, against = [], False, []
    for pair in pairs:
        if pair.kind != _XGMI or not _is_direct(pair, weighed):
            continue
        if reported and pair.bandwidth == (0, 0):
            if pair.weight is not None:
                against.append(pair.both)
            continue
        count, gbps = _count(pair)
        by_hops = by_hops or not (pair.weight or count)
        if count is None:
            uncounted.append(pair)
        yield GpuLink(FileLine(path, pair.line), pair.a, pair.b, "xgmi", count, gbps)
    if against:
        warnings.append(
            f"a weight of one hop and a bandwidth of 0: taken as no link: {few(against, 3, '; ')}"
        )
    if uncounted:
        warnings.append(
            f"how many xGMI links join two GPUs is not stated for {len(uncounted)} pairs (an MI250X has 1, 2 "
            "or 4); `rocm-smi --shownodesbw`, `amd-smi topology` or RCCL's topology XML may tell"
        )
    if by_hops:
        warnings.append(
            "no weights: pairs of one hop are taken as linked, although a driver can say 1 hop for GPUs that "
            "only other GPUs join"
        )


def _is_direct(pair: _Pair, weighed: bool) -> bool:
    """Whether two GPUs of one hive have a link of their own; `weighed` if any pair has a weight."""
    if pair.weight is not None:
        return pair.weight in _ONE_HOP
    return (pair.bandwidth is not None and pair.bandwidth[1] > 0) or (not weighed and pair.hops == 1)


def _count(pair: _Pair) -> tuple[int | None, float | None]:
    """Links, and GB/s of one."""
    if pair.bandwidth is None or pair.bandwidth[0] == 0:
        return None, None
    one, total = pair.bandwidth
    count, rest = divmod(total, one)
    return (count if rest == 0 and 0 < count <= _MOST_LINKS else None), one / 1000


def _nearness(pair: _Pair, gpus: Sequence[Gpu]) -> Nearness | None:
    """By NUMA nodes, and by the weights of PCIe."""
    one, other = gpus[pair.a].numa, gpus[pair.b].numa
    is_known = one is not None and other is not None
    by_weight = pair.weight if pair.kind == _PCIE and pair.weight is not None else 0
    if by_weight > _ONE_ROOT or (is_known and one != other):
        return Nearness.SYS
    return Nearness.PHB if by_weight == _ONE_ROOT else Nearness.NODE if is_known else None


def _square(
    pairs: Sequence[_Pair], size: int, own: _T, value: Callable[[_Pair], _T | None]
) -> tuple[tuple[_T | None, ...], ...]:
    """A symmetric matrix of what pairs have, with `own` on its diagonal."""
    rows: list[list[_T | None]] = [[own if a == b else None for b in range(size)] for a in range(size)]
    for pair in pairs:
        rows[pair.a][pair.b] = rows[pair.b][pair.a] = value(pair)
    return tuple(map(tuple, rows))


def _hives(pairs: Sequence[_Pair], names: Sequence[str]) -> Iterator[str]:
    """A warning of several groups of GPUs that xGMI joins: between them there is only PCIe."""
    groups = joined(names, ((names[pair.a], names[pair.b]) for pair in pairs if pair.kind == _XGMI))
    if len(groups) > 1 and any(len(group) > 1 for group in groups):
        listed = "; ".join(" ".join(group) for group in groups)
        yield f"xGMI joins these groups of GPUs, and only PCIe joins one to another: {listed}"
