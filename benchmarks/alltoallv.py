"""AlltoAll of unequal parts: the traffic of a mixture of experts, whose popularity is Zipf's.

    python -m benchmarks.alltoallv [--time-limit S] [--seed N]

Each of 64 ranks has tokens for 64 experts, one on each rank, whose popularity is 1 / place^1.2. Writes
docs/results/alltoallv.md.
"""

from __future__ import annotations

import argparse
import resource

import numpy as np

from benchmarks import report
from taccl import synthesize
from taccl.model.collective import IntArray

#: Bytes of one rank's tokens together, and of a token.
_TOKENS, _TOKEN_BYTES = 4096, 8192
_EXPONENT = 1.2
HEADER = ["sizes", "chunks per part", "time us", "bound us", "gap", "engine", "CPU s"]


def zipf_traffic(ranks: int, seed: int, shared: bool) -> IntArray:
    """Bytes from each rank to each, shape (ranks, ranks): tokens drawn by Zipf's law, none for itself.

    `shared` : all ranks have the same favourites, so one rank receives most; else each has its own.
    """
    random = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, ranks + 1) ** _EXPONENT
    sizes = np.zeros((ranks, ranks), dtype=np.int64)
    places = random.permutation(ranks)
    for rank in range(ranks):
        weight = popularity[places if shared else random.permutation(ranks)]
        sizes[rank] = random.multinomial(_TOKENS, weight / weight.sum()) * _TOKEN_BYTES
    np.fill_diagonal(sizes, 0)
    return sizes


def main() -> None:
    """Run all rows and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chunks", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    rows = [
        _row(shared, chunks, arguments.time_limit, arguments.seed)
        for shared in (True, False)
        for chunks in arguments.chunks
    ]
    intro = (
        f"A 64 x 64 matrix of traffic of a mixture of experts on `dgx-h100` x8 (Zipf {_EXPONENT}, seed "
        f"{arguments.seed}: {_TOKENS} tokens of {_TOKEN_BYTES} bytes from each rank), as "
        f"`taccl synthesize --sizes` does it, {arguments.time_limit:g} s a row on one core. "
        "`one favourite`: all ranks prefer the same experts, so the port into one rank decides; "
        "`own favourites`: each rank has its own. Loops were compiled before (`taccl compile`)."
    )
    report.write("alltoallv", "AlltoAll of unequal parts", intro, report.table(HEADER, rows))


def _row(shared: bool, chunks: int, time_limit: float, seed: int) -> list[str]:
    began = resource.getrusage(resource.RUSAGE_SELF)
    result = synthesize(
        "alltoall",
        topology="dgx-h100",
        nodes=8,
        sizes=zipf_traffic(64, seed, shared),
        chunks=chunks,
        time_limit=time_limit,
        file=False,
        **report.as_published("dgx-h100"),
    )
    spent = resource.getrusage(resource.RUSAGE_SELF).ru_utime - began.ru_utime
    result.schedule.check()
    engines = [run.name for run in result.found.engines if run.time_us is not None]
    return [
        "one favourite" if shared else "own favourites",
        str(chunks),
        f"{result.time_us:.1f}",
        f"{result.lower_bound_us:.1f}",
        f"{1 - result.lower_bound_us / result.time_us:.1%}",
        engines[-1] if engines else "-",
        f"{spent:.1f}",
    ]


if __name__ == "__main__":
    main()
