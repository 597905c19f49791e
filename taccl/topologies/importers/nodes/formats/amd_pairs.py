"""What AMD's words for two GPUs mean: which have xGMI links, how many, and how far apart they are by PCIe.

It knows the vocabulary that rocm-smi and amd-smi share (they ask the same driver), and neither's layout.
No link is made up: hops of 1 and a type of XGMI stand also for GPUs that only other GPUs join, as in an
MI250X; weights and bandwidths tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from taccl.errors import TopologyError
from taccl.topologies.importers.nodes.facts import Dump, Gpu, GpuLink, Nearness, Place
from taccl.topologies.importers.nodes.formats.pair_tables import PairTable, table_of_kind

WEIGHT, HOPS, TYPE, BANDWIDTH, ACCESS = "weights", "hops", "link types", "bandwidths", "access"

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
_BANDWIDTH = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_TRUE, _FALSE = {"ENABLED", "TRUE", "T"}, {"DISABLED", "FALSE", "F"}

_T = TypeVar("_T")


@dataclass
class _PairFacts:
    """What tables tell of all pairs of GPUs.

    Parameters
    ----------
    links : of xGMI; None where no table tells which GPUs have one.
    nearness : shape (gpus, gpus), by PCIe alone.
    access : shape (gpus, gpus), whether one may use the other's memory; None without a table of it.
    """

    links: tuple[GpuLink, ...] | None
    nearness: tuple[tuple[Nearness | None, ...], ...]
    access: tuple[tuple[bool | None, ...], ...] | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Pair:
    """What all tables say of two GPUs; the line is that of the cell that tells their kind."""

    a: int
    b: int
    kind: str
    weight: int | None
    hops: int | None
    bandwidth: tuple[int, int] | None
    access: bool | None
    line: int


def names_of(tables: Sequence[PairTable], path: str | None) -> tuple[str, ...]:
    """The GPUs that all tables are about.

    Raises
    ------
    TopologyError : two tables are about different ones.
    """
    first = tables[0]
    for table in tables:
        if sorted(table.names) != sorted(first.names):
            raise TopologyError(
                f"this table is about other GPUs than the one that begins on line {first.line}",
                path=path,
                line=table.line,
                hint="give the output of one machine in a file",
            )
    return first.names


def dump_of_pairs(
    tool: str, tables: Sequence[PairTable], names: Sequence[str], gpus: Sequence[Gpu], path: str | None
) -> Dump:
    """What the tables tell.

    Parameters
    ----------
    tool : that printed them, `rocm-smi` or `amd-smi`; its index is the order of `gpus`.
    tables : of the kinds that this module names.
    names : of `gpus`, in their order.

    Raises
    ------
    TopologyError : a cell is none that the tools print, or nothing tells how the GPUs are joined.
    """
    facts = _pair_facts(tables, names, gpus, path)
    return Dump(
        format=tool,
        gpus=tuple(gpus),
        links=facts.links,
        has_switch=False,
        gpu_nearness=facts.nearness,
        peer_access=facts.access,
        order=f"by the index of {tool}",
        warnings=tuple(facts.warnings),
    )


def _pair_facts(
    tables: Sequence[PairTable], names: Sequence[str], gpus: Sequence[Gpu], path: str | None
) -> _PairFacts:
    facts = _PairFacts(None, ())
    pairs = _Reader(tables, path, facts.warnings).pairs(names)
    if pairs and all(pair.kind == _NOTHING for pair in pairs):
        raise TopologyError(
            "no table here tells whether any two GPUs are joined by xGMI or by PCIe",
            path=path,
            line=min(table.line for table in tables),
            hint="give all of `rocm-smi --showtopo` or `amd-smi topology`; partitioned GPUs may tell none",
        )
    if any(pair.kind == _XGMI for pair in pairs) and not any(map(_is_weighed, pairs)):
        facts.warnings.append(
            "xGMI joins GPUs here, and neither weights nor hops nor bandwidths tell which have a link of "
            "their own"
        )
    else:
        facts.links = tuple(_links(pairs, names, path, facts.warnings))
    facts.nearness = _nearness(pairs, gpus)
    facts.access = _access_matrix(pairs, len(gpus))
    _tell_hives(pairs, names, facts.warnings)
    _tell_access(pairs, names, facts.warnings)
    return facts


class _Reader:
    """Both directions of every pair, out of all tables; what does not agree becomes a warning."""

    def __init__(self, tables: Sequence[PairTable], path: str | None, warnings: list[str]) -> None:
        self._path, self._warnings = path, warnings
        self._tables: dict[str, PairTable] = {}
        self._odd: dict[str, list[str]] = {}
        for kind in (TYPE, BANDWIDTH, WEIGHT, HOPS, ACCESS):
            table = table_of_kind(tables, kind, path)
            if table is not None and table.is_whole:
                self._tables[kind] = table
            elif table is not None:
                warnings.append(
                    f"{Place(path, table.line)}: the table of the {kind} is cut short and not used"
                )

    def pairs(self, names: Sequence[str]) -> list[_Pair]:
        """Every two GPUs, once."""
        found = [self._pair(names, a, b) for a in range(len(names)) for b in range(a + 1, len(names))]
        for kind, odd in self._odd.items():
            self._warnings.append(
                f"the {kind} differ in the two directions (a broken link or a damaged paste), "
                f"the weaker is taken: {_few(odd)}"
            )
        if TYPE not in self._tables and any(pair.kind for pair in found):
            self._warnings.append(
                "no table of link types: a weight of 13 or 15, or a bandwidth, is taken for an xGMI link"
            )
        return found

    def _pair(self, names: Sequence[str], a: int, b: int) -> _Pair:
        both = (names[a], names[b])
        kinds = self._read(TYPE, both, _kind)
        weight = max((each for each in self._read(WEIGHT, both, _number) if each), default=None)
        hops = max((each for each in self._read(HOPS, both, _number) if each), default=None)
        bandwidths = [each for each in self._read(BANDWIDTH, both, _bandwidth) if each is not None]
        access = [each for each in self._read(ACCESS, both, _access) if each is not None]
        bandwidth = _weaker(bandwidths)
        kind = kinds[0] if kinds and len({*kinds}) == 1 else _NOTHING
        if TYPE not in self._tables and weight is not None:
            kind = _XGMI if weight in _SURELY_XGMI or weight % 15 == 0 else _PCIE
        elif TYPE not in self._tables and bandwidth is not None and bandwidth[1] > 0:
            kind = _XGMI
        return _Pair(
            a=a,
            b=b,
            kind=kind,
            weight=weight,
            hops=hops,
            bandwidth=bandwidth,
            access=all(access) if access else None,
            line=self._line(both),
        )

    def _line(self, both: tuple[str, str]) -> int:
        for table in self._tables.values():
            cell = table.cells.get(both) or table.cells.get(both[::-1])
            if cell is not None:
                return cell.line
        return 1

    def _read(self, kind: str, both: tuple[str, str], read: Callable[[str], _T]) -> list[_T]:
        """What the one or two cells say; none where there is no such table."""
        table = self._tables.get(kind)
        cells = [] if table is None else [table.cells.get(both), table.cells.get(both[::-1])]
        found = [cell for cell in cells if cell is not None]
        try:
            values = [read(cell.text) for cell in found]
        except ValueError:
            wrong = next(cell for cell in found if not _is_word(read, cell.text))
            raise TopologyError(
                f"{wrong.text[:40]!r} is nothing that a table of {kind} has for {both[0]} and {both[1]}",
                path=self._path,
                line=wrong.line,
                hint="paste the output again, whole; that of a partitioned GPU cannot be imported",
            ) from None
        if len(values) == 2 and values[0] != values[1]:
            lines = f"{found[0].text} on line {found[0].line}, {found[1].text} on line {found[1].line}"
            self._odd.setdefault(kind, []).append(f"{both[0]} and {both[1]} ({lines})")
        return values


def _is_word(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> int | None:
    """A weight or a number of hops; None where the driver tells none."""
    if text.upper() in _UNKNOWN:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ValueError(text)
    return int(text)


def _kind(text: str) -> str:
    word = text.upper()
    if word in (_XGMI, _PCIE):
        return word
    if word in _UNKNOWN or word in _SELF:
        return _NOTHING
    raise ValueError(text)


def _bandwidth(text: str) -> tuple[int, int] | None:
    """MB/s of one link and of all between the two; None where none is reported."""
    match = _BANDWIDTH.fullmatch(text)
    if match is not None:
        return int(match[1]), int(match[2])
    if text.upper() in _UNKNOWN or text in _SELF:
        return None
    raise ValueError(text)


def _weaker(bandwidths: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Of what two directions say, the fewer and slower."""
    if len(bandwidths) < 2 or (0, 0) in bandwidths:
        return min(bandwidths, default=None)
    return max(one for one, _ in bandwidths), min(total for _, total in bandwidths)


def _access(text: str) -> bool | None:
    word = text.upper()
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if word in _UNKNOWN or word in _SELF:
        return None
    raise ValueError(text)


def _links(
    pairs: Sequence[_Pair], names: Sequence[str], path: str | None, warnings: list[str]
) -> Iterator[GpuLink]:
    """The pairs with links of their own, and how many."""
    reported = any(pair.bandwidth is not None and pair.bandwidth[1] > 0 for pair in pairs)
    weighed = any(pair.weight for pair in pairs)
    uncounted, by_hops, against = [], False, []
    for pair in pairs:
        if pair.kind != _XGMI or not _is_direct(pair, weighed):
            continue
        if reported and pair.bandwidth == (0, 0):
            if pair.weight is not None:
                against.append(_both(pair, names))
            continue
        count, gbps = _count(pair)
        by_hops = by_hops or not (pair.weight or count)
        if count is None:
            uncounted.append(_both(pair, names))
        yield GpuLink(Place(path, pair.line), pair.a, pair.b, "xgmi", count, gbps)
    if against:
        warnings.append(f"a weight of one hop and a bandwidth of 0: taken as no link: {_few(against)}")
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


def _is_weighed(pair: _Pair) -> bool:
    """Whether anything is reported of two GPUs but their kind."""
    return bool(pair.weight or pair.hops or (pair.bandwidth and pair.bandwidth[1]))


def _is_direct(pair: _Pair, weighed: bool) -> bool:
    """Whether two GPUs of one hive have a link of their own; `weighed` if any pair has a weight."""
    if pair.weight is not None:
        return pair.weight in _ONE_HOP
    if pair.bandwidth is not None and pair.bandwidth[1] > 0:
        return True
    return not weighed and pair.hops == 1


def _count(pair: _Pair) -> tuple[int | None, float | None]:
    """Links, and GB/s of one."""
    if pair.bandwidth is None or pair.bandwidth[0] == 0:
        return None, None
    one, total = pair.bandwidth
    count, rest = divmod(total, one)
    return (count if rest == 0 and 0 < count <= _MOST_LINKS else None), one / 1000


def _nearness(pairs: Sequence[_Pair], gpus: Sequence[Gpu]) -> tuple[tuple[Nearness | None, ...], ...]:
    near: list[list[Nearness | None]] = [
        [Nearness.SELF if a == b else None for b in range(len(gpus))] for a in range(len(gpus))
    ]
    for pair in pairs:
        numa = gpus[pair.a].numa, gpus[pair.b].numa
        far = None if None in numa else numa[0] != numa[1]
        if pair.kind == _PCIE and pair.weight is not None and pair.weight > _ONE_ROOT:
            far = True
        one_root = pair.kind == _PCIE and pair.weight == _ONE_ROOT
        reach = Nearness.SYS if far else Nearness.PHB if one_root else None if far is None else Nearness.NODE
        near[pair.a][pair.b] = near[pair.b][pair.a] = reach
    return tuple(tuple(row) for row in near)


def _access_matrix(pairs: Sequence[_Pair], size: int) -> tuple[tuple[bool | None, ...], ...] | None:
    if all(pair.access is None for pair in pairs):
        return None
    found: list[list[bool | None]] = [[a == b or None for b in range(size)] for a in range(size)]
    for pair in pairs:
        found[pair.a][pair.b] = found[pair.b][pair.a] = pair.access
    return tuple(tuple(row) for row in found)


def _tell_hives(pairs: Sequence[_Pair], names: Sequence[str], warnings: list[str]) -> None:
    """Several groups of GPUs that xGMI joins are worth a word: between them there is only PCIe."""
    hive = list(range(len(names)))
    for pair in pairs:
        if pair.kind == _XGMI:
            old, new = hive[pair.b], hive[pair.a]
            hive = [new if each == old else each for each in hive]
    groups = [[names[i] for i, each in enumerate(hive) if each == one] for one in sorted({*hive})]
    if len(groups) > 1 and any(len(group) > 1 for group in groups):
        said = "; ".join(" ".join(group) for group in groups)
        warnings.append(f"xGMI joins these groups of GPUs, and only PCIe joins one to another: {said}")


def _tell_access(pairs: Sequence[_Pair], names: Sequence[str], warnings: list[str]) -> None:
    shut = [_both(pair, names) for pair in pairs if pair.access is False]
    if shut:
        warnings.append(f"GPUs that cannot reach each other's memory (access disabled): {_few(shut)}")


def _both(pair: _Pair, names: Sequence[str]) -> str:
    return f"{names[pair.a]} and {names[pair.b]}"


def _few(said: Sequence[str]) -> str:
    return "; ".join(said[:3]) + (f", and {len(said) - 3} more" if len(said) > 3 else "")
