"""What each runtime takes, as data.

Sources: microsoft/msccl at b23e9cd (2023-09-20), Azure/msccl-executor-nccl at c6f6b36 (2024-12-13),
ROCm/rccl at 0cbce2a (2024-10-24); figures read from their parsers, kernels and size computations.
These figures are kept apart from those that the lowering uses on purpose: each checks the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taccl.backend.machine.readers import chosen_readers
from taccl.backend.program import Program, Protocol

KIB = 2**10


@dataclass(frozen=True, slots=True)
class Runtime:
    """One reader of MSCCL-XML.

    Parameters
    ----------
    name, title : as `targets` spell it, and as its users do.
    thread_blocks : per rank. steps : per thread block, nops included.
    channels : channel numbers are below this.
    waitable_blocks : only thread blocks with an id below this can be waited for.
    collectives : spellings of `coll`.
    algo_attributes : of `algo`, those that it refuses to be without.
    looks_at : the attributes of `algo` that say which calls a file is for: `inplace` alone (which says the
        place of every call), or also `outofplace` (and a file may be for both).
    max_bytes_inclusive : whether a call of exactly `maxBytes` is served.
    zero_max_bytes : what maxBytes="0" means, `unlimited` or `never`.
    piece_bytes : per protocol, the most that one slot of a connection holds.
    fused_steps : whether rcs, rrs, rrc and rrcs run.
    limits_merged_sources : whether a merged reduction has room for `MAX_FUSED_REDUCTIONS` sources only.
    """

    name: str
    title: str
    thread_blocks: int
    steps: int
    channels: int
    waitable_blocks: int
    collectives: frozenset[str]
    algo_attributes: frozenset[str]
    looks_at: tuple[str, ...]
    max_bytes_inclusive: bool
    zero_max_bytes: str
    piece_bytes: dict[Protocol, int]
    fused_steps: bool
    limits_merged_sources: bool


_EVERYWHERE = frozenset({"proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace"})
_LATER_COLLECTIVES = frozenset(
    {
        "allreduce",
        "allgather",
        "reduce",
        "broadcast",
        "alltoall",
        "reducescatter",
        "send",
        "recv",
        "gather",
        "scatter",
        "alltoallv",
    }
)
_LATER_ATTRIBUTES = _EVERYWHERE | {"outofplace", "minBytes", "maxBytes"}
_NVIDIA_PIECES = {Protocol.SIMPLE: 2048 * KIB, Protocol.LL: 32 * KIB, Protocol.LL128: 576_000}

MSCCL = Runtime(
    name="msccl",
    title="microsoft/msccl",
    thread_blocks=216,
    steps=256,
    channels=32,
    waitable_blocks=128,
    collectives=frozenset(
        {"allreduce", "allgather", "reduce", "broadcast", "alltoall", "reduce_scatter", "custom"}
    ),
    algo_attributes=_EVERYWHERE | {"name"},
    looks_at=("inplace",),
    max_bytes_inclusive=False,
    zero_max_bytes="never",
    piece_bytes=_NVIDIA_PIECES,
    fused_steps=True,
    limits_merged_sources=True,
)
EXECUTOR = Runtime(
    name="executor",
    title="msccl-executor-nccl",
    thread_blocks=1024,
    steps=64,
    channels=32,
    waitable_blocks=128,
    collectives=_LATER_COLLECTIVES,
    algo_attributes=_LATER_ATTRIBUTES,
    looks_at=("inplace", "outofplace"),
    max_bytes_inclusive=True,
    zero_max_bytes="unlimited",
    piece_bytes=_NVIDIA_PIECES,
    fused_steps=True,
    limits_merged_sources=True,
)
RCCL = Runtime(
    name="rccl",
    title="RCCL",
    thread_blocks=64,
    steps=64,
    channels=128,
    waitable_blocks=64,
    collectives=_LATER_COLLECTIVES,
    algo_attributes=_LATER_ATTRIBUTES,
    looks_at=("inplace", "outofplace"),
    max_bytes_inclusive=True,
    zero_max_bytes="unlimited",
    piece_bytes={Protocol.SIMPLE: 2048 * KIB, Protocol.LL: 16 * KIB, Protocol.LL128: 50_176},
    fused_steps=False,
    limits_merged_sources=False,
)

RUNTIMES = (MSCCL, EXECUTOR, RCCL)

#: The same in all three.
MAX_COUNT = 71
MAX_OFFSET = 2**15 - 1
MAX_BLOCKS_PER_CHANNEL = 32
MAX_NODES = 4095
MAX_CHILDREN = 1024
MAX_ATTRIBUTES = 16
MAX_ATTRIBUTE_LENGTH = 255
MAX_FUSED_REDUCTIONS = 16
GPU_ATTRIBUTES = ("id", "i_chunks", "o_chunks", "s_chunks")
BLOCK_ATTRIBUTES = ("id", "send", "recv", "chan")
STEP_ATTRIBUTES = (
    "s",
    "type",
    "srcbuf",
    "srcoff",
    "dstbuf",
    "dstoff",
    "cnt",
    "depid",
    "deps",
    "hasdep",
)
#: Multiprocessors of an A100: all thread blocks of a rank must be resident at once.
RESIDENT_BLOCKS = 108

#: Pieces that a connection holds before the sender waits.
SLOTS = {Protocol.SIMPLE: 2, Protocol.LL: 8, Protocol.LL128: 8}


#: Collectives for which the hosts of all runtimes count one of the four steps of a Simple piece.
_ONE_STEP_COLLECTIVES = ("broadcast", "reduce")


def group_bytes(program: Program, runtime: Runtime, protocol: Protocol | None = None) -> int:
    """The most bytes of whole chunks that go into one piece.

    A quarter of a piece for Simple broadcast and reduce, where the hosts count so when they group chunks. The
    piece still takes as much of its connection. `protocol` : another than the program's.
    """
    chosen = program.protocol if protocol is None else protocol
    quarter = chosen is Protocol.SIMPLE and program.collective in _ONE_STEP_COLLECTIVES
    return runtime.piece_bytes[chosen] // (4 if quarter else 1)


def find_runtimes(targets: str | Iterable[str]) -> tuple[Runtime, ...]:
    """The runtimes named: `all`, one name, or several.

    Raises
    ------
    TacclError : a name that is no runtime.
    """
    names = chosen_readers(targets, [runtime.name for runtime in RUNTIMES])
    return tuple(runtime for runtime in RUNTIMES if runtime.name in names)
