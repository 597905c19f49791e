"""A training step as layers with bytes and times, and the buckets that its gradients are sent in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from taccl.errors import TacclError
from taccl.support.arguments import number

Phase = Literal["forward", "backward"]
#: What PyTorch's DDP cuts gradients into by default: bytes of a bucket.
DDP_BUCKET = 25 * 2**20
#: Of one number.
NUMBER_BYTES = {"fp32": 4.0, "fp16": 2.0, "bf16": 2.0}
#: A step of a day is a slip of the pen; so are a petabyte of gradients and a billion of samples.
MOST_US, MOST_BYTES, _MOST_BATCH = 86_400e6, 2**50, 1e9


@dataclass(frozen=True)
class BucketCall:
    """A collective that a layer waits for.

    Parameters
    ----------
    phase : in which it is called, after the layer has computed.
    collective : its name.
    num_bytes : what nccl-tests calls its size.
    """

    phase: Phase
    collective: str
    num_bytes: int


@dataclass(frozen=True)
class Layer:
    """One layer of a model, on one GPU.

    Parameters
    ----------
    name : for people.
    gradient_bytes : that are summed over all GPUs of the data-parallel group after its backward pass.
    forward_us, backward_us : of its own computing.
    calls : what it waits for besides, such as the sums of tensor parallelism.
    """

    name: str
    gradient_bytes: int
    forward_us: float
    backward_us: float
    calls: tuple[BucketCall, ...] = ()

    def __post_init__(self) -> None:
        number(self.gradient_bytes, f"bytes of {self.name}", TacclError, least=0, most=MOST_BYTES)
        for what, value in (("forward_us", self.forward_us), ("backward_us", self.backward_us)):
            number(value, f"{what} of {self.name}", TacclError, least=0.0, most=MOST_US, unit="us")


@dataclass(frozen=True)
class Bucket:
    """Gradients of neighbouring layers that are summed as one.

    Parameters
    ----------
    layers : from the last of the model to the first, as their gradients are made.
    num_bytes : of all of them.
    """

    layers: tuple[int, ...]
    num_bytes: int


@dataclass(frozen=True)
class Workload:
    """One step of training on each GPU.

    Parameters
    ----------
    name : of the model.
    batch : samples of one GPU in a step.
    layers : in the order of the forward pass.
    group : GPUs that share one copy of the model (tensor, expert or pipeline parallel); consecutive ranks
        form such a group, and those at one place of all groups sum gradients.
    idle_us : what a GPU is idle in a step whatever the network does, such as the bubble of a pipeline.
    notes : what was assumed, a sentence each.
    number_bytes : of one number of the gradients.
    """

    name: str
    batch: float
    layers: tuple[Layer, ...]
    group: int = 1
    idle_us: float = 0.0
    notes: tuple[str, ...] = ()
    number_bytes: float = NUMBER_BYTES["fp32"]

    def __post_init__(self) -> None:
        if not self.layers:
            raise TacclError(f"the workload {self.name} has no layer")
        number(self.batch, "the batch", TacclError, least=1e-6, most=_MOST_BATCH)
        number(self.idle_us, "idle_us", TacclError, least=0.0, most=MOST_US, unit="us")

    @property
    def forward_us(self) -> float:
        """Of all layers."""
        return sum(layer.forward_us for layer in self.layers)

    @property
    def compute_us(self) -> float:
        """Of one step: forward, backward, and what it is idle."""
        return self.forward_us + sum(layer.backward_us for layer in self.layers) + self.idle_us

    @property
    def gradient_bytes(self) -> int:
        """Of all layers."""
        return sum(layer.gradient_bytes for layer in self.layers)

    @property
    def sizes_called(self) -> dict[str, set[int]]:
        """The sizes, in bytes, of each collective that layers wait for."""
        sizes: dict[str, set[int]] = {}
        for layer in self.layers:
            for call in layer.calls:
                sizes.setdefault(call.collective, set()).add(call.num_bytes)
        return sizes

    def with_batch(self, batch: float) -> Workload:
        """The same with another batch: times and calls, but no gradients, are in proportion.

        Raises
        ------
        TacclError : a batch that none can be.
        """
        number(batch, "the batch", TacclError, least=1e-6, most=_MOST_BATCH)
        times = batch / self.batch
        layers = tuple(
            replace(
                layer,
                forward_us=layer.forward_us * times,
                backward_us=layer.backward_us * times,
                calls=tuple(replace(call, num_bytes=round(call.num_bytes * times)) for call in layer.calls),
            )
            for layer in self.layers
        )
        return replace(self, batch=batch, layers=layers, idle_us=self.idle_us * times)

    def with_gradients(self, number_bytes: float) -> Workload:
        """The same with numbers of another size in its gradients: 2 bytes in place of 4."""
        layers = tuple(
            replace(layer, gradient_bytes=round(layer.gradient_bytes * number_bytes / self.number_bytes))
            for layer in self.layers
        )
        return replace(self, layers=layers, number_bytes=number_bytes)

    def buckets(self, most_bytes: int, first_bytes: int | None = None) -> tuple[Bucket, ...]:
        """As PyTorch's DDP makes them: layers from the last on, closed by the one that reaches the size.

        Parameters
        ----------
        most_bytes : at which a bucket is closed.
        first_bytes : the same for the first; None: no other.
        """
        return tuple(self._buckets(most_bytes, most_bytes if first_bytes is None else first_bytes))

    def _buckets(self, most_bytes: int, limit: int) -> Iterator[Bucket]:
        layers, size = list[int](), 0
        for index in reversed(range(len(self.layers))):
            if not self.layers[index].gradient_bytes:
                continue
            layers.append(index)
            size += self.layers[index].gradient_bytes
            if size >= limit:
                yield Bucket(tuple(layers), size)
                layers, size, limit = [], 0, most_bytes
        if layers:
            yield Bucket(tuple(layers), size)
