"""Defaults of an executor as numbers with their sources, before they are one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from taccl.model.executor import SHAPES, Executor, Origin, ProtocolCosts, ProtocolName, RuntimeName
from taccl.topologies.machines.figures import Figure, Unit

_UNITS: Mapping[str, Unit] = {"us": "us", "gbps": "GB/s"}


@dataclass(frozen=True)
class ProtocolNumbers:
    """Of one protocol, the keys of a machine's section `executor:` that have no default there."""

    launch_us: Figure
    hop_us: Figure
    slice_us: Figure
    block_gbps: Figure
    piece_bytes: int

    def costs(self, name: ProtocolName) -> ProtocolCosts:
        """What the protocol costs, in the shape that it has everywhere."""
        return ProtocolCosts(
            launch_us=self.launch_us.value,
            hop_us=self.hop_us.value,
            slice_us=self.slice_us.value,
            block_gbps=self.block_gbps.value,
            piece_bytes=self.piece_bytes,
            shape=SHAPES[name],
        )

    def named(self) -> Iterator[tuple[str, Figure]]:
        """The numbers by their keys."""
        for key in ("launch_us", "hop_us", "slice_us", "block_gbps"):
            yield key, getattr(self, key)


@dataclass(frozen=True)
class Defaults:
    """What executing costs on some GPUs with one runtime, where the machine does not say it.

    Parameters
    ----------
    gpus : their models, that which gives them their name first.
    protocols, reduce_us, reduce_gbps, copy_us, copy_gbps, thread_blocks : as in a section `executor:`.
    errors : as in `Origin`: what predictions with these numbers were off by, for tables that they were not
        fitted to, or what is assumed.
    errors_source : which.
    """

    gpus: tuple[str, ...]
    runtime: RuntimeName
    protocols: Mapping[ProtocolName, ProtocolNumbers] = field(repr=False)
    reduce_us: Figure
    reduce_gbps: Figure
    thread_blocks: Figure
    errors: tuple[tuple[int, float], ...]
    errors_source: str
    copy_us: Figure | None = None
    copy_gbps: Figure | None = None

    def executor(self, gpu: str) -> Executor:
        """The executor of a machine of such GPUs."""
        return Executor(
            {name: numbers.costs(name) for name, numbers in self.protocols.items()},
            reduce_us=self.reduce_us.value,
            reduce_gbps=self.reduce_gbps.value,
            copy_us=None if self.copy_us is None else self.copy_us.value,
            copy_gbps=None if self.copy_gbps is None else self.copy_gbps.value,
            thread_blocks=int(self.thread_blocks.value),
            origin=Origin(f"{gpu} defaults for {self.runtime}", self.errors),
        )

    def figures(self) -> Iterator[Figure]:
        """Every number, with what it is of and its unit."""
        for name, numbers in self.protocols.items():
            for key, figure in numbers.named():
                yield replace(figure, quantity=f"{name} {key}", unit=_unit(key))
        for key in ("reduce_us", "reduce_gbps", "copy_us", "copy_gbps", "thread_blocks"):
            figure = getattr(self, key)
            if figure is not None:
                yield replace(figure, quantity=key, unit=_unit(key))


def _unit(key: str) -> Unit:
    return _UNITS.get(key.rpartition("_")[2], "")
