"""A trace of PyTorch's profiler (Kineto), of one rank, as a workload.

Kernels of NCCL are its collectives; all other kernels are what it computes. Time counts while a computing
kernel runs, so what a trace waited for its network is left out. A collective is a layer of its own: what was
computed since the one before made its gradients. What is computed before the first of them is the forward
pass and the first part of the backward pass; it counts as forward. One step is read: the first whole one that
the profiler marks, or all where none is marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from taccl.analysis.training.workload import NUMBER_BYTES, Layer, Workload
from taccl.errors import TacclError
from taccl.support.json_text import parse_json

_BYTES = {"float": 4, "float32": 4, "half": 2, "float16": 2, "bfloat16": 2, "double": 8, "int": 4, "long": 8}
_BYTES |= {"float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1}
_SAYS = "times are of the kernels of one rank, without the gaps between them"


def is_kineto(text: str) -> bool:
    """Whether it looks like a trace."""
    return text.lstrip()[:1] in ("{", "[") and '"traceEvents"' in text


def read_kineto(text: str, path: str | Path | None = None, dtype: str | None = None) -> Workload:
    """The workload of a trace.

    Parameters
    ----------
    dtype : fp32, fp16 or bf16, of AllReduces that do not say what they sum; None: these have no size.

    Raises
    ------
    TacclError : no JSON, no kernels, or no AllReduce that says how large it is.
    """
    values = parse_json(
        text, None if path is None else str(path), TacclError, "a trace of PyTorch's profiler"
    )[0]
    events = values.get("traceEvents") if isinstance(values, dict) else None
    if not isinstance(events, list):
        raise TacclError("the trace has no list of traceEvents", path=path)
    timed = [each for each in events if _is_timed(each)]
    begin, end = _step_of(timed)
    kernels = sorted(
        (each for each in timed if each.get("cat") in ("kernel", "Kernel") and begin <= each["ts"] < end),
        key=lambda each: float(each["ts"]),
    )
    sums = [each for each in kernels if "nccl" in str(each.get("name", "")).lower()]
    computing = [each for each in kernels if "nccl" not in str(each.get("name", "")).lower()]
    usual = 0.0 if dtype is None else NUMBER_BYTES.get(dtype, 0.0)
    numbers = [
        (float(each["ts"]), many, _number_bytes(each) or usual) for each in sums if (many := _numbers(each))
    ]
    gradients = [(at, round(many * each)) for at, many, each in numbers if each]
    if not computing or not gradients:
        raise TacclError(
            "the trace has no computing kernels, or no AllReduce with its size",
            path=path,
            hint="--gradients says what is summed where the trace does not"
            if numbers and computing
            else "record on a GPU, with record_shapes=True, several ranks and a recent PyTorch",
        )
    every = sum(many for _, many, each in numbers if each)
    return Workload(
        "trace" if path is None else Path(path).stem,
        1,
        _layers(computing, gradients),
        notes=(_SAYS,),
        number_bytes=sum(size for _, size in gradients) / every,
    )


def _layers(computing: list[dict[str, Any]], gradients: list[tuple[float, int]]) -> tuple[Layer, ...]:
    """A layer for each sum, with what was computed since the one before; and what comes before and after."""
    done_us = [_computed_until(computing, at) for at, _ in gradients]
    whole_us = _computed_until(computing, float("inf"))
    spent_us = [0.0, *(after - before for before, after in pairwise(done_us))]
    layers = [
        Layer(f"sum{index}", size, 0.0, spent)
        for index, ((_, size), spent) in enumerate(zip(gradients, spent_us, strict=True))
    ]
    first = Layer("before the first sum", 0, done_us[0], 0.0)
    rest = Layer("after the last sum", 0, 0.0, whole_us - done_us[-1])
    return (rest, *reversed(layers), first)


def _is_timed(event: object) -> bool:
    return (
        isinstance(event, dict)
        and isinstance(event.get("ts"), int | float)
        and isinstance(event.get("dur"), int | float)
    )


def _step_of(events: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """The begin and the end of the first step that is marked on the GPU, or else at all."""
    marked = [each for each in events if str(each.get("name", "")).startswith("ProfilerStep#")]
    on_gpu = [each for each in marked if each.get("cat") == "gpu_user_annotation"]
    steps = sorted(on_gpu or marked, key=lambda each: float(each["ts"]))
    if not steps:
        return float("-inf"), float("inf")
    step = steps[min(1, len(steps) - 1)]  # the first may warm up
    return float(step["ts"]), float(step["ts"]) + float(step["dur"])


def _numbers(kernel: dict[str, Any]) -> int:
    """How many numbers an AllReduce sums; 0 where it is another collective, or does not say."""
    args = kernel.get("args")
    if not isinstance(args, dict) or str(args.get("Collective name", "")).lower() not in (
        "allreduce",
        "allreduce_coalesced",
    ):
        return 0
    numbers = args.get("In msg nelems")
    return numbers if isinstance(numbers, int) and numbers > 0 else 0


def _number_bytes(kernel: dict[str, Any]) -> float:
    """Of one of them; 0 where the trace does not say, or says what nobody knows."""
    return _BYTES.get(str(kernel["args"].get("dtype", "")).lower().removeprefix("c10::"), 0)


def _computed_until(kernels: Sequence[dict[str, Any]], at_us: float) -> float:
    """How long some computing kernel ran until then; the kernels are in the order of their starts."""
    total, until = 0.0, float("-inf")
    for each in kernels:
        begin, end = float(each["ts"]), min(at_us, float(each["ts"]) + float(each["dur"]))
        if end > max(begin, until):
            total += end - max(begin, until)
            until = end
    return total
