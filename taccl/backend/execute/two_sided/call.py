"""One call of a program: how large its buffers are, and how data is cut on the way.

The runtimes cut a buffer into `chunks_per_loop` chunks, and move through a connection *pieces* of at
most W bytes: several whole chunks where they fit, else a part of one. A chunk larger than W takes
several iterations of all steps.
"""

from __future__ import annotations

import numpy as np

from taccl.backend.execute.call import (
    CUT_BY_RANK,
    DTYPES,
    OPS,
    ROOTED,
    STANDARD,
    Call,
    check_root,
    usual_bytes,
)
from taccl.backend.execute.requested import RunRequested
from taccl.backend.program import Program, Protocol
from taccl.errors import CollectiveError, TacclError
from taccl.model import units
from taccl.model.collective import Collective, IntArray
from taccl.model.collectives import plain_name, rounding_notes
from taccl.support.arguments import is_whole, shown, whole_number

#: Pieces that a connection holds before its sender waits.
SLOTS = {Protocol.SIMPLE: 2, Protocol.LL: 8, Protocol.LL128: 8}
#: W of microsoft/msccl and msccl-executor-nccl, bytes.
PIECE_BYTES = {Protocol.SIMPLE: 2 * units.MB, Protocol.LL: 32 * units.KB, Protocol.LL128: 576_000}
_MAX_CHUNKS_PER_PIECE = 71
#: Offsets have 15 bits, so no step reaches a chunk from this one on.
_MAX_CHUNKS = 2**15 - 1 + _MAX_CHUNKS_PER_PIECE
#: The most chunks of all ranks that are looked at.
_MAX_CELLS = 16_000_000
#: For these, with Simple, the hosts fill only a quarter of a piece with whole chunks.
_QUARTER_FILLED = ("broadcast", "reduce")


def make_call(program: Program, requested: RunRequested, *, in_place: bool) -> Call:
    """The call that is requested, in place or not.

    Without a size it is the multiple of a chunk that is nearest to 1 MB (or to the range of sizes that the
    program serves, if 1 MB is outside). Without slots and pieces they are those of the program's protocol;
    Simple broadcast and reduce then put only a quarter of a piece's bytes of whole chunks into one, as the
    runtimes do.

    Raises
    ------
    CollectiveError : the size or the collective does not fit the program.
    TacclError : another parameter that makes no sense.
    """
    collective, root, dtype = requested.collective, requested.root, requested.dtype
    size, slots, piece_bytes = requested.size_bytes, requested.slots, requested.piece_bytes
    _check_choices(program, dtype, requested.op, slots, piece_bytes, root)
    whole_number(requested.seed, "a seed", TacclError, least=0, most=2**63 - 1, hint="--seed 7")
    name = plain_name(program.collective if collective is None else collective.name)
    if collective is not None and name in STANDARD:
        root = collective.root if root is None else root
        collective = None
    chunks = program.chunks_per_loop
    _check_collective(program, name, collective, root)
    in_size = chunks * (program.num_ranks if name in ("gather", "scatter") else 1)
    item = np.dtype(dtype).itemsize
    chunk = _chunk_elements(program, size, in_size, item)
    sizes = _buffer_sizes(program, name, collective, chunk)
    most = PIECE_BYTES[program.protocol] if piece_bytes is None else piece_bytes
    is_simple = program.protocol is Protocol.SIMPLE
    quartered = piece_bytes is None and is_simple and program.collective in _QUARTER_FILLED
    group = most // 4 if quartered else most
    return Call(
        num_ranks=program.num_ranks,
        collective=name,
        custom=collective,
        dtype=dtype,
        op=requested.op,
        in_place=in_place,
        root=root,
        seed=requested.seed,
        size_bytes=chunk * in_size * item,
        chunk=chunk,
        piece=max(1, most // item),
        chunks_per_piece=min(_MAX_CHUNKS_PER_PIECE, max(1, group // (chunk * item))),
        slots=SLOTS[program.protocol] if slots is None else slots,
        input_size=sizes[0],
        output_size=sizes[1],
        in_place_shift=sizes[2],
        notes=() if size is None else tuple(rounding_notes(size, chunk * item, in_size)),
    )


def _check_choices(
    program: Program, dtype: str, op: str, slots: int | None, piece_bytes: int | None, root: int | None
) -> None:
    if dtype not in DTYPES:
        raise TacclError(f"unknown dtype {dtype!r}", hint="one of " + ", ".join(DTYPES))
    if op not in OPS:
        raise TacclError(f"unknown reduction {op!r}", hint="one of " + ", ".join(OPS))
    if slots is not None and not (is_whole(slots) and slots >= 1):
        raise TacclError(
            f"a connection holds at least one piece, not {shown(slots)}", hint="--slots 1 or more"
        )
    if piece_bytes is not None and piece_bytes < np.dtype(dtype).itemsize:
        raise TacclError(
            f"a piece of {piece_bytes} bytes holds no element of {dtype}", hint="a larger --piece"
        )
    check_root(root, program.num_ranks)


def _check_collective(program: Program, name: str, collective: Collective | None, root: int | None) -> None:
    chunks, ranks = program.chunks_per_loop, program.num_ranks
    if chunks < 1:
        raise CollectiveError(f"nchunksperloop is {chunks}; it must be at least 1")
    if chunks > _MAX_CHUNKS:
        raise CollectiveError(
            f"nchunksperloop is {chunks}, and steps reach no chunk beyond {_MAX_CHUNKS - 1}"
        )
    if chunks * ranks * (ranks if name in ("gather", "scatter") else 1) > _MAX_CELLS:
        raise CollectiveError(f"{ranks} ranks with {chunks} chunks each are more than can be compared")
    largest = max(max(rank.input_chunks, rank.output_chunks, rank.scratch_chunks) for rank in program.ranks)
    if largest > _MAX_CHUNKS:
        raise CollectiveError(f"a buffer of {largest} chunks; steps reach none beyond {_MAX_CHUNKS - 1}")
    if root is not None and name not in ROOTED:
        raise CollectiveError(f"{name} has no root", hint="leave --root out")
    if collective is not None:
        whole = chunks * (ranks if name in ("gather", "scatter") else 1)
        if collective.num_ranks != ranks:
            raise CollectiveError(f"the file has {ranks} ranks, the collective {collective.num_ranks}")
        if whole % collective.chunks_per_size:
            raise CollectiveError(
                f"the file cuts a call into {whole} chunks, which is no multiple of the "
                f"{collective.chunks_per_size} chunks of the collective"
            )
    elif name in CUT_BY_RANK and chunks % ranks:
        raise CollectiveError(
            f"nchunksperloop is {chunks}, which {ranks} ranks cannot share equally in {name}"
        )


def _chunk_elements(program: Program, size_bytes: int | None, chunks: int, item: int) -> int:
    """Elements per chunk when a call of `size_bytes` has `chunks` of them, rounded down."""
    if size_bytes is None:
        parts = chunks // program.chunks_per_loop
        return max(1, round(usual_bytes(program.min_bytes, program.max_bytes, parts) / (chunks * item)))
    elements = size_bytes // (chunks * item)
    if not elements:
        raise CollectiveError(
            f"a size of {size_bytes} bytes has no element of {item} bytes for each of the {chunks} chunks of "
            "this file",
            hint=f"--size {chunks * item} or more",
        )
    return elements


def _buffer_sizes(
    program: Program, name: str, collective: Collective | None, chunk: int
) -> tuple[IntArray, IntArray, IntArray]:
    ranks, chunks = program.num_ranks, program.chunks_per_loop
    rank = np.arange(ranks)
    if collective is not None:
        whole = chunks * (ranks if name in ("gather", "scatter") else 1)
        scale = whole // collective.chunks_per_size * chunk
        return (
            collective.inputs.buffer_size(ranks) * scale,
            collective.outputs.buffer_size(ranks) * scale,
            collective.in_place_shift * scale,
        )
    if name not in STANDARD:
        declared = [(each.input_chunks, each.output_chunks) for each in program.ranks]
        sizes = np.array(declared, dtype=np.int64).clip(min=0) * chunk
        return sizes[:, 0], sizes[:, 1], np.zeros(ranks, dtype=np.int64)
    inputs, outputs, shift = chunks, chunks, 0 * rank
    if name == "allgather":
        inputs, shift = chunks // ranks, rank * (chunks // ranks)
    elif name == "reducescatter":
        outputs, shift = chunks // ranks, -rank * (chunks // ranks)
    elif name == "gather":
        outputs, shift = chunks * ranks, rank * chunks
    elif name == "scatter":
        inputs, shift = chunks * ranks, -rank * chunks
    return np.full(ranks, inputs * chunk), np.full(ranks, outputs * chunk), shift * chunk
