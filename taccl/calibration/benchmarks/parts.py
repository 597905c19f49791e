"""Where the outputs of benchmarks begin in one text: logs of jobs that ran several, one after another.

It knows how the lines before a benchmark's table look, and nothing of what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

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
