"""What `amd-smi xgmi` prints: which GPUs count traffic to each other, how fast a link is, which are down.

Counters are kept for each neighbour and not for each link, so how many links there are is not stated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import COUNTS_UNTOLD, Dump, Gpu, GpuLink
from taccl.topologies.importers.nodes.formats.json_objects import Located

_TITLE = re.compile(r"\s*LINK METRIC TABLE\s*:?\s*")
_STATUS = re.compile(r"\s*XGMI LINK STATUS\s*:?\s*")
_END = re.compile(r"\s*[A-Z][A-Z -]* (?:TABLE|STATUS)\s*:?\s*")
_HEADER = re.compile(r"\s*(?:gpu\s+)?bdf\s+bit_rate\s+max_bandwidth\s+link_type\s+(.*)")
_ROW = re.compile(
    r"\s*GPU\s*([0-9]{1,4})\s+((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])\s*(.*)", re.IGNORECASE
)
_COUNTERS = re.compile(r"\s*(Read|Write)\s+(.*)", re.IGNORECASE)
_COUNTER = re.compile(r"N/A|[0-9]+(?:\.[0-9]+)?\s*[KMGTPE]?i?B", re.IGNORECASE)
_RATE = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,6})?)\s*Gb/s", re.IGNORECASE)
#: What the driver says when it knows no rate: all bits of 16 or 32 are set.
_NO_RATE = (65535.0, 4294967295.0)


@dataclass
class _Row:
    """One GPU of the table: `linked` tells of each column whether there are counters."""

    dev: int
    busid: str
    line: int
    gbps: float | None = None
    linked: list[bool] = field(default_factory=list)


def read_text(lines: Sequence[str], path: str | None) -> Dump | None:
    """What the table tells; None where there is none.

    Raises
    ------
    TopologyError : it is damaged, with the line.
    """
    begin = next((number for number, line in enumerate(lines) if _TITLE.fullmatch(line)), None)
    if begin is None:
        return None
    rows: list[_Row] = []
    named: list[str] = []
    for number in range(begin + 1, len(lines)):
        line = lines[number]
        header, row, counters = _HEADER.fullmatch(line), _ROW.fullmatch(line), _COUNTERS.fullmatch(line)
        if _END.fullmatch(line):
            break
        if header is not None:
            named = [_busid(word) for word in header[1].split()]
        elif row is not None:
            rows.append(_Row(int(row[1]), _busid(row[2]), number + 1, _rate(row[3])))
        elif counters is not None and rows:
            linked = [word.upper() != "N/A" for word in _COUNTER.findall(counters[2])]
            if len(linked) != len(named):
                what = f"the counters of GPU{rows[-1].dev} are {len(linked)} for {len(named)} columns"
                raise FileLine(path, number + 1).error(what, "paste it again, whole")
            rows[-1].linked = linked
    columns = len(named)
    if not rows or len(rows) != columns or any(len(row.linked) != columns for row in rows):
        what = (
            f"the table that begins here has {columns} columns and {len(rows)} GPUs with counters, or fewer"
        )
        raise FileLine(path, begin + 1).error(what, "paste all of `amd-smi xgmi`")
    for gpu, name in zip(rows, named, strict=True):
        if gpu.busid and gpu.busid != name:
            what = f"GPU{gpu.dev} is {gpu.busid}, but the column at its place is {name}'s"
            raise FileLine(path, gpu.line).error(what, "paste the table again, as it was printed")
    return _dump(rows, _down(lines, rows), path)


def read_json(entries: Sequence[Located], path: str | None) -> Dump | None:
    """What `amd-smi xgmi --json` tells; None where no entry has metrics of links.

    Raises
    ------
    TopologyError : an entry names a GPU that has none.
    """
    rows: list[_Row] = []
    peers: list[dict[str, bool]] = []
    for entry in entries:
        metrics = entry.get("link_metrics")
        if not isinstance(metrics, Located):
            continue
        rate = metrics.get("max_bandwidth")
        said = f"{rate.get('value')} {rate.get('unit')}" if isinstance(rate, Located) else str(rate)
        rows.append(_Row(len(rows), _busid(str(entry.get("bdf", ""))), entry.line, _rate(said)))
        links = metrics.get("links")
        peers.append(
            {
                _busid(str(link.get("bdf", ""))): str(link.get("read", "N/A")).upper() != "N/A"
                for link in (links if isinstance(links, list) else ())
                if isinstance(link, Located)
            }
        )
    if not rows:
        return None
    for row, reported in zip(rows, peers, strict=True):
        unknown = sorted({*reported} - {other.busid for other in rows})
        if unknown:
            raise FileLine(path, row.line).error(f"{unknown[0]!r} is linked and has no entry")
        row.linked = [reported.get(other.busid, False) for other in rows]
    return _dump(rows, {}, path)


def _dump(rows: Sequence[_Row], down: dict[tuple[int, int], int], path: str | None) -> Dump:
    links, warnings = [], []
    for a, row in enumerate(rows):
        for b in range(a + 1, len(rows)):
            if row.linked[b] != rows[b].linked[a]:
                warnings.append(
                    f"GPU{row.dev} and GPU{rows[b].dev}: only one of them counts traffic to the other "
                    f"({FileLine(path, row.line)}, {FileLine(path, rows[b].line)}); taken as no link"
                )
            elif (a, b) in down:
                where = FileLine(path, down[a, b])
                warnings.append(
                    f"{where}: the link of GPU{row.dev} and GPU{rows[b].dev} is down and left out"
                )
            elif row.linked[b]:
                rates = [gbps for gbps in (row.gbps, rows[b].gbps) if gbps is not None]
                slowest = min(rates, default=None)
                links.append(GpuLink(FileLine(path, row.line), a, b, "xgmi", None, slowest, is_raw=True))
    if links:
        warnings.append(COUNTS_UNTOLD)
    return Dump(
        format="amd-smi",
        gpus=tuple(Gpu(FileLine(path, row.line), row.busid or None, dev=row.dev) for row in rows),
        links=tuple(links),
        has_switch=False,
        order="by the index of amd-smi",
        warnings=tuple(warnings),
    )


def _down(lines: Sequence[str], rows: Sequence[_Row]) -> dict[tuple[int, int], int]:
    """Pairs whose link is said to be down or disabled, and the line."""
    begin = next((number for number, line in enumerate(lines) if _STATUS.fullmatch(line)), None)
    found: dict[tuple[int, int], int] = {}
    if begin is None:
        return found
    here = {row.dev: position for position, row in enumerate(rows)}
    for number in range(begin + 1, len(lines)):
        if _END.fullmatch(lines[number]):
            break
        row = _ROW.fullmatch(lines[number])
        words = [] if row is None else row[3].split()
        if row is None or int(row[1]) not in here or len(words) != len(rows):
            continue
        for there, word in enumerate(words):
            if word.upper() in ("D", "X", "DOWN", "DISABLED"):
                a, b = sorted((here[int(row[1])], there))
                found.setdefault((a, b), number + 1)
    return found


def _busid(text: str) -> str:
    text = text.strip().lower()
    return f"0000:{text}" if text.count(":") == 1 else text


def _rate(text: str) -> float | None:
    """GB/s each way of a link: the last of the rates on a row (the first is that of one of its lanes)."""
    rates = [float(each) for each in _RATE.findall(text)]
    return rates[-1] / 8 if rates and rates[-1] not in _NO_RATE and rates[-1] > 0 else None
