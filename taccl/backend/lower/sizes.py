"""The numbers in a program's header: chunks per loop, buffer sizes, the range of call sizes."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.errors import CollectiveError, UnitError
from taccl.model.collective import Collective
from taccl.model.collectives import CALLED_BY_PART, COLLECTIVES


@dataclass(frozen=True, slots=True)
class Sizes:
    """Chunks in the buffers of every rank, and the sizes in bytes of the calls to serve.

    The runtimes cut the *call* into `chunks_per_loop` chunks: what nccl-tests prints as the size, but for
    Gather and Scatter one rank's part.
    """

    chunks_per_loop: int
    input_chunks: tuple[int, ...]
    output_chunks: tuple[int, ...]
    min_bytes: int
    max_bytes: int


def sizes_of(collective: Collective, size_bytes: int, min_bytes: int | None, max_bytes: int | None) -> Sizes:
    """The sizes of a program of this collective, by default for calls of half to twice `size_bytes`.

    Raises
    ------
    CollectiveError : buffers of a collective of one's own larger than its size.
    UnitError : a range of sizes that no call falls into.
    """
    ranks = collective.num_ranks
    per_loop = collective.chunks_per_size
    inputs, outputs = [per_loop] * ranks, [per_loop] * ranks
    if collective.name == "allgather":
        inputs = [per_loop // ranks] * ranks
    elif collective.name == "reducescatter":
        outputs = [per_loop // ranks] * ranks
    elif collective.name in CALLED_BY_PART:
        per_loop //= ranks
        size_bytes //= ranks
        inputs = collective.inputs.buffer_size(ranks).tolist()
        outputs = collective.outputs.buffer_size(ranks).tolist()
    elif collective.name not in COLLECTIVES:
        _check_own_buffers(collective)
    low = max(1, size_bytes // 2) if min_bytes is None else min_bytes
    high = 2 * size_bytes if max_bytes is None else max_bytes
    if not 0 <= low <= high or high < 1:
        raise UnitError(
            f"no call is of {low} to {high} bytes", hint="a smallest size that is not over the largest one"
        )
    return Sizes(per_loop, tuple(inputs), tuple(outputs), low, high)


def _check_own_buffers(collective: Collective) -> None:
    for placement, word in ((collective.inputs, "input"), (collective.outputs, "output")):
        largest = int(placement.buffer_size(collective.num_ranks).max(initial=0))
        if largest > collective.chunks_per_size:
            raise CollectiveError(
                f"the {word} of {collective.name} has {largest} chunks on some rank, "
                f"its size is {collective.chunks_per_size} chunks",
                hint="msccl gives each buffer of a custom collective the size of the call: "
                "state a size that holds the largest buffer",
            )
