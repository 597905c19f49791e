"""How good the file is that a call with everything open makes: next to calls with the number of chunks given.

    python -m benchmarks.file_times [--time-limit SECONDS] [--only TEXT ...]

For each machine, collective and size: what a call of the file is predicted to take where protocol, instances,
thread blocks and chunks are open, without a limit and with a short one, and the fastest of calls with 1, 2,
4, ... 32 chunks and the short limit each. What the first two lose to the last, their choice loses.
"""

from __future__ import annotations

import argparse
import time

from benchmarks import report
from taccl import synthesize
from taccl.errors import TacclError

#: (machine, nodes, collective, size).
CELLS = (
    ("dgx-h100", 1, "allreduce", "1MB"),
    ("dgx-h100", 1, "allreduce", "16MB"),
    ("dgx-h100", 2, "broadcast", "1MB"),
    ("dgx-h100", 2, "broadcast", "16MB"),
    ("dgx-h100", 2, "allreduce", "1MB"),
    ("dgx-h100", 2, "allgather", "1MB"),
    ("a100", 2, "allreduce", "1MB"),
    ("ndv2", 2, "allreduce", "16MB"),
)
NUMBERS = (1, 2, 4, 8, 16, 32)


def main() -> None:
    """Make the files of each cell, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=5.0)
    parser.add_argument("--only", nargs="*", default=[""], help="cells whose words have one of these in them")
    arguments = parser.parse_args()
    rows = [
        _row(cell, arguments.time_limit)
        for cell in CELLS
        if any(text in " ".join(map(str, cell)) for text in arguments.only)
    ]
    limit = f"{arguments.time_limit:g} s"
    header = (
        *("machine", "collective", "size", "us", "chunks", "after s", f"us in {limit}", "loses"),
        *(f"best of {NUMBERS[0]} to {NUMBERS[-1]} chunks, {limit} each: us", "chunks"),
    )
    report.write("file_times", "What an open choice of a file loses", _INTRO, report.table(header, rows))


_INTRO = """\
What a call of the file is predicted to take on machines whose GPUs' executors are known by default, without
in-switch sums: `taccl synthesize` with protocol, instances, thread blocks and chunks open, without a limit
and with a short one, next to the fastest of calls with the number of chunks given. *Loses*: what the short
call takes more than that.
"""


def _row(cell: tuple[str, int, str, str], limit_s: float) -> list[str]:
    machine, nodes, collective, size = cell
    began_s = time.monotonic()
    open_us, chunks = _predicted(cell)
    took_s = time.monotonic() - began_s
    short_us, _ = _predicted(cell, time_limit=limit_s)
    given = [each for number in NUMBERS if (each := _predicted(cell, time_limit=limit_s, chunks=number))[1]]
    best_us, best = min(given)
    row = [
        *(f"{machine} x{nodes}", collective, size, f"{open_us:.1f}", str(chunks), f"{took_s:.0f}"),
        *(f"{short_us:.1f}", f"{100 * (short_us / best_us - 1):.0f}%", f"{best_us:.1f}", str(best)),
    ]
    print(*row, flush=True)
    return row


def _predicted(
    cell: tuple[str, int, str, str], time_limit: float | None = None, chunks: int | None = None
) -> tuple[float, int]:
    """The predicted time of a file and its chunks in each part; infinite and 0 where there is none."""
    machine, nodes, collective, size = cell
    try:
        result = synthesize(
            collective,
            topology=machine,
            nodes=nodes,
            size=size,
            chunks=chunks,
            time_limit=time_limit,
            without=["nvswitch"] if machine == "dgx-h100" else [],
        )
    except TacclError:
        return float("inf"), 0
    if result.execution is None:
        return float("inf"), 0
    return result.execution.time_us, result.collective.chunks_per_rank


if __name__ == "__main__":
    main()
