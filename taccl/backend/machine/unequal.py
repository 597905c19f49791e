"""Collectives whose chunks are of unequal sizes, as files are checked for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, overload

import numpy as np

from taccl.backend.machine.expected import MAX_CELLS
from taccl.errors import CollectiveError
from taccl.model.collective import Collective, IntArray, Placement
from taccl.model.network import FloatArray

#: Files have unequal chunks whose exact bytes are this close to a whole number, relative to them.
ROUNDED_BY = 1e-6
#: Of computing with numbers of 64 bits, relative to them.
_EPSILON = 1e-12


@dataclass(frozen=True, eq=False)
class UnequalCollective:
    """A collective, and how many elements each of its chunks has; what divides all of these is 1.

    Parameters
    ----------
    ratios : sizes of the chunks, where these are relative: files have them rounded to whole bytes, and
        `elements` may be close to them only. None: `elements` are exact.
    """

    collective: Collective
    elements: IntArray
    ratios: FloatArray | None = None

    @property
    def num_ranks(self) -> int:
        """Ranks of the collective."""
        return self.collective.num_ranks

    @property
    def is_exact(self) -> bool:
        """Whether the elements have the sizes that are requested, and no close ones."""
        if self.ratios is None:
            return True
        scale = self.elements[0] / self.ratios[0]
        return bool((np.abs(self.elements - self.ratios * scale) <= _EPSILON * self.elements).all())

    def are_rounded(self, piece_bytes: FloatArray) -> bool:
        """Whether there is a size of call at which chunks cut into equal pieces have these, rounded to bytes.

        Parameters
        ----------
        piece_bytes : shape (num_chunks, pieces); whole numbers.
        """
        if self.ratios is None:
            return False
        off = np.maximum(np.minimum(0.5, ROUNDED_BY * piece_bytes), _EPSILON * piece_bytes)
        ratios = self.ratios[:, np.newaxis]
        return bool(((piece_bytes - off) / ratios).max() <= ((piece_bytes + off) / ratios).min())


#: What a file is to be checked for.
Requested: TypeAlias = Collective | UnequalCollective


@overload
def in_equal_chunks(requested: Requested) -> Collective: ...
@overload
def in_equal_chunks(requested: Requested | None) -> Collective | None: ...
def in_equal_chunks(requested: Requested | None) -> Collective | None:
    """The collective in chunks of one size, for files that know no others.

    Raises
    ------
    CollectiveError : more of them than any file can be checked for.
    """
    if not isinstance(requested, UnequalCollective):
        return requested
    many = int(requested.elements.sum())
    if many > MAX_CELLS:
        raise CollectiveError(
            f"the sizes of {requested.collective.name} are {many} times what divides them all, and this file "
            f"can be checked for {MAX_CELLS} at most",
            hint="round the sizes up to multiples of 4KB, in the file too",
        )
    return in_elements(requested.collective, requested.elements)


def in_elements(collective: Collective, elements: IntArray) -> Collective:
    """The collective with each chunk cut into its elements, which lie where it lay; all in a call's size."""
    ranks = collective.num_ranks
    inputs, outputs = (_cut(rows, ranks, elements) for rows in (collective.inputs, collective.outputs))
    return replace(
        collective,
        chunks_per_rank=1,
        chunks_per_size=max(int(rows.buffer_size(ranks).max()) for rows in (inputs, outputs)),
        inputs=inputs,
        outputs=outputs,
        reduces=np.repeat(collective.reduces, elements),
        owner=np.repeat(collective.owner, elements),
    )


def _cut(rows: Placement, ranks: int, elements: IntArray) -> Placement:
    """Rows of elements; those of a chunk are neighbours."""
    first = starts_side_by_side(elements)
    at = np.concatenate([starts_side_by_side(placed_elements(rows, rank, elements)) for rank in range(ranks)])
    bases = starts_side_by_side(rows.buffer_size(ranks) + 1)[:-1]
    offset = at[bases[rows.rank] + rows.offset]
    many = elements[rows.chunk]
    within = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    return Placement(
        np.repeat(first[rows.chunk], many) + within,
        np.repeat(rows.rank, many),
        np.repeat(offset, many) + within,
    )


def placed_elements(rows: Placement, rank: int, elements: IntArray) -> IntArray:
    """Elements of the cells of a buffer; room for no chunk has one."""
    held = np.array(rows.held(rank), dtype=np.int64)
    return np.where(held >= 0, elements[held], 1) if len(held) else held


def starts_side_by_side(sizes: Sequence[int] | IntArray) -> IntArray:
    """Where each of these begins that lie side by side, and the end of the last."""
    return np.append(0, np.cumsum(np.asarray(sizes, dtype=np.int64)))
