"""The formats of benchmarks' outputs, and a file read by what is in it, never by its name.

It knows which formats there are; what is in them is known to each alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from taccl.errors import FileError, MeasurementError
from taccl.measurements.facts import Measured, plausible, together
from taccl.measurements.formats import (
    mpigraph,
    nccl_tests,
    nccl_tests_json,
    nccl_tests_rows,
    nvbandwidth,
    osu,
    p2p_bandwidth,
    perftest,
    perftest_json,
    transferbench,
)
from taccl.measurements.parts import first_line
from taccl.measurements.text import decimal_comma, without_colours
from taccl.pasted import Part, parts_of

#: No output of a benchmark has more bytes.
MOST_BYTES = 2**26


@dataclass(frozen=True)
class Format:
    """A kind of output.

    Parameters
    ----------
    name : as `--json` calls it.
    summary : what prints it.
    looks_like : whether a text is of this kind; it may be a log with much around the table.
    read : the text and its path, for messages -> what was measured.
    """

    name: str
    summary: str
    looks_like: Callable[[str], bool]
    read: Callable[[str, str | None], Measured]


#: The first that knows a text reads it.
FORMATS = (
    Format("nvbandwidth", "nvbandwidth, text or -j", nvbandwidth.looks_like, nvbandwidth.read),
    Format("nccl-tests-json", "nccl-tests -J", nccl_tests_json.looks_like, nccl_tests_json.read),
    Format(
        "nccl-tests-rows", "rccl-tests -x FILE -Z csv|json", nccl_tests_rows.looks_like, nccl_tests_rows.read
    ),
    Format("p2p-bandwidth", "p2pBandwidthLatencyTest", p2p_bandwidth.looks_like, p2p_bandwidth.read),
    Format("transferbench", "TransferBench p2p, a2a", transferbench.looks_like, transferbench.read),
    Format("osu", "OSU micro-benchmarks, point to point", osu.looks_like, osu.read),
    Format("perftest", "perftest: ib_write_bw, ib_send_lat, ...", perftest.looks_like, perftest.read),
    Format("perftest-json", "perftest --out_json", perftest_json.looks_like, perftest_json.read),
    Format("mpigraph", "mpiGraph", mpigraph.looks_like, mpigraph.read),
    Format("nccl-tests", "nccl-tests and rccl-tests, text", nccl_tests.looks_like, nccl_tests.read),
)


def parse_measured(text: str, path: str | None = None) -> Measured:
    """What a benchmark's output tells, or those of several benchmarks below each other.

    One that cannot be understood, beside another that can, is left out with a warning.

    Parameters
    ----------
    text : the output, perhaps with a launcher's and a library's messages in it.
    path : for messages.

    Raises
    ------
    MeasurementError : no format knows it, or it is damaged beyond use; with the line.
    """
    text = without_colours(text)
    kinds = [each.looks_like for each in FORMATS]
    parts = parts_of(text, kinds, partial(first_line, kinds))
    if parts:
        return _of_parts(parts, path)
    for each in FORMATS:
        if each.looks_like(text):
            if (line := decimal_comma(text)) is not None:
                raise MeasurementError(
                    "these numbers have decimal commas",
                    path=path,
                    line=line,
                    hint="run the benchmark with LC_ALL=C, or write them with points",
                )
            return plausible(each.read(text, path))
    known = "; ".join(each.summary for each in FORMATS)
    raise MeasurementError("no known benchmark printed this", path=path, line=1, hint=f"one of: {known}")


def _of_parts(parts: Sequence[Part], path: str | None) -> Measured:
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
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as failure:  # ValueError: a null character in the path
        reason = getattr(failure, "strerror", None) or failure
        raise FileError(f"cannot be read: {reason}", path=path) from failure
    if len(data) > MOST_BYTES:
        raise MeasurementError(f"the file is larger than {MOST_BYTES // 2**20} MB", path=path)
    # shells of Windows write UTF-16
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    return parse_measured(data.decode(encoding, errors="replace"), str(path))
