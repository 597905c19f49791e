"""The topology that rocm-smi prints: `--showtopo` and its parts, `--shownodesbw`, as text and as JSON.

What the words in its tables mean is `amd_pairs`'.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from taccl.support.tables import Cell, FileLine, SquareTable, lines_of, square_tables
from taccl.topologies.importers.nodes.facts import Dump, Gpu
from taccl.topologies.importers.nodes.formats import amd_pairs
from taccl.topologies.importers.nodes.formats.amd_pairs import ACCESS, BANDWIDTH, HOPS, TYPE, WEIGHT
from taccl.topologies.importers.nodes.formats.json_objects import begins_json, parse_objects

_TITLES = {
    "weight between two gpus": WEIGHT,
    "hops between two gpus": HOPS,
    "link type between two gpus": TYPE,
    "link accessibility between two gpus": ACCESS,
    "bandwidth": BANDWIDTH,
}
_KEYS = {"weight": WEIGHT, "hops": HOPS, "link type": TYPE, "min-max bandwidth": BANDWIDTH}
_TITLE = re.compile(
    r"(weight|hops|link type|link accessibility) between two gpus|(?<==)\s+bandwidth\s+(?==)", re.IGNORECASE
)
_RULE = re.compile(r"\s*(?:={4,}|-{8,})")
#: The first and the last line of the output, which are no titles of tables.
_FRAME = re.compile(r"System Management Interface|End of|^[\s=]*$", re.IGNORECASE)
_NAME = re.compile(r"GPU\[?([0-9]{1,4})\]?", re.IGNORECASE)
#: `GPU[0]  : (Topology) Numa Node: 0`
_FACT = re.compile(
    r"\s*GPU\[([0-9]{1,4})\]\s*:\s*(?:\(Topology\)\s*)?([^:]{1,60}?)\s*:\s*(.*?)\s*", re.IGNORECASE
)
_JSON_PAIR = re.compile(
    r"\s*(?:\(Topology\)\s*)?(weight|hops|link type|min-max bandwidth) between DRM devices "
    r"([0-9]{1,4}) and ([0-9]{1,4})\s*",
    re.IGNORECASE,
)
_MARK = re.compile(
    r"between two gpus|\(Topology\)|between DRM devices|={4,} +bandwidth +={4,}\s+GPU0"
    r"|ROCm System Management Interface|ROCm SMI Log",
    re.IGNORECASE,
)
#: What stands before the first table is at most a few screens of other output.
_BEGINNING = 2**18
_ABSENT = ("", "N/A", "-1", "4294967295", "UNKNOWN")


@dataclass
class _Facts:
    """What a line of its own tells of one GPU: by key, the value and the line."""

    of: dict[int, dict[str, Cell]] = field(default_factory=dict)

    def add(self, gpu: int, key: str, value: str, line: int) -> None:
        if value.upper() not in _ABSENT:
            self.of.setdefault(gpu, {}).setdefault(key.strip().lower(), Cell(value, line))

    def first(self, gpu: int, *keys: str) -> Cell | None:
        known = self.of.get(gpu, {})
        return next((known[key] for key in keys if key in known), None)


def looks_like(text: str) -> bool:
    """Whether it has a title or a key that only rocm-smi prints."""
    return _MARK.search(text, 0, _BEGINNING) is not None


def read(text: str, path: str | None) -> Dump:
    """What the output tells.

    Raises
    ------
    TopologyError : what is wrong with it, with the line.
    """
    is_json = begins_json(text) and not _TITLE.search(text)
    tables, facts = _read_json(text, path) if is_json else _read_text(text, path)
    if not tables:
        raise FileLine(path, 1).error(
            "this is of rocm-smi, and has no table that tells how GPUs are joined",
            "give the output of `rocm-smi --showtopo`",
        )
    names = tuple(sorted(amd_pairs.names_of(tables, path), key=_index))
    gpus = tuple(_gpu(_index(name), facts, tables[0].line, path) for name in names)
    return amd_pairs.dump_of_pairs("rocm-smi", tables, names, gpus, path)


def _title(line: str) -> str | None:
    found = [" ".join(match[0].lower().split()) for match in _TITLE.finditer(line)]
    if found:
        return _TITLES[found[0]]
    return "" if _RULE.match(line) else None


def _name(word: str) -> str | None:
    match = _NAME.fullmatch(word)
    return None if match is None or "[" in word else f"GPU{int(match[1])}"


def _index(name: str) -> int:
    return int(name[3:])


def _read_text(text: str, path: str | None) -> tuple[list[SquareTable], _Facts]:
    lines, facts = amd_pairs.table_lines(text), _Facts()
    for number, line in enumerate(lines):
        if len(_TITLE.findall(line)) > 1:
            raise FileLine(path, number + 1).error(
                "several tables stand next to each other here",
                "paste them one below the other, as rocm-smi prints them",
            )
        match = _FACT.fullmatch(line)
        if match is not None:
            facts.add(int(match[1]), match[2], match[3], number + 1)
    _check_titles(lines, path)
    return square_tables(lines, _title, _name, path, amd_pairs.MOST_GPUS), facts


def _check_titles(lines: Sequence[str], path: str | None) -> None:
    """A table that has lost its title: what it tells is not known, and others mean nothing without it."""
    has_title = False
    for number, line in enumerate(lines, start=1):
        if _title(line) is not None:
            has_title = _FRAME.search(line) is None
            continue
        words = line.split()
        if not has_title and len(words) > 1 and all(_name(word) is not None for word in words):
            raise FileLine(path, number).error(
                "the table that begins here has no title", "paste the output of rocm-smi again, whole"
            )


def _read_json(text: str, path: str | None) -> tuple[list[SquareTable], _Facts]:
    document = parse_objects(text, path)
    keys = re.compile(r'"([^"\\]*)"\s*:')
    line_of = {key: line for line, text in enumerate(lines_of(text), start=1) for key in keys.findall(text)}
    found: dict[str, dict[tuple[str, str], Cell]] = {}
    facts = _Facts()
    for card, entries in document.items() if isinstance(document, dict) else ():
        for key, value in entries.items() if isinstance(entries, dict) else ():
            cell = Cell(str(value).strip(), line_of.get(key, 1))
            match, gpu = _JSON_PAIR.fullmatch(key), re.fullmatch(r"card([0-9]{1,4})", card)
            if match is not None:
                pair = (f"GPU{int(match[2])}", f"GPU{int(match[3])}")
                found.setdefault(_KEYS[match[1].lower()], {})[pair] = cell
            elif gpu is not None:
                facts.add(int(gpu[1]), key.replace("(Topology)", ""), cell.text, cell.line)
    return [_table(kind, cells) for kind, cells in found.items()], facts


def _table(kind: str, cells: dict[tuple[str, str], Cell]) -> SquareTable:
    names = sorted({name for pair in cells for name in pair}, key=_index)
    return SquareTable(kind, min(cell.line for cell in cells.values()), tuple(names), cells)


def _gpu(index: int, facts: _Facts, line: int, path: str | None) -> Gpu:
    numa = facts.first(index, "numa node", "numa affinity")
    model = facts.first(index, "card series", "device name", "card model", "market name")
    arch, busid = facts.first(index, "gfx version"), facts.first(index, "pci bus")
    known: Sequence[Cell | None] = (numa, model, arch, busid)
    return Gpu(
        place=FileLine(path, next((cell.line for cell in known if cell is not None), line)),
        busid=None if busid is None else busid.text.lower(),
        model=None if model is None else model.text,
        arch=None if arch is None else arch.text.lower().partition(":")[0],
        numa=int(numa.text) if numa is not None and re.fullmatch("[0-9]{1,4}", numa.text) else None,
        dev=index,
    )
