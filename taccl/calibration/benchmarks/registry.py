"""The formats of benchmarks' outputs, and a file read by what is in it, never by its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from taccl.calibration.benchmarks.facts import Measured, plausible, together
from taccl.calibration.benchmarks.formats import (
    mpigraph,
    nccl_tests,
    nccl_tests_files,
    nvbandwidth,
    osu,
    p2p_bandwidth,
    perftest,
    transferbench,
)
from taccl.calibration.benchmarks.text import decimal_comma
from taccl.errors import MeasurementError
from taccl.support.reading import Format, any_text, recognized
from taccl.support.split_outputs import OutputPart, parts_of
from taccl.support.tables import plain

#: What benchmarks and shells print before anything else of a run.
_BEGINS = re.compile(
    r"^\s*\$ |^\s*\+ \S|^#\s*OSU |^#\s*nThreads?\b|^#\s*Collective test starting|\b[a-z_]{4,}_perf\b"
    r"|\b(?:ib_(?:write|read|send)_(?:bw|lat)|osu_\w+|p2pBandwidthLatencyTest|nvbandwidth|mpiGraph)\b"
    r"|\bTransferBench\b|^\s*Bytes Per Direction\b|\b(?:BW|Latency) Test\b|^START mpiGraph"
    r"|^\[P2P |^-{20,}$|^\*{20,}"
)
#: How the last lines of a run begin: they belong to what is above them.
_CLOSES = re.compile(r"^#?\s*(?:Out of bounds|Avg bus|Collective test concluded)|^\s*(?:NOTE|SUM)\b")
#: No benchmark prints more of these before its table.
_MOST = 64


def first_line(kinds: Sequence[Callable[[str], bool]], lines: Sequence[str], mark: int, looked: int) -> int:
    """Where an output begins: at the first line that looks so with no whole table between it and `mark`.

    `kinds` : of each benchmark, whether a text holds its table.
    """
    likely = [at for at in range(looked, mark) if _BEGINS.search(lines[at]) and not _CLOSES.search(lines[at])]
    for at in likely[-_MOST:]:
        text = "\n".join(lines[at:mark])
        if not any(looks_like(text) for looks_like in kinds):
            return at
    return mark


#: No output of a benchmark has more bytes.
MOST_BYTES = 2**26

#: What was measured, from a text and its path, for messages.
Read = Callable[[str, str | None], Measured]


#: The first that knows a text reads it.
FORMATS: tuple[Format[Read], ...] = (
    Format("nvbandwidth", "nvbandwidth, text or -j", nvbandwidth.looks_like, nvbandwidth.read),
    Format("nccl-tests-json", "nccl-tests -J", nccl_tests_files.looks_like, nccl_tests_files.read),
    Format(
        "nccl-tests-rows",
        "rccl-tests -x FILE -Z csv|json",
        nccl_tests_files.looks_like_rows,
        nccl_tests_files.read_rows,
    ),
    Format("p2p-bandwidth", "p2pBandwidthLatencyTest", p2p_bandwidth.looks_like, p2p_bandwidth.read),
    Format("transferbench", "TransferBench p2p, a2a", transferbench.looks_like, transferbench.read),
    Format("osu", "OSU micro-benchmarks, point to point", osu.looks_like, osu.read),
    Format("perftest", "perftest: ib_write_bw, ib_send_lat, ...", perftest.looks_like, perftest.read),
    Format("perftest-json", "perftest --out_json", perftest.is_json, perftest.read_json),
    Format("mpigraph", "mpiGraph", mpigraph.looks_like, mpigraph.read),
    Format("nccl-tests", "nccl-tests and rccl-tests, text", nccl_tests.looks_like, nccl_tests.read),
)


def parse_measured(text: str, path: str | None = None) -> Measured:
    """What a benchmark's output tells, or those of several benchmarks below each other.

    One that cannot be understood, next to another that can, is left out with a warning.

    Parameters
    ----------
    text : the output, perhaps with a launcher's and a library's messages in it.
    path : for messages.

    Raises
    ------
    MeasurementError : no format knows it, or it is damaged beyond use; with the line.
    """
    text = plain(text)
    kinds = [each.looks_like for each in FORMATS]
    parts = parts_of(text, kinds, partial(first_line, kinds))
    if parts:
        return _of_parts(parts, path)
    found = recognized(text, path, FORMATS, MeasurementError, "no known benchmark printed this")
    line = decimal_comma(text)
    if line is not None:
        raise MeasurementError(
            "these numbers have decimal commas",
            path=path,
            line=line,
            hint="run the benchmark with LC_ALL=C, or write them with points",
        )
    return plausible(found.read(text, path))


def _of_parts(parts: Sequence[OutputPart], path: str | None) -> Measured:
    """What outputs of several benchmarks in one text tell together."""
    found, left_out = [], []
    for part in parts:
        try:
            found.append(parse_measured(part.text, path))
        except MeasurementError as fault:
            what = FORMATS[part.kind].summary
            left_out.append((what, part.line, fault))
    if not found:
        hint = "the text holds " + ", ".join(f"{what} from line {line}" for what, line, _ in left_out)
        _, line, first = left_out[0]
        raise MeasurementError(first.message, path=path, line=first.line or line, hint=hint) from first
    whole = together(found)
    notes = [
        f"{path or '<text>'}:{why.line or line}: {what} is left out: {why.message}"
        for what, line, why in left_out
    ]
    return replace(whole, warnings=(*whole.warnings, *notes))


def read_measured(path: str | Path) -> Measured:
    """What the file of a benchmark's output tells.

    Raises
    ------
    FileError : it cannot be read.
    MeasurementError : as `parse_measured`, or the file is too large.
    """
    return parse_measured(any_text(path, MOST_BYTES, MeasurementError), str(path))
