"""What CUDA's p2pBandwidthLatencyTest prints: matrices of bandwidth and latency between GPUs.

It knows its titles and rows; what pairs share is told elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Matrix, Measured, Quantity
from taccl.calibration.benchmarks.text import lines_of, number_of, whole_of
from taccl.errors import MeasurementError

_TITLE = re.compile(
    r"(?:(Unidirectional|Bidirectional)\s+)?P2P=(Enabled|Disabled)\s+(?:P2P \w+ )?"
    r"(Bandwidth|Latency)\b(?:\s*\((P2P \w+)\))?.*Matrix",
    re.IGNORECASE,
)
_CORNER = re.compile(r"^\s*(D\\D|GPU|CPU)\s+(\d+(?:\s+\d+)*)\s*$")
#: Bytes of a copy whose time is a latency; those of a bandwidth differ between versions, unprinted.
_LATENCY_BYTES = 16


@dataclass
class _Block:
    line: int
    test: str
    quantity: Quantity
    both_ways: bool
    peer: bool
    half: str = ""
    targets: tuple[int, ...] = ()
    sources: list[int] = field(default_factory=list)
    rows: list[tuple[float | None, ...]] = field(default_factory=list)


def looks_like(text: str) -> bool:
    """Whether the title of a matrix is in it."""
    return re.search(r"P2P=(?:Enabled|Disabled)\s.{0,40}Matrix", text) is not None


def read(text: str, path: str | None) -> Measured:
    """All matrices but the half of the latencies that is the CPU's time.

    Raises
    ------
    MeasurementError : a row has more cells than there are GPUs, or no matrix has a row.
    """
    blocks: list[_Block] = []
    open_block: _Block | None = None
    apart: dict[int, list[str]] = {}  # line of the connectivity matrix -> pairs without peer access
    connectivity: int | None = None
    for line in lines_of(text):
        title = _TITLE.search(line.text)
        corner = _CORNER.match(line.text)
        words = line.text.split()
        if title is not None:
            connectivity = None
            latency = title[3].lower() == "latency"
            way = "" if title[1] is None else f"{title[1].lower()} "
            peer = title[2].lower() == "enabled"
            open_block = _Block(
                line.number,
                f"{way}P2P={title[2]} {title[3].lower()}" + (f" ({title[4]})" if title[4] else ""),
                "latency_us" if latency else "bandwidth_gbps",
                way.startswith("bi"),
                peer,
            )
            blocks.append(open_block)
        elif "P2P Connectivity Matrix" in line.text:
            connectivity, open_block = line.number, None
        elif connectivity is not None and whole_of(words[0]) is not None:
            flags = [at for at, word in enumerate(words[1:]) if word == "0"]
            apart.setdefault(connectivity, []).extend(f"{words[0]}-{at}" for at in flags)
        elif corner is not None and open_block is not None:
            if open_block.rows:  # the second half of a latency
                open_block = _Block(line.number, open_block.test, open_block.quantity, False, open_block.peer)
                blocks.append(open_block)
            open_block.half = corner[1]
            open_block.targets = tuple(int(word[:9]) for word in corner[2].split())
        elif open_block is not None and open_block.targets and whole_of(words[0]) is not None:
            cells = words[1:]
            if len(cells) > len(open_block.targets):
                raise MeasurementError(
                    f"a row has {len(cells)} cells, but the matrix has {len(open_block.targets)} columns",
                    path=path,
                    line=line.number,
                    hint="paste the output again, with its line breaks",
                )
            if len(cells) == len(open_block.targets):
                open_block.sources.append(int(words[0]))
                open_block.rows.append(tuple(number_of(cell) for cell in cells))
        elif open_block is not None and len(open_block.rows) >= max(1, len(open_block.targets)):
            open_block = None  # other output may stand between its rows, but not numbers behind its last
    warnings = [
        f"{path or '<text>'}:{each.line}: the matrix has {len(each.rows)} whole rows "
        f"of {len(each.targets)}; the others are left out"
        for each in blocks
        if each.half != "CPU" and 0 < len(each.rows) < len(each.targets)
    ]
    warnings += [
        f"{path or '<text>'}:{at}: no peer access: {', '.join(pairs[:8])}"
        f"{' ...' if len(pairs) > 8 else ''}; what they move with P2P=Enabled went through the host"
        for at, pairs in apart.items()
        if pairs
    ]
    matrices = tuple(_matrix(each, path) for each in blocks if each.rows and each.half != "CPU")
    if not matrices:
        first = blocks[0].line if blocks else 1
        raise MeasurementError("no matrix of p2pBandwidthLatencyTest has a row", path=path, line=first)
    return Measured(("p2p-bandwidth",), (), matrices, tuple(warnings))


def _matrix(block: _Block, path: str | None) -> Matrix:
    cells = tuple(
        tuple(
            None if source == target or not cell or cell < 0 else cell
            for target, cell in zip(block.targets, row, strict=True)
        )
        for source, row in zip(block.sources, block.rows, strict=True)
    )
    return Matrix(
        path,
        block.line,
        "p2pBandwidthLatencyTest",
        block.test,
        block.quantity,
        "gpu to gpu",
        tuple(block.sources),
        block.targets,
        cells,
        both_ways=block.both_ways,
        sums_ways=block.both_ways,
        peer=block.peer,
        size_bytes=_LATENCY_BYTES if block.quantity == "latency_us" else None,
    )
