"""What CUDA's p2pBandwidthLatencyTest prints: matrices of bandwidth and latency between GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from taccl.calibration.benchmarks.facts import Matrix, Measured, Quantity
from taccl.calibration.benchmarks.text import TextLine, lines_of, wrong_width
from taccl.errors import MeasurementError
from taccl.support.tables import number_of, whole_of

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
    both_directions: bool
    peer: bool
    half: str = ""
    targets: tuple[int, ...] = ()
    sources: list[int] = field(default_factory=list)
    rows: list[tuple[float | None, ...]] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        return len(self.rows) >= max(1, len(self.targets))

    def take_row(self, line: TextLine, path: str | None) -> None:
        """Read a row; a cut one is left out."""
        source, *cells = line.text.split()
        if len(cells) > len(self.targets):
            hint = "paste the output again, with its line breaks"
            raise wrong_width(cells, len(self.targets), path, line, hint=hint)
        if len(cells) == len(self.targets):
            self.sources.append(int(source))
            self.rows.append(tuple(number_of(cell) for cell in cells))


@dataclass
class _Log:
    """All matrices of a log; `apart` has by the line of a connectivity matrix the pairs without access."""

    blocks: list[_Block] = field(default_factory=list)
    apart: dict[int, list[str]] = field(default_factory=dict)

    def begin(self, block: _Block) -> _Block:
        self.blocks.append(block)
        return block


def looks_like(text: str) -> bool:
    """Whether the title of a matrix is in it."""
    return re.search(r"P2P=(?:Enabled|Disabled)\s.{0,40}Matrix", text) is not None


def read(text: str, path: str | None) -> Measured:
    """All matrices but the half of the latencies that is the CPU's time.

    Raises
    ------
    MeasurementError : a row has more cells than there are GPUs, or no matrix has a row.
    """
    log = _log(text, path)
    matrices = tuple(_matrix(block, path) for block in log.blocks if block.rows and block.half != "CPU")
    if not matrices:
        first = log.blocks[0].line if log.blocks else 1
        raise MeasurementError("no matrix of p2pBandwidthLatencyTest has a row", path=path, line=first)
    return Measured(("p2p-bandwidth",), (), matrices, tuple(_warnings(log, path)))


def _log(text: str, path: str | None) -> _Log:
    log = _Log()
    block: _Block | None = None
    connectivity: int | None = None
    for line in lines_of(text):
        first, *others = line.text.split()
        is_row = whole_of(first) is not None
        if (title := _TITLE.search(line.text)) is not None:
            block, connectivity = log.begin(_titled(title, line.number)), None
        elif "P2P Connectivity Matrix" in line.text:
            block, connectivity = None, line.number
        elif connectivity is not None and is_row:
            flags = [at for at, word in enumerate(others) if word == "0"]
            log.apart.setdefault(connectivity, []).extend(f"{first}-{at}" for at in flags)
        elif block is not None and (corner := _CORNER.match(line.text)) is not None:
            if block.rows:  # the second half of a latency
                block = log.begin(_Block(line.number, block.test, block.quantity, False, block.peer))
            block.half = corner[1]
            block.targets = tuple(int(word[:9]) for word in corner[2].split())
        elif block is not None and block.targets and is_row:
            block.take_row(line, path)
        elif block is not None and block.is_whole:
            block = None  # other output may stand between its rows, but not numbers behind its last
    return log


def _titled(title: re.Match[str], line: int) -> _Block:
    latency = title[3].lower() == "latency"
    way = "" if title[1] is None else f"{title[1].lower()} "
    return _Block(
        line,
        f"{way}P2P={title[2]} {title[3].lower()}" + (f" ({title[4]})" if title[4] else ""),
        "latency_us" if latency else "bandwidth_gbps",
        both_directions=way.startswith("bi"),
        peer=title[2].lower() == "enabled",
    )


def _warnings(log: _Log, path: str | None) -> Iterator[str]:
    for block in log.blocks:
        if block.half != "CPU" and 0 < len(block.rows) < len(block.targets):
            yield (
                f"{path or '<text>'}:{block.line}: the matrix has {len(block.rows)} whole rows "
                f"of {len(block.targets)}; the others are left out"
            )
    for line, pairs in log.apart.items():
        if pairs:
            yield (
                f"{path or '<text>'}:{line}: no peer access: {', '.join(pairs[:8])}"
                f"{' ...' if len(pairs) > 8 else ''}; what they move with P2P=Enabled went through the host"
            )


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
        both_directions=block.both_directions,
        sums_directions=block.both_directions,
        peer=block.peer,
        size_bytes=_LATENCY_BYTES if block.quantity == "latency_us" else None,
    )
