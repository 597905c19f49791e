"""What amd-smi prints of how GPUs are joined: `amd-smi topology` and `amd-smi xgmi`, as text, JSON and CSV.

Layouts old and new; what the words in its tables mean is `amd_pairs`', the tables of `xgmi` are `amd_xgmi`'s.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from taccl.support.tables import Cell, FileLine, SquareTable, lines_of, square_tables
from taccl.topologies.importers.nodes.facts import Dump, Gpu
from taccl.topologies.importers.nodes.formats import amd_pairs, amd_xgmi
from taccl.topologies.importers.nodes.formats.amd_pairs import ACCESS, BANDWIDTH, HOPS, TYPE, WEIGHT
from taccl.topologies.importers.nodes.formats.json_objects import Located, begins_json, parse_objects
from taccl.topologies.importers.nodes.merge import merge

_TITLES = {"ACCESS": ACCESS, "WEIGHT": WEIGHT, "HOPS": HOPS, "LINK TYPE": TYPE, "NUMA BW": BANDWIDTH}
#: Keys of the JSON until ROCm 6.1 and of the CSV, where a key of a GPU is added: `weight_gpu_1`.
_OLD_KEYS = {
    "link_accessibility": ACCESS,
    "weight": WEIGHT,
    "hops": HOPS,
    "link_type": TYPE,
    "numa_bandwidth": BANDWIDTH,
}
#: Keys of the JSON since.
_NEW_KEYS = {
    "link_status": ACCESS,
    "weight": WEIGHT,
    "num_hops": HOPS,
    "link_type": TYPE,
    "bandwidth": BANDWIDTH,
}
_TITLE = re.compile(r"\s*([A-Z][A-Z -]*) TABLE\s*:?\s*")
_OTHER = re.compile(r"\s*(?:Legend|[A-Z][A-Z -]* STATUS)\s*:?\s*")
_BDF = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", re.IGNORECASE)
_GPU = re.compile(r"gpu_?([0-9]{1,4})", re.IGNORECASE)
_CSV_COLUMN = re.compile(rf"({'|'.join(_OLD_KEYS)})_gpu_([0-9]{{1,4}})", re.IGNORECASE)
_TEXT_MARK = re.compile(
    r"^\s*(?:ACCESS|WEIGHT|HOPS|LINK TYPE|NUMA BW|LINK METRIC) TABLE\s*:?|^\s*XGMI LINK STATUS\s*:?",
    re.MULTILINE,
)
_CSV_MARK = re.compile(rf"^\s*gpu,.*(?:{'|'.join(_OLD_KEYS)})_gpu_[0-9]", re.MULTILINE | re.IGNORECASE)
_JSON_MARK = re.compile(
    r'"(?:link_accessibility|link_status|link_type|num_hops|numa_bandwidth|link_metrics)"'
)
_BEGINNING = 2**18


def looks_like(text: str) -> bool:
    """Whether it has a title, a header or a key that only amd-smi prints."""
    beginning = text[:_BEGINNING]
    if _TEXT_MARK.search(beginning) or _CSV_MARK.search(beginning):
        return True
    return begins_json(beginning) and '"gpu"' in beginning and _JSON_MARK.search(beginning) is not None


def read(text: str, path: str | None) -> Dump:
    """What the output tells.

    Raises
    ------
    TopologyError : what is wrong with it, with the line.
    """
    if _TEXT_MARK.search(text):
        lines = amd_pairs.table_lines(text)
        tables = square_tables(lines, _title, _name, path, amd_pairs.MOST_GPUS)
        metrics = amd_xgmi.read_text(lines, path)
        numbers: dict[str, int] = {}
    elif _CSV_MARK.search(text):
        tables, numbers = _read_csv(text, path)
        metrics = None
    else:
        entries = _entries(parse_objects(text, path), path)
        tables, numbers = _read_json(entries, path)
        metrics = amd_xgmi.read_json(entries, path)
    if tables:
        whole = _of_tables(tables, numbers, path)
        return whole if metrics is None else replace(merge([whole, metrics]), format=whole.format)
    if metrics is not None:
        return metrics
    raise FileLine(path, 1).error(
        "this is of amd-smi, and has no table that tells how GPUs are joined",
        "give the output of `amd-smi topology`",
    )


def _of_tables(tables: Sequence[SquareTable], numbers: dict[str, int], path: str | None) -> Dump:
    """The tables of `amd-smi topology`; `numbers` are amd-smi's of the GPUs where the output has them."""
    names = amd_pairs.names_of(tables, path)
    if numbers:
        names = tuple(sorted(names, key=lambda name: numbers.get(name, -1)))
    gpus = tuple(
        Gpu(
            place=FileLine(path, tables[0].line),
            busid=name if _BDF.fullmatch(name) else None,
            dev=numbers.get(name, dev),
        )
        for dev, name in enumerate(names)
    )
    return amd_pairs.dump_of_pairs("amd-smi", tables, names, gpus, path)


def _title(line: str) -> str | None:
    match = _TITLE.fullmatch(line)
    if match is not None:
        return _TITLES.get(match[1].strip(), "")
    return "" if _OTHER.fullmatch(line) else None


def _name(word: str) -> str | None:
    """A bus id with its domain, or GPU and a number, as some versions print instead."""
    match = _BDF.fullmatch(word)
    if match is not None:
        return f"{match[1] or '0000'}:{match[2]}".lower()
    number = _GPU.fullmatch(word)
    return None if number is None else f"GPU{int(number[1])}"


def _entries(document: Any, path: str | None) -> list[Located]:
    """The objects that are about one GPU each, wherever the version of the tool puts them."""
    found: list[Located] = []
    _collect(document, found, 0)
    if not found:
        raise FileLine(path, 1).error(
            "no object in this JSON is about a GPU and its links",
            "give the output of `amd-smi topology --json`",
        )
    return found


def _collect(value: Any, found: list[Located], depth: int) -> None:
    if isinstance(value, Located) and "gpu" in value:
        found.append(value)
    elif depth < 4 and isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            _collect(each, found, depth + 1)


def _read_json(entries: Sequence[Located], path: str | None) -> tuple[list[SquareTable], dict[str, int]]:
    """The tables, and amd-smi's index of each GPU."""
    name_of: dict[int, str] = {}
    for entry in entries:
        gpu, name = _number(entry, path), _name(str(entry.get("bdf", "")))
        before = name_of.setdefault(gpu, f"GPU{gpu}")
        if name is not None and name in name_of.values() and before != name:
            raise FileLine(path, entry.line).error(f"two GPUs have the bus id {name}")
        name_of[gpu] = name or before
    tables: dict[str, SquareTable] = {}
    for entry in entries:
        row = name_of[_number(entry, path)]
        _same_names(entry, name_of, path)
        for title, gpu, value, line in (*_new_cells(entry, path), *_old_cells(entry)):
            if gpu not in name_of:
                raise FileLine(path, line).error(f"GPU {gpu} is named here and has no entry")
            table = tables.setdefault(title, SquareTable(title, line, tuple(name_of.values())))
            table.cells.setdefault((row, name_of[gpu]), Cell(_text(value), line))
    return list(tables.values()), {name: gpu for gpu, name in name_of.items()}


def _same_names(entry: Located, name_of: dict[int, str], path: str | None) -> None:
    """Refuse a link whose index is one GPU's and whose bus id is another's."""
    for link in _links_of(entry):
        name, known = _name(str(link.get("bdf", ""))), name_of.get(_number(link, path))
        if name is not None and known is not None and _BDF.fullmatch(known) and name != known:
            message = f"GPU {_number(link, path)} is {name} here, and {known} in its own entry"
            raise FileLine(path, link.line).error(message)


def _links_of(entry: Located) -> list[Located]:
    links = entry.get("links")
    listed = links if isinstance(links, list) else []
    return [link for link in listed if isinstance(link, Located) and "gpu" in link]


def _number(entry: Located, path: str | None) -> int:
    value = entry["gpu"]
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 4:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 10_000:
        raise FileLine(path, entry.line).error(f"{str(value)[:40]!r} is no index of a GPU")
    return value


def _new_cells(entry: Located, path: str | None) -> Iterator[tuple[str, int, Any, int]]:
    for link in _links_of(entry):
        for key, title in _NEW_KEYS.items():
            if key in link:
                yield title, _number(link, path), link[key], link.line


def _old_cells(entry: Located) -> Iterator[tuple[str, int, Any, int]]:
    for key, kind in _OLD_KEYS.items():
        row = entry.get(key)
        if not isinstance(row, Located):
            continue
        for name, value in row.items():
            match = _GPU.fullmatch(name)
            if match is not None:
                yield kind, int(match[1]), value, row.line


def _text(value: Any) -> str:
    """A cell of JSON or CSV as the table has it; no value and an empty one are not available."""
    return str(value).strip() or "N/A" if value is not None else "N/A"


def _read_csv(text: str, path: str | None) -> tuple[list[SquareTable], dict[str, int]]:
    lines = lines_of(text)
    begin = next(number for number, line in enumerate(lines) if _CSV_MARK.match(line))
    header = [each.strip().lower() for each in _cells(lines[begin], FileLine(path, begin + 1))]
    columns = [_CSV_COLUMN.fullmatch(each) for each in header]
    gpus = sorted({int(match[2]) for match in columns if match is not None})
    names = tuple(f"GPU{gpu}" for gpu in gpus)
    tables = {kind: SquareTable(kind, begin + 1, names) for kind in _OLD_KEYS.values()}
    for number in range(begin + 1, len(lines)):
        here = FileLine(path, number + 1)
        cells = _cells(lines[number], here)
        if not cells or not re.fullmatch(r"\s*[0-9]{1,4}\s*", cells[0]):
            continue
        if len(cells) != len(header):
            raise here.error(f"this row has {len(cells)} cells for {len(header)} columns")
        row = f"GPU{int(cells[0])}"
        if row not in names:
            raise here.error(f"{row} has a row and no column")
        for match, value in zip(columns, cells, strict=True):
            if match is not None:
                cell = Cell(_text(value), number + 1)
                tables[_OLD_KEYS[match[1].lower()]].cells[row, f"GPU{int(match[2])}"] = cell
    return [table for table in tables.values() if table.cells], dict(zip(names, gpus, strict=True))


def _cells(line: str, here: FileLine) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error as fault:
        raise here.error(f"this row cannot be read: {fault}") from None
