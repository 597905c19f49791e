"""AlltoAll of unequal parts: the traffic of a mixture of experts, whose popularity is Zipf's.

    python -m benchmarks.alltoallv [--time-limit S] [--seed N] [--servers 4 8 40 64]

Each of 64 ranks has tokens for 64 experts, one on each rank, whose popularity is 1 / place^1.2; and FAST's
machines and traffic (NSDI 2026): all pairs of GPUs in random order, with 1 / place^Z of the bytes, 50 MB in
the mean. Writes docs/results/alltoallv.md.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks import report
from taccl import plan_traffic, synthesize
from taccl.model.collective import IntArray

#: Bytes of one rank's tokens together, and of a token.
_TOKENS, _TOKEN_BYTES = 4096, 8192
_EXPONENT = 1.2
HEADER = ["sizes", "chunks per part", "time us", "bound us", "gap", "engine", "CPU s"]

#: FAST's machines: GB/s of a GPU inside a server and of its NIC; servers of 8 GPUs.
_FAST, _GPUS = {"H200": (450, 50), "MI300X": (448, 12.5)}, 8
_FAST_HEADER = [
    "machine", "ranks", "Zipf", "chunks", "time ms", "bound ms", "of the bound", "first order s",
    "planning ms", "plan of the bound", "FAST plans in ms",
]  # fmt: skip
_FAST_PLANS_MS = {32: "0.025", 64: "0.221", 320: "77"}
#: Units of work from so many ranks on; below, of all orders of the routes that come first.
_LARGE_RANKS, _EFFORTS = 256, (1, 3000)
_MACHINE = """
name: fast-{name}
occupancy: pipelined
nodes: {servers}
node:
  gpus: 8
  switches: [switch]
  nics: 8
  links:
    - {{from: gpus, to: switch, alpha_us: 0.35, bandwidth_gbps: {up}}}
    - {{from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: {out}}}
fabric: {{alpha_us: 3, bandwidth_gbps: {out}}}
"""


def fast_traffic(ranks: int, exponent: float, seed: int, mean_bytes: float = 50e6) -> IntArray:
    """Bytes from each rank to each, shape (ranks, ranks): Zipf's law over all pairs, in random order."""
    random = np.random.default_rng(seed)
    weight = random.permutation(1.0 / np.arange(1, ranks * ranks + 1) ** exponent).reshape(ranks, ranks)
    np.fill_diagonal(weight, 0)
    return np.asarray(weight / weight[weight > 0].mean() * mean_bytes, dtype=np.int64)


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
    parser.add_argument("--servers", type=int, nargs="+", default=[4, 8, 40])
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
    fast = [row for servers in arguments.servers for row in _fast_rows(servers, arguments.seed)]
    text = f"{report.table(HEADER, rows)}\n\n{_ABOUT_FAST}\n\n{report.table(_FAST_HEADER, fast)}"
    report.write("alltoallv", "AlltoAll of unequal parts", intro, text)


_ABOUT_FAST = (
    "FAST's machines and traffic (NSDI 2026): servers of 8 GPUs, 450 GB/s inside and 50 GB/s a NIC (H200), "
    "448 and 12.5 (MI300X); Zipf's law over all pairs of GPUs, 50 MB a pair in the mean. The bound is the "
    "busiest server's bytes out or in, over its NICs; FAST states to be within 1.08 of the optimum where it "
    "measures, and within 5% of the bound where it simulates. `time` is of a schedule that passed its check, "
    "of `synthesize --sizes --engine routes` (a small `--effort`); the first order is the first schedule's, "
    "problem and check included. `planning` is `taccl.plan_traffic`, which deals and orders chunks without a "
    "schedule: `plan of the bound` is what its busiest NIC passes."
)


def _fast_rows(servers: int, seed: int) -> Iterator[list[str]]:
    ranks = servers * _GPUS
    for name, (up, out) in _FAST.items():
        for exponent in (0.4, 0.8, 0.9) if ranks < _LARGE_RANKS else (0.8,):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "machine.yaml"
                path.write_text(_MACHINE.format(name=name.lower(), servers=servers, up=up, out=out))
                yield _fast_row(name, path, fast_traffic(ranks, exponent, seed), exponent, out)


def _fast_row(name: str, path: Path, sizes: IntArray, exponent: float, out_gbps: float) -> list[str]:
    ranks = len(sizes)
    chunks = 1 if ranks >= _LARGE_RANKS else 256 // ranks
    first_s: list[float] = []
    began_s = time.monotonic()
    result = synthesize(
        "alltoall",
        topology=path,
        sizes=sizes,
        chunks=chunks,
        engine="routes",
        effort=_EFFORTS[ranks < _LARGE_RANKS],
        file=False,
        on_progress=lambda news: first_s.append(time.monotonic() - began_s) if news.time_us else None,
    )
    result.schedule.check()
    times_s = []
    for _ in range(5):
        began = time.perf_counter()
        plan = plan_traffic(sizes, _GPUS)
        times_s.append(time.perf_counter() - began)
    bound_us = plan.least_bytes / (out_gbps * 1e3)
    return [
        name,
        str(ranks),
        f"{exponent:g}",
        str(result.schedule.problem.num_chunks),
        f"{result.time_us / 1e3:.2f}",
        f"{bound_us / 1e3:.2f}",
        f"{bound_us / result.time_us:.1%}",
        f"{first_s[0]:.1f}",
        f"{min(times_s) * 1e3:.1f}",
        f"{plan.of_bound:.1%}",
        _FAST_PLANS_MS.get(ranks, "-"),
    ]


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
