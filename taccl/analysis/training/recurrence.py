"""One step of training: when buckets are ready, when their sums run, and how long the step is.

Buckets run one after another on one stream, as NCCL runs them: end_b = max(end_{b-1}, ready_b) + T(bytes_b).
A layer's own calls are waited for where they stand. What a collective takes from computing (SMs, memory
bandwidth, launches) is not counted, and neither is what calls and buckets take from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from taccl.analysis.training.workload import Bucket, BucketCall, Phase, Workload

#: Until when sums are waited for: the end of the step (DDP), or each layer's own next forward pass.
Until = Literal["step", "next-forward"]
CallTime = Callable[[BucketCall], float]
BucketTime = Callable[[int], float]


@dataclass(frozen=True)
class RanBucket:
    """A bucket with its times from the begin of the step, microseconds.

    Parameters
    ----------
    exposed_us : what of its sum runs while nothing is left to compute.
    """

    bucket: Bucket
    ready_us: float
    start_us: float
    end_us: float
    exposed_us: float


@dataclass(frozen=True)
class Span:
    """What a GPU does next to sums of buckets, microseconds from the begin of the step.

    Parameters
    ----------
    what : it computes a layer, waits for the calls of one, or is idle (of no layer).
    """

    what: Literal["forward", "backward", "calls", "idle"]
    layer: int | None
    start_us: float
    end_us: float


@dataclass(frozen=True)
class TrainingStep:
    """A step with its collectives.

    Parameters
    ----------
    compute_us : of computing alone, idle time of the workload included.
    calls_us : of the calls that layers wait for.
    step_us : of the whole.
    buckets : in their order.
    spans : what the GPU does meanwhile, in order of time.
    """

    compute_us: float
    calls_us: float
    step_us: float
    buckets: tuple[RanBucket, ...]
    spans: tuple[Span, ...] = ()

    @property
    def exposed_us(self) -> float:
        """What the step is longer than its computing."""
        return self.step_us - self.compute_us

    @property
    def stall(self) -> float:
        """Exposed over the whole step: Stash's interconnect stall, against one GPU that computes alone."""
        return self.exposed_us / self.step_us if self.step_us > 0 else 0.0


def run_step(
    workload: Workload,
    buckets: Sequence[Bucket],
    bucket_us: BucketTime,
    call_us: CallTime,
    until: Until = "step",
) -> TrainingStep:
    """The step with these buckets.

    Parameters
    ----------
    bucket_us : what the sum of a bucket of this many bytes takes.
    call_us : what a layer's call takes.
    """
    calls = _calls_us(workload, call_us)
    spans = tuple(_spans(workload, calls))
    ready, end_us = _ready_us(workload, spans)
    ran, free_us = list[RanBucket](), 0.0
    for bucket in buckets:
        ready_us = max(ready[layer] for layer in bucket.layers)
        start_us = max(free_us, ready_us)
        free_us = start_us + bucket_us(bucket.num_bytes)
        exposed_us = max(0.0, free_us - max(start_us, end_us))
        ran.append(RanBucket(bucket, ready_us, start_us, free_us, exposed_us))
    due_at_end = until == "step"
    step_us = max(end_us, free_us) if due_at_end else _until_next_forward(workload, calls, ran, end_us)
    calls_us = sum(sum(each.values()) for each in calls)
    return TrainingStep(workload.compute_us, calls_us, step_us, tuple(ran), spans)


def exposed_bound_us(
    workload: Workload, bucket_bound_us: BucketTime, call_bound_us: CallTime, until: Until = "step"
) -> float:
    """What any schedule exposes at least, also one that overlaps sums and cuts gradients as it likes.

    Gradients of the first layers come last. What layers 0 .. k have together is ready only when layer k's
    backward pass has ended, and cannot be summed in less than a bound for this many bytes.
    """
    calls = _calls_us(workload, call_bound_us)
    ready, end_us = _ready_us(workload, tuple(_spans(workload, calls)))
    least_us, size, hidden_us = 0.0, 0, 0.0
    for index, layer in enumerate(workload.layers):
        size += layer.gradient_bytes
        if size:
            least_us = max(least_us, ready[index] + bucket_bound_us(size) - end_us - hidden_us)
        if until == "next-forward":  # layer k waits for layers 0 .. k while those before it compute
            hidden_us += layer.forward_us + calls[index]["forward"]
    return least_us + sum(sum(each.values()) for each in calls)


def _calls_us(workload: Workload, call_us: CallTime) -> list[dict[Phase, float]]:
    found: list[dict[Phase, float]] = []
    for layer in workload.layers:
        times: dict[Phase, float] = {"forward": 0.0, "backward": 0.0}
        for call in layer.calls:
            times[call.phase] += call_us(call)
        found.append(times)
    return found


def _spans(workload: Workload, calls: Sequence[dict[Phase, float]]) -> Iterator[Span]:
    """The forward pass, the backward pass from the last layer to the first, and before them what is idle."""
    now_us = workload.idle_us
    if now_us:
        yield Span("idle", None, 0.0, now_us)
    every = range(len(workload.layers))
    phases: tuple[tuple[Phase, Sequence[int]], ...] = (("forward", every), ("backward", every[::-1]))
    for phase, order in phases:
        for index in order:
            layer = workload.layers[index]
            end_us = now_us + (layer.forward_us if phase == "forward" else layer.backward_us)
            yield Span(phase, index, now_us, end_us)
            now_us = end_us + calls[index][phase]
            if now_us > end_us:
                yield Span("calls", index, end_us, now_us)


def _ready_us(workload: Workload, spans: Sequence[Span]) -> tuple[list[float], float]:
    """When each layer's gradients are there, and when the backward pass ends."""
    ready = [0.0] * len(workload.layers)
    for span in spans:
        if span.layer is not None:
            ready[span.layer] = span.end_us  # the last is of the backward pass
    return ready, spans[-1].end_us


def _until_next_forward(
    workload: Workload, calls: Sequence[dict[Phase, float]], ran: Sequence[RanBucket], end_us: float
) -> float:
    """The time from one end of a forward pass to the next, whose layers wait each for its own sum."""
    summed_us = {layer: each.end_us for each in ran for layer in each.bucket.layers}
    now_us = end_us
    for index, layer in enumerate(workload.layers):
        now_us = max(now_us, summed_us.get(index, 0.0)) + layer.forward_us + calls[index]["forward"]
    first_us = sum(
        layer.forward_us + each["forward"] for layer, each in zip(workload.layers, calls, strict=True)
    )
    return now_us - first_us
