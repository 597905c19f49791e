"""The text files of layers of ASTRA-sim 1.0.

The first line names the parallelism, the second the number of layers; each further line is a layer: name, a
dependency, and for the forward pass, the gradients of inputs and those of weights each a time, the kind of a
collective and its bytes; at the end the time of the update. Times are cycles, read as nanoseconds (1 GHz). A
line of one number, which some writers put at the end, says nothing.
"""

from __future__ import annotations

import re
from pathlib import Path

from taccl.analysis.training.workload import BucketCall, Layer, Phase, Workload
from taccl.errors import TacclError
from taccl.model.collectives import COLLECTIVES, plain_name
from taccl.support.tables import lines_of

_US_PER_CYCLE = 1e-3
_FIRST = re.compile(r"(DATA|MODEL|HYBRID_\w+)\b")
_GROUP = re.compile(r"model_parallel_NPU_group:\s*([0-9]{1,6})")
#: Cells before the three phases, and of each of them.
_BEFORE, _OF_PHASE = 2, 3
_CELLS = _BEFORE + 3 * _OF_PHASE + 1
_SAYS = "times are cycles in the file, taken as nanoseconds"


def is_astra_text(text: str) -> bool:
    """Whether the first line names a parallelism, and the second a number."""
    lines = [line for line in lines_of(text) if line.strip()][:2]
    return len(lines) == 2 and _FIRST.match(lines[0]) is not None and lines[1].strip().isdigit()


def read_astra_text(text: str, path: str | Path | None = None) -> Workload:
    """The workload of a file.

    Raises
    ------
    TacclError : a line that is no layer, or another number of layers than the file says.
    """
    lines = [(number, line) for number, line in enumerate(lines_of(text), start=1) if line.strip()]
    (_, first), (second, count), *rows = lines
    layers = tuple(_layer(line, number, path) for number, line in rows if not line.strip().isdigit())
    if len(layers) != int(count):
        raise TacclError(
            f"the file says that it has {count.strip()} layers, and has {len(layers)}", path=path, line=second
        )
    found = _GROUP.search(first)
    group = int(found[1]) if found else 1
    return Workload("workload" if path is None else Path(path).stem, 1, layers, max(1, group), 0.0, (_SAYS,))


def _layer(line: str, number: int, path: str | Path | None) -> Layer:
    cells = line.split()
    if len(cells) < _CELLS:
        raise TacclError(f"this layer has {len(cells)} cells, not {_CELLS}", path=path, line=number)
    try:
        times = [float(cells[_BEFORE + _OF_PHASE * phase]) * _US_PER_CYCLE for phase in range(3)]
        sizes = [int(cells[_BEFORE + _OF_PHASE * phase + 2]) for phase in range(3)]
        update_us = float(cells[_CELLS - 1]) * _US_PER_CYCLE
    except ValueError:
        raise TacclError("a time or a size is no number", path=path, line=number) from None
    if min(*times, *sizes, update_us) < 0:
        raise TacclError("a time or a size is negative", path=path, line=number)
    kinds = [cells[_BEFORE + _OF_PHASE * phase + 1] for phase in range(3)]
    phases: tuple[Phase, Phase] = ("forward", "backward")
    calls = tuple(
        BucketCall(phase, _collective(kind, number, path), size)
        for phase, kind, size in zip(phases, kinds, sizes, strict=False)
        if kind != "NONE" and size
    )
    gradient = sizes[2] if kinds[2] != "NONE" else 0
    if gradient and _collective(kinds[2], number, path) != "allreduce":
        raise TacclError(
            f"gradients are summed by {kinds[2]}, and only ALLREDUCE is known", path=path, line=number
        )
    return Layer(cells[0], gradient, times[0], times[1] + times[2] + update_us, calls)


def _collective(kind: str, number: int, path: str | Path | None) -> str:
    name = plain_name(kind.lower().replace("_", ""))
    if name not in COLLECTIVES:
        raise TacclError(f"{kind!r} is no collective", path=path, line=number)
    return name
