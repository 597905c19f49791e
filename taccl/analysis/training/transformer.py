"""A transformer's step by formula, from its shape and how it is spread over GPUs.

One layer of hidden size h has 12 h**2 + 13 h weights (attention 4 h**2, linear maps to 4 h and back), so
24 h**2 floating-point operations a token forward, and 4 s h more for attention over s tokens; backward twice
that (Narayanan and others, "Efficient large-scale language model training on GPU clusters using Megatron-LM",
SC 2021, section 5.1 and its appendix). Tensor parallelism of t GPUs divides all by t and calls two AllReduces
of b s h numbers in each direction (section 2.3 there); expert parallelism calls two AlltoAlls of b s h k
numbers in each direction. A pipeline of p stages with m microbatches holds layers / p layers, and is idle for
(p - 1) / m of its computing (section 2.2 there). The embedding has v h weights, at the first layer.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from taccl.analysis.training.workload import BucketCall, Layer, Workload
from taccl.errors import TacclError
from taccl.support.arguments import shown

_PREFIX = "transformer:"
_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}


def is_transformer(source: str) -> bool:
    """Whether it names a transformer."""
    return source.startswith(_PREFIX)


@dataclass(frozen=True)
class Transformer:
    """What a transformer is.

    Parameters
    ----------
    layers, hidden, seq, batch : of the model, and samples of one GPU's copy in a step.
    tflops : 10**12 operations a second that a GPU reaches, as measured: no peak.
    dtype : of activations and gradients.
    tensor, pipeline, expert : GPUs of each kind of parallelism; the copy of a model has their product.
    microbatches : of a pipeline. topk : experts a token goes to. vocab : words.
    """

    layers: int
    hidden: int
    seq: int
    batch: int
    tflops: float
    dtype: str = "bf16"
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    microbatches: int = 1
    topk: int = 1
    vocab: int = 0


def transformer_of(text: str) -> Workload:
    """The workload of `transformer:layers=24,hidden=2048,seq=2048,batch=4,tflops=150,tensor=8`.

    Raises
    ------
    TacclError : a word that is unknown, missing, or no positive number; layers that stages do not divide.
    """
    shape = _shape(text)
    if shape.layers % shape.pipeline:
        raise TacclError(f"{shape.layers} layers cannot be dealt to {shape.pipeline} stages equally")
    if shape.tensor > 1 and shape.expert > 1:
        raise TacclError("tensor and expert parallelism in one copy are not known", hint="expert=1")
    of_number, tokens = _BYTES[shape.dtype], shape.batch * shape.seq
    weights = (12 * shape.hidden**2 + 13 * shape.hidden) / shape.tensor
    operations = tokens * (24 * shape.hidden**2 + 4 * shape.seq * shape.hidden) / shape.tensor
    forward_us = operations / (shape.tflops * 1e6)
    activations = tokens * shape.hidden * of_number
    layer = Layer("layer", round(weights * of_number), forward_us, 2 * forward_us, _calls(shape, activations))
    held = [
        Layer(f"layer{index}", layer.gradient_bytes, layer.forward_us, layer.backward_us, layer.calls)
        for index in range(shape.layers // shape.pipeline)
    ]
    if shape.vocab:
        embedding = round(shape.vocab * shape.hidden / shape.tensor * of_number)
        held.insert(0, Layer("embedding", embedding, 0.0, 0.0))
    computed_us = 3 * forward_us * (shape.layers // shape.pipeline)
    bubble_us = computed_us * (shape.pipeline - 1) / shape.microbatches
    group = shape.tensor * shape.pipeline * shape.expert
    notes = [
        "times are by a formula from operations and tflops, without attention's memory or kernels' launches"
    ]
    if shape.pipeline > 1:
        notes.append("what stages send each other is not counted")
    name = text.removeprefix(_PREFIX)
    return Workload(name, shape.batch, tuple(held), group, bubble_us, tuple(notes), of_number)


def _calls(shape: Transformer, activations: int) -> tuple[BucketCall, ...]:
    if shape.tensor > 1:
        every = [
            BucketCall("forward", "allreduce", activations),
            BucketCall("backward", "allreduce", activations),
        ]
        return (*every, *every)
    if shape.expert > 1:
        size = activations * shape.topk
        every = [BucketCall("forward", "alltoall", size), BucketCall("backward", "alltoall", size)]
        return (*every, *every)
    return ()


def _shape(text: str) -> Transformer:
    given: dict[str, float | str] = {}
    types = {field.name: field.type for field in fields(Transformer)}
    for part in text.removeprefix(_PREFIX).split(","):
        name, _, value = part.partition("=")
        name = name.strip()
        if name not in types or name in given:
            raise TacclError(f"{shown(name)} is no word of a transformer, or twice", hint=", ".join(types))
        if name == "dtype":
            if value not in _BYTES:
                raise TacclError(f"dtype {shown(value)} is unknown", hint=", ".join(_BYTES))
            given[name] = value
            continue
        try:
            read = float(value) if name == "tflops" else int(value)
        except ValueError:
            read = 0
        if not 0 < read <= 1e9:
            raise TacclError(f"{name} must be a positive number, not {shown(value)}")
        given[name] = read
    missing = [name for name in ("layers", "hidden", "seq", "batch", "tflops") if name not in given]
    if missing:
        raise TacclError(f"the transformer lacks {missing[0]}", hint=f"{missing[0]}=...")
    return Transformer(**given)  # type: ignore[arg-type]
