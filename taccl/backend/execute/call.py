"""One call: the collective, its type and reduction, and how large its buffers are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taccl.errors import CollectiveError
from taccl.model import units
from taccl.model.collective import Collective, IntArray
from taccl.support.arguments import is_whole, shown

DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64")
OPS = ("sum", "prod", "max", "min")


CUT_BY_RANK = ("allgather", "reducescatter", "alltoall")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
STANDARD = ("allreduce", *CUT_BY_RANK, *ROOTED)


@dataclass(frozen=True, eq=False)
class Call:
    """A call that a program is to serve. Sizes are in elements.

    Parameters
    ----------
    collective : lower case, without `-` and `_`.
    custom : the collective as data, where it is no standard one.
    dtype, op : of `DTYPES` and `OPS`.
    in_place : whether input and output share memory.
    root : rank of a rooted collective; None: not given, or it has none.
    seed : of the inputs, and of the delays and orders.
    size_bytes : what nccl-tests prints as `size`.
    notes : how the size was understood, where it was rounded.
    chunk : elements per chunk of the program.
    piece : most elements of one chunk in one piece (W).
    chunks_per_piece : most chunks in one piece (A).
    slots : pieces that a connection holds.
    input_size, output_size, in_place_shift : shape (num_ranks,); in place, input element k is output
        element k + shift.
    """

    num_ranks: int
    collective: str
    custom: Collective | None
    dtype: str
    op: str
    in_place: bool
    root: int | None
    seed: int
    size_bytes: int
    chunk: int
    piece: int
    chunks_per_piece: int
    slots: int
    input_size: IntArray
    output_size: IntArray
    in_place_shift: IntArray
    notes: tuple[str, ...] = ()

    @property
    def iterations(self) -> int:
        return -(-self.chunk // self.piece)

    @property
    def item_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize

    @property
    def roots(self) -> tuple[int | None, ...]:
        """The roots that would be right; (None,) where there is none."""
        if self.collective not in ROOTED or self.custom is not None:
            return (None,)
        return tuple(range(self.num_ranks)) if self.root is None else (self.root,)

    @property
    def checkable(self) -> bool:
        """Whether it is known what the outputs must hold."""
        return self.custom is not None or self.collective in STANDARD

    @property
    def mode(self) -> str:
        return "in place" if self.in_place else "out of place"

    def combine(self, one: NDArray[np.generic], other: NDArray[np.generic]) -> NDArray[np.generic]:
        """The reduction of two arrays, element by element."""
        result: NDArray[np.generic] = REDUCTIONS[self.op](one, other)
        return result


REDUCTIONS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def usual_bytes(min_bytes: int, max_bytes: int, parts: int = 1) -> int:
    """The size of a call where nobody says one: 1 MB, or as near to it as a file serves.

    Parameters
    ----------
    min_bytes, max_bytes : what the file serves, of one of `parts`: gather and scatter have one for each rank.
        A `max_bytes` of 0 is no limit.
    """
    wanted = min(units.MB, max_bytes * parts) if max_bytes > 0 else units.MB
    return max(wanted, min_bytes * parts)


def check_root(root: int | None, num_ranks: int) -> None:
    """Refuse a root that is no rank. Raises `CollectiveError`."""
    if root is not None and not (is_whole(root) and 0 <= root < num_ranks):
        raise CollectiveError(f"root {shown(root)} is no rank of 0 .. {num_ranks - 1}")
