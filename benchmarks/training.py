"""Steps of training as a model: compute, and the time of collectives that nothing hides.

A step takes C + T, with C for compute and T for collectives that nothing hides. With the part f = T / (C
+ T) of a step by NCCL's algorithms, and collectives that are s times as fast, it is 1 / (1 - f + f / s)
times as fast. Where compute hides h of the collectives, C is h at least and both T are h shorter, so s is
the limit as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks import report
from taccl.model.units import MB, format_size

#: What the paper says of training Transformer-XL and BERT: the least and the most, over batch sizes.
LEAST, MOST = 1.11, 2.3
#: Parts of a step that are collectives, with NCCL's algorithms.
SHARES = (0.1, 0.25, 0.5, 0.75)
#: AllReduces that are shown; below, launches count, which the times leave out.
LEAST_BYTES, MOST_BYTES = MB // 4, 256 * MB
#: The paper's mixture of experts: bytes of an AlltoAll and of its AllReduce, how much faster AlltoAll became
#: at most on NDv2, and how many AlltoAlls a step may have, which is not published.
MIXTURE_ALLTOALL, MIXTURE_ALLREDUCE, MIXTURE_ALLTOALL_GAIN = 6 * MB, 256 * MB, 1.12
MIXTURE_CALLS = (4, 16, 64)

MODEL = """\
The paper says that training of Transformer-XL and BERT became 1.11 to 2.3 times as fast, by batch size.
Compute times and message sizes of those runs are not known here, so both are parameters of a model: a
step is compute and the collectives that nothing hides, and *the part* is how much of a step with NCCL's
algorithms these collectives are. With a part f and collectives s times as fast, a step is 1 / (1 - f + f
/ s) times as fast. What compute hides of the collectives, it hides in both cases: no step gains more
than s.
"""
SAID = """\
So 1.11 is the gain of a step of which 16% to 65% are AllReduces of 256 KB and more, with compute for the
rest. 2.3 takes AllReduces of 256 KB or less that are nine tenths of the step. Above 1 MB no schedule in
this model is more than 1.95 times as fast as NCCL's algorithms on two nodes, and 1.51 on four; the paper
itself has 1.9 at most for single AllReduces on two. So either those runs had many small AllReduces, or
NCCL took longer in them than its algorithms take on these links. Launches, which the times leave out,
make all gains smaller at 256 KB.
"""
MIXTURE = """\
**A mixture of experts** on two NDv2, with AlltoAlls of 6 MB and an AllReduce of 256 MB. NCCL's AlltoAll
has no time on NDv2 in this model and is taken as 1.12 times ours, the most that the paper found. How
many AlltoAlls a step has is not published:
"""


def gain(part: float, speedup: float) -> float:
    """How many times as fast a step is whose part becomes so many times as fast."""
    return 1 / (1 - part + part / speedup)


def part_for(wanted: float, speedup: float) -> float | None:
    """Which part of a step must become so many times as fast for a gain; None: all of it is not enough."""
    part = (1 - 1 / wanted) / (1 - 1 / speedup) if speedup > 1 else float("inf")
    return part if part <= 1 else None


def training(explored: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The parts of the page: the model and its tables, of the kept explorations of NDv2."""
    rows = {(row["nodes"], row["collective"]): row for row in explored if row["topology"] == "ndv2"}
    yield MODEL.strip()
    shares = [f"step, part {share:.0%}" for share in SHARES]
    wanted = [f"part for {each}x" for each in (LEAST, MOST)]
    header = ("nodes", "AllReduce", "NCCL's ms", "ours ms", "speed-up", *shares, *wanted)
    yield report.table(
        header, [cells for nodes in (2, 4) for cells in _of_allreduce(rows[nodes, "allreduce"])]
    )
    yield SAID.strip()
    yield MIXTURE.strip()
    header = ("AlltoAlls a step", "collectives: NCCL's ms", "ours ms", "speed-up", *shares)
    yield report.table(header, _of_mixture(rows[2, "allreduce"], rows[2, "alltoall"]))


def _of_allreduce(row: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for (size, time_us, _), nccl_us in zip(row["best"], row["nccl_us"], strict=True):
        if LEAST_BYTES <= size <= MOST_BYTES:
            parts = (part_for(wanted, nccl_us / time_us) for wanted in (LEAST, MOST))
            yield (
                *(str(row["nodes"]), format_size(size), *_compared(nccl_us, time_us)),
                *("none" if part is None else f"{part:.0%}" for part in parts),
            )


def _of_mixture(allreduce: Mapping[str, Any], alltoall: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    nccl_us = allreduce["nccl_us"][[size for size, *_ in allreduce["best"]].index(MIXTURE_ALLREDUCE)]
    time_us, call_us = _at(allreduce, MIXTURE_ALLREDUCE), _at(alltoall, MIXTURE_ALLTOALL)
    for calls in MIXTURE_CALLS:
        yield (
            str(calls),
            *_compared(nccl_us + calls * MIXTURE_ALLTOALL_GAIN * call_us, time_us + calls * call_us),
        )


def _compared(nccl_us: float, time_us: float) -> tuple[str, ...]:
    """Both in milliseconds, the speed-up, and the gain of steps of which they are a part."""
    speedup = nccl_us / time_us
    gains = (f"{gain(share, speedup):.2f}x" for share in SHARES)
    return (f"{nccl_us / 1000:.2f}", f"{time_us / 1000:.2f}", f"{speedup:.2f}x", *gains)


def _at(row: Mapping[str, Any], size_bytes: int) -> float:
    """Our time at a size, on the line between the sizes that were explored on either side."""
    known = [(size, time_us) for size, time_us, _ in row["best"]]
    (below, below_us) = max(each for each in known if each[0] <= size_bytes)
    (above, above_us) = min(each for each in known if each[0] >= size_bytes)
    if below == above:
        return float(below_us)
    return float(below_us + (above_us - below_us) * (size_bytes - below) / (above - below))
