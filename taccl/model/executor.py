"""What executing costs on a machine: launches, thread blocks and pieces, by protocol.

A link's alpha and beta say what wires cost. A runtime adds to that: a call takes a while before anything
moves, a thread block moves bytes at a speed of its own, and what is sent is cut into pieces and slices that
each take their time. An `Executor` holds these numbers; docs/cost-model.md says what is computed with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from taccl.errors import TopologyError
from taccl.model.units import MAX_ALPHA_US, MAX_SIZE_BYTES, format_size
from taccl.support.arguments import number, shown, whole_number, word

ProtocolName = Literal["Simple", "LL", "LL128"]
PROTOCOL_NAMES: tuple[ProtocolName, ...] = get_args(ProtocolName)

#: Whose costs they are: MSCCL-XML's interpreters, MSCCL++'s executor of plans, NCCL's and RCCL's own kernels.
RuntimeName = Literal["msccl", "mscclpp", "nccl"]
RUNTIME_NAMES: tuple[RuntimeName, ...] = get_args(RuntimeName)

#: A thread block can be no slower and no faster than this, GB/s.
MIN_GBPS, MAX_GBPS = 1e-6, 1e9
MAX_SLICES, MAX_SLOTS, MAX_THREAD_BLOCKS = 64, 2**20, 2**20
MAX_WIRE = 1e3
MAX_SHARPNESS = 1e3


#: Median error of predictions of programs that were not fitted (docs/results/fidelity.md): predicted times
#: that differ by less are ties.
MODEL_ERROR = 0.033
#: Nine of ten of these predictions are no further off.
FITTED_ERROR = 0.08


@dataclass(frozen=True)
class Shape:
    """How a protocol cuts and stores what it moves: the same in every runtime, but for the size of a piece.

    Parameters
    ----------
    slices : slices of a piece; each is sent, stored and received by itself, also an empty one.
    least_slice_bytes : a slice has at least this many bytes, as long as there are any.
    slots : slices that a connection holds before its sender waits.
    cut_through : whether a receive begins while the send is under way (there are flags in the data).
    wire : bytes on the wire for each byte of data.
    """

    slices: int
    least_slice_bytes: int
    slots: int
    cut_through: bool
    wire: float


#: What NCCL, RCCL and the MSCCL runtimes do. Simple: two slices of 32 KiB or more; LL sends a flag of 4 bytes
#: with every 4, LL128 one of 8 with every 120.
SHAPES: Mapping[ProtocolName, Shape] = {
    "Simple": Shape(slices=2, least_slice_bytes=2**15, slots=4, cut_through=False, wire=1.0),
    "LL": Shape(slices=1, least_slice_bytes=0, slots=8, cut_through=True, wire=2.0),
    "LL128": Shape(slices=1, least_slice_bytes=0, slots=8, cut_through=True, wire=128 / 120),
}


@dataclass(frozen=True)
class ProtocolCosts:
    """What one protocol costs on a machine, checked when it is made.

    Parameters
    ----------
    launch_us : what a call takes before anything moves.
    hop_us : from the end of a send until its receiver sees it, beyond the alpha of the link.
    slice_us : what each slice takes at either end, next to its bytes.
    block_gbps : what one thread block moves, 10**9 bytes of data per second; it sends or receives, never both
        at once, and a receive costs it as much as a send.
    piece_bytes : the most of a chunk that goes through the program in one round.
    shape : how pieces are cut and stored.
    empty_slice_us : what a slice without any bytes takes at either end; None: `slice_us`.
    least_us : the bytes of a slice take a thread block at least so long, however few they are.
    sleep_after_us, wake_us : a call that takes longer than the first takes so much more, since whoever waits
        for it polls only so long, then sleeps and has to be woken. None and 0: nobody sleeps.

    Raises
    ------
    TopologyError : a number that is out of range.
    """

    launch_us: float
    hop_us: float
    slice_us: float
    block_gbps: float
    piece_bytes: int
    shape: Shape
    empty_slice_us: float | None = None
    least_us: float = 0.0
    sleep_after_us: float | None = None
    wake_us: float = 0.0

    def __post_init__(self) -> None:
        for name in ("launch_us", "hop_us", "slice_us", "least_us", "wake_us"):
            number(getattr(self, name), name, TopologyError, most=MAX_ALPHA_US, unit="us")
        if self.empty_slice_us is not None:
            number(self.empty_slice_us, "empty_slice_us", TopologyError, most=MAX_ALPHA_US, unit="us")
        if self.sleep_after_us is not None:
            number(self.sleep_after_us, "sleep_after_us", TopologyError, most=MAX_ALPHA_US, unit="us")
        elif self.wake_us:
            raise TopologyError("wake_us says nothing without sleep_after_us")
        number(self.block_gbps, "block_gbps", TopologyError, least=MIN_GBPS, most=MAX_GBPS, unit="GB/s")
        whole_number(self.piece_bytes, "piece_bytes", TopologyError, least=1, most=MAX_SIZE_BYTES)
        shape = self.shape
        if not isinstance(shape, Shape):
            raise TopologyError(f"the shape of a protocol must be a Shape, not {shown(shape)}")
        whole_number(shape.slices, "slices", TopologyError, least=1, most=MAX_SLICES)
        whole_number(
            shape.least_slice_bytes, "least_slice_bytes", TopologyError, least=0, most=MAX_SIZE_BYTES
        )
        whole_number(shape.slots, "slots", TopologyError, least=shape.slices, most=MAX_SLOTS)
        number(shape.wire, "wire", TopologyError, least=1.0, most=MAX_WIRE)

    @property
    def empty_us(self) -> float:
        """What a slice without any bytes takes at either end."""
        return self.slice_us if self.empty_slice_us is None else self.empty_slice_us

    def call_us(self, run_us: float) -> float:
        """What a call takes whose thread blocks are at work for so long."""
        time_us = self.launch_us + run_us
        if self.sleep_after_us is not None and time_us > self.sleep_after_us:
            time_us += self.wake_us
        return time_us

    @property
    def block_us_per_byte(self) -> float:
        """What a byte of data costs a thread block, one way."""
        return 1e-3 / self.block_gbps

    def to_dict(self) -> dict[str, object]:
        """All of it as plain values, in units by their keys; what is not said has its default."""
        return {
            "launch_us": self.launch_us,
            "hop_us": self.hop_us,
            "slice_us": self.slice_us,
            "empty_slice_us": self.empty_us,
            "least_us": self.least_us,
            "block_gbps": self.block_gbps,
            "piece_bytes": self.piece_bytes,
            "slices": self.shape.slices,
            "least_slice_bytes": self.shape.least_slice_bytes,
            "slots": self.shape.slots,
            "cut_through": self.shape.cut_through,
            "wire_bytes": self.shape.wire,
        }


@dataclass(frozen=True)
class Origin:
    """Where the numbers of an executor are from, where they were not measured on the machine itself.

    Parameters
    ----------
    title : what they are called in reports: `H200 defaults for mscclpp`.
    errors : by sizes of calls, bytes, ascending: how far predicted times may be off from there on, a
        fraction.
    """

    title: str
    errors: tuple[tuple[int, float], ...]

    def error(self, size_bytes: int) -> float:
        """By how much the larger of a predicted and a measured time of calls of this size may be larger."""
        known = (each for least, each in reversed(self.errors) if size_bytes >= least)
        return next(known, self.errors[0][1])

    def at(self, size_bytes: int) -> str:
        """The title, with how far times of calls of this size may be off."""
        return self._at((size_bytes,))

    def note(self, sizes_bytes: Iterable[int]) -> str:
        """What the user should know of times of calls of these sizes."""
        return f"what executing costs was not measured here: {self._at(sizes_bytes)}"

    def _at(self, sizes_bytes: Iterable[int]) -> str:
        sizes_of: dict[float, dict[str, None]] = {}
        for size_bytes in sizes_bytes:
            sizes_of.setdefault(self.error(size_bytes), {})[format_size(size_bytes)] = None
        off = (f"+-{100 * error:.0f}% at {', '.join(sizes)}" for error, sizes in sizes_of.items())
        return f"{self.title}, {'; '.join(off)}"


@dataclass(frozen=True)
class Executor:
    """What executing costs on a machine, checked when it is made.

    Parameters
    ----------
    protocols : costs by protocol; a protocol that is not there cannot be predicted.
    reduce_us, reduce_gbps : a local sum (`re`) of m sources of n bytes takes reduce_us + m n / reduce_gbps.
    copy_us, copy_gbps : a local copy of n bytes takes copy_us + n / copy_gbps; None: as a sum of one source.
    thread_blocks : how many a GPU runs at once, where that is known.
    room_us : a sender remembers which slots were free when it last looked; when it knows of none, it takes so
        long to look again.
    link_sharpness : a thread block that moves a byte in g, with a share of the link that does in s, takes
        (g**p + s**p) ** (1/p) with this p: the larger of both where p is large. None: the larger.
    origin : of defaults for a GPU; None: the numbers are the machine's own.

    Raises
    ------
    TopologyError : no protocol, an unknown one, or a number that is out of range.
    """

    protocols: Mapping[ProtocolName, ProtocolCosts]
    reduce_us: float
    reduce_gbps: float
    copy_us: float | None = None
    copy_gbps: float | None = None
    thread_blocks: int | None = None
    room_us: float = 0.0
    link_sharpness: float | None = None
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.protocols, Mapping) or not self.protocols:
            raise TopologyError(
                f"an executor has costs for one protocol or more, not {shown(self.protocols)}",
                hint=f"for {', '.join(PROTOCOL_NAMES)}, or some of them",
            )
        for name, costs in self.protocols.items():
            word(name, "protocol", PROTOCOL_NAMES, TopologyError)
            if not isinstance(costs, ProtocolCosts):
                raise TopologyError(f"the costs of {name} must be ProtocolCosts, not {shown(costs)}")
        number(self.reduce_us, "reduce_us", TopologyError, most=MAX_ALPHA_US, unit="us")
        number(self.reduce_gbps, "reduce_gbps", TopologyError, least=MIN_GBPS, most=MAX_GBPS, unit="GB/s")
        number(self.room_us, "room_us", TopologyError, most=MAX_ALPHA_US, unit="us")
        if self.link_sharpness is not None:
            number(self.link_sharpness, "link_sharpness", TopologyError, least=1.0, most=MAX_SHARPNESS)
        if self.copy_us is not None:
            number(self.copy_us, "copy_us", TopologyError, most=MAX_ALPHA_US, unit="us")
        if self.copy_gbps is not None:
            number(self.copy_gbps, "copy_gbps", TopologyError, least=MIN_GBPS, most=MAX_GBPS, unit="GB/s")
        if self.thread_blocks is not None:
            whole_number(self.thread_blocks, "thread_blocks", TopologyError, least=1, most=MAX_THREAD_BLOCKS)

    def error(self, size_bytes: int) -> float:
        """By how much the larger of a predicted and a measured time of calls of this size may be larger."""
        return FITTED_ERROR if self.origin is None else self.origin.error(size_bytes)

    def costs_of(self, protocol: str) -> ProtocolCosts:
        """What a protocol costs.

        Raises
        ------
        TopologyError : the machine says nothing about it.
        """
        for name, costs in self.protocols.items():
            if name == protocol:
                return costs
        raise TopologyError(
            f"the machine's executor says nothing about the protocol {protocol}",
            hint=f"it knows {', '.join(self.protocols)}; taccl topology fit --runs measures another",
        )

    def to_dict(self) -> dict[str, object]:
        """All of it as plain values, in units by their keys; a list of protocols."""
        return {
            "reduce_us": self.reduce_us,
            "reduce_gbps": self.reduce_gbps,
            "copy_us": self.copy_us,
            "copy_gbps": self.copy_gbps,
            "thread_blocks": self.thread_blocks,
            "protocols": [{"protocol": name} | costs.to_dict() for name, costs in self.protocols.items()],
        }
