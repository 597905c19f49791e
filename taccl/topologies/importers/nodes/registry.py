"""Which formats of dumps there are, and which of them a text is in.

A format is found by what a text holds, never by the name of its file. A new one is a module in `formats/` and
a row in `FORMATS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from taccl.errors import TopologyError
from taccl.support.reading import Format, any_text, recognized
from taccl.support.split_outputs import parts_of
from taccl.support.tables import FileLine
from taccl.topologies.importers.nodes.facts import Dump
from taccl.topologies.importers.nodes.formats import (
    amd_smi,
    hwloc,
    nccl_graph,
    nccl_log,
    nccl_topology,
    rocm_smi,
    smi_nvlink,
    smi_p2p,
    smi_topo,
)
from taccl.topologies.importers.nodes.formats.nccl_log_tree import has_block
from taccl.topologies.importers.nodes.gpu_models import with_named_models
from taccl.topologies.importers.nodes.merge import merge

#: A line that begins what stands below it: a prompt or a title with a tool's name, an XML's first line.
_BEGINS = re.compile(
    r"^\s*<[?!]|\b(?:nvidia-smi|rocm-smi|amd-smi|lstopo|hwloc-ls)\b|\bcat\s+\S+\.xml\b"
    r"|^\s*={3,}|^\s*[\[{]\s*$"
)
#: A line of a log, whose lines above tell of the same.
_LOGGED = re.compile(r"\bNCCL (?:INFO|WARN)\b")
#: The first and the last line of a file in XML.
_ROOT = re.compile(r"<(?:!DOCTYPE|system|graphs|topology)\b")
_ENDS = re.compile(r"</(?:system|graphs|topology)\s*>")


def first_line(lines: Sequence[str], mark: int, looked: int) -> int:
    """Where an output begins: at what tells it, or at the lines above that name its tool."""
    first, begins = mark, _LOGGED if _LOGGED.search(lines[mark]) else _BEGINS
    for above in range(mark - 1, looked - 1, -1):
        if begins.search(lines[above]):
            first = above
        elif lines[above].strip():
            break
    return first


def end_line(lines: Sequence[str], mark: int, seen: int) -> int | None:
    """Behind the last line of an XML that is reported by these lines; None of anything else."""
    if not any(_ROOT.search(line) for line in lines[mark:seen]):
        return None
    return next((at + 1 for at in range(mark, len(lines)) if _ENDS.search(lines[at])), len(lines))


#: No tool prints so much about one node; the logs of large jobs are cut before they get here.
MAX_BYTES = 64 * 2**20

#: A dump from a text and its path, for messages.
Read = Callable[[str, str | None], Dump]

#: In the order in which they are tried: the pickiest first.
FORMATS: tuple[Format[Read], ...] = (
    Format(
        "nccl-topology",
        "NCCL or RCCL topology XML (NCCL_TOPO_DUMP_FILE)",
        nccl_topology.looks_like,
        nccl_topology.read,
    ),
    Format(
        nccl_graph.NAME,
        "NCCL graph XML (NCCL_GRAPH_DUMP_FILE), to check others by",
        nccl_graph.looks_like,
        nccl_graph.read,
    ),
    Format(
        nccl_log.NAME,
        "a log of NCCL or RCCL (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH)",
        nccl_log.looks_like,
        nccl_log.read,
        has_block,
    ),
    Format(smi_topo.NAME, "`nvidia-smi topo -m`", smi_topo.looks_like, smi_topo.read),
    Format(smi_p2p.NAME, "`nvidia-smi topo -p2p r`", smi_p2p.looks_like, smi_p2p.read),
    Format(
        smi_nvlink.REMOTE_NAME,
        "`nvidia-smi nvlink -R`",
        smi_nvlink.looks_like_remote,
        smi_nvlink.read_remote,
    ),
    Format(smi_nvlink.NAME, "`nvidia-smi nvlink -s`", smi_nvlink.looks_like, smi_nvlink.read),
    Format("hwloc", "hwloc XML (`lstopo topology.xml`)", hwloc.looks_like, hwloc.read),
    Format("amd-smi", "`amd-smi topology` or `amd-smi xgmi`", amd_smi.looks_like, amd_smi.read),
    Format("rocm-smi", "`rocm-smi --showtopo`", rocm_smi.looks_like, rocm_smi.read),
)


def format_of(text: str, path: str | None = None) -> Format[Read]:
    """The format of a text.

    Raises
    ------
    TopologyError : it is in none that is known.
    """
    return recognized(text, path, FORMATS, TopologyError, "this is no dump of a machine that is known here")


def parse_dump(text: str, path: str | None = None) -> Dump:
    """What a text tells; `path` is for messages.

    Outputs of several tools that stand below each other refine each other as files do. One that cannot be
    understood, next to another that can, is left out with a warning.

    Raises
    ------
    TopologyError : it is in no known format, or cannot be understood; or outputs in it contradict each other.
    """
    return with_named_models(_parsed(text, path), text)


def _parsed(text: str, path: str | None) -> Dump:
    found = parts_of(text, [each.begins or each.looks_like for each in FORMATS], first_line, end_line)
    parts = sorted(found, key=lambda part: part.kind)
    if not parts:
        return format_of(text, path).read(text, path)
    reported = ", ".join(f"{FORMATS[part.kind].summary} from line {part.line}" for part in parts)
    dumps: list[Dump] = []
    left_out = []
    for part in parts:
        each = FORMATS[part.kind]
        try:
            dumps.append(each.read(part.text, path))
        except TopologyError as fault:
            if not dumps:
                raise _in_parts(fault, reported) from fault
            place = FileLine(path, fault.line or part.line)
            left_out.append(f"{place}: {each.summary} is left out: {fault.message}")
    try:
        whole = merge(dumps)
    except TopologyError as fault:
        raise _in_parts(fault, reported) from fault
    return replace(whole, warnings=(*whole.warnings, *left_out))


def _in_parts(fault: TopologyError, reported: str) -> TopologyError:
    hint = f"the file holds {reported}; give the outputs of one machine, or each in a file"
    return TopologyError(fault.message, path=fault.path, line=fault.line, hint=hint)


def read_dump(path: str | Path) -> Dump:
    """What a file tells about a machine.

    Raises
    ------
    FileError : it cannot be read.
    TopologyError : as `parse_dump`, or it is too large.
    """
    return parse_dump(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """The text in a file, as `taccl.support.reading.any_text`.

    Raises
    ------
    FileError : it cannot be read.
    TopologyError : it is larger than `MAX_BYTES`.
    """
    return any_text(path, MAX_BYTES, TopologyError, hint="cut out what tells the machine")
