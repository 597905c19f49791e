"""TE-CCL's machines at the eleven sizes of its experiments, against the finish times that it published.

    python -m benchmarks.teccl [--time-limit SECONDS] [--only MACHINE]

Sizes are decimal, as TE-CCL's are, but for 1KB: 1000 bytes are not a whole number of bytes for each of
32 ranks, so its row is measured with 1024, to our disadvantage. Each row is one call of `synthesize` with
`chunks="auto"`. The last column is the XML on the same machine under `taccl simulate`, where a connection
holds only this many pieces as its protocol has slots; the cost model, and TE-CCL's, know no such limit.
"""

from __future__ import annotations

import argparse
import sys
import time

import taccl
from benchmarks import report
from taccl.backend.simulate import simulate_program
from taccl.errors import TacclError

SIZES = {
    "1KB": 1024,
    "4KB": 4_000,
    "16KB": 16_000,
    "64KB": 64_000,
    "256KB": 256_000,
    "1MB": 10**6,
    "4MB": 4 * 10**6,
    "16MB": 16 * 10**6,
    "64MB": 64 * 10**6,
    "256MB": 256 * 10**6,
    "1GB": 10**9,
}
#: Finish times in us, in the order of `SIZES`: the best of its settings; at 4KB, 16MB and 256MB, of the
#: released outputs of its setting "Fast".
PUBLISHED_US = {
    ("dgx2-teccl", "allgather"): (4.006, 4.032, 4.08, 4.32, 5.38, 10.75, 33.0, 124.0, 496.0, 1984.0, 7750.0),
    ("dgx2-teccl", "alltoall"): (4.06, 4.21, 4.70, 8.46, 24.0, 84.25, 327, 1292, 5168, 20608, 80500),
    ("ndv2-teccl", "allgather"): (5.45, 5.516, 5.81, 8.32, 20.96, 69.38, 280, 1170, 4160, 16960, 65000),
}
HEADER = (
    "machine",
    "collective",
    "size",
    "chunks",
    "time us",
    "bound us",
    "gap",
    "TE-CCL us",
    "ours / TE-CCL",
    "total s",
    "XML",
    "bound is",
    "simulated us",
)


def main() -> None:
    """Run all rows and write docs/results/teccl.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=30.0)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    rows = [
        _row(machine, collective, label, published, arguments.time_limit)
        for (machine, collective), times in PUBLISHED_US.items()
        if arguments.only in machine
        for label, published in zip(SIZES, times, strict=True)
    ]
    intro = (
        "`dgx2-teccl` (2 nodes) and `ndv2-teccl` (4 nodes), pipelined occupancy, with `--chunks auto`; "
        f"search limit {arguments.time_limit:g} s a row. *total* is the wall time of the call, verified XML "
        "included. Sizes are decimal; the row of 1KB is measured with 1024 bytes, which 32 ranks can share."
    )
    report.write("teccl", "TE-CCL's machines", intro, report.table(HEADER, rows) + "\n\n" + NOTES)


NOTES = """\
**What is compared.** TE-CCL's switch may copy one incoming chunk to several outputs; here it passes a chunk
on once, so every copy takes its sender's port again: ours is the harder problem. Both cut data at will;
TE-CCL's AlltoAll moves fractions of chunks. Its times are the best of its settings as it published them, at
4KB, 16MB and 256MB those of its setting "Fast".

**DGX-2 AllGather from 16MB on** cannot be done in TE-CCL's times on the machine as stated. They are 31
epochs, each as long as one part takes at 125 GB/s, and in the first of them a part gets from GPU to GPU: the
alphas of 0.35 us are rounded to nothing. An odd GPU has one way in, from its switch. 31 parts must pass it,
which takes 7750 us at 1GB, and the last one is there the two alphas later: 7750.7 us, which is the bound, and
the time found.

**Simulated** is the file under `taccl simulate`, on the same machine. It is above the schedule's time where
many chunks are under way at once: alpha is pure latency, so the cost model, like TE-CCL's, lets any number
of chunks follow each other on a link, while a connection holds only as many as its protocol has slots. With
enough slots the file takes as long as the schedule says."""


def _row(machine: str, collective: str, label: str, published: float, time_limit: float) -> list[str]:
    began = time.monotonic()
    head = [machine, collective, label]
    try:
        result = taccl.synthesize(
            collective,
            topology=machine,
            size=SIZES[label],
            chunks="auto",
            time_limit=time_limit,
            executor=False,
        )
    except TacclError as error:
        row = [*head, *["-"] * 9, str(error).splitlines()[0]]
    else:
        seconds = time.monotonic() - began
        file = simulate_program(
            result.files[0].program, result.problem.topology, result.problem.chunk_mb
        ).time_us
        row = [
            *head,
            str(result.collective.chunks_per_rank),
            _us(result.time_us),
            _us(result.lower_bound_us),
            f"{100 * result.gap:.2f}%",
            _us(published),
            f"{result.time_us / published:.4f}",
            f"{seconds:.1f}",
            ", ".join(reader for each in result.files for reader in each.readers),
            result.bound_source,
            _us(file),
        ]
    print(*row, sep="  ", file=sys.stderr, flush=True)
    return row


def _us(time_us: float) -> str:
    """As many digits as tell the rows apart: three decimals below 100 us, one above."""
    return f"{time_us:.3f}" if time_us < 100 else f"{time_us:.1f}"


if __name__ == "__main__":
    main()
