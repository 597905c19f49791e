"""Where the buffers of all ranks lie, as cells that every act touches whole.

A cell is a chunk of input, output or scratch, or a piece of one where acts cut chunks. In place, input and
output of a rank share cells. Scratch may hold plain bytes and packets in different cells, and both twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.model.collective import IntArray

#: The columns of `Layout.chunks` and `Layout.base`.
INPUT, OUTPUT, SCRATCH = range(3)


@dataclass(frozen=True, eq=False)
class Layout:
    """The cells of one size of call, in place or out of place.

    Parameters
    ----------
    chunk_bytes : of the call.
    cuts : where the pieces of a chunk begin, in bytes.
    chunks : shape (num_ranks, 3); of input, output and scratch, as the plan says.
    base : shape (num_ranks, 3); the cells at which they begin.
    packets : shape (num_ranks,); the cells at which the packets of scratch begin.
    half : shape (num_ranks,); cells from one half of scratch, or of its packets, to the other; 0: no halves.
    user : shape (num_ranks, 2); the cells of both user's buffers, as first and end.
    num_cells : over all ranks.
    in_place : whether input and output share cells.
    """

    chunk_bytes: int
    cuts: IntArray
    chunks: IntArray
    base: IntArray
    packets: IntArray
    half: IntArray
    user: IntArray
    num_cells: int
    in_place: bool

    @staticmethod
    def of(
        chunks: IntArray,
        shift: IntArray | None,
        *,
        cuts: IntArray | None = None,
        chunk_bytes: int = 1,
        has_packets: bool = False,
        has_halves: bool = False,
    ) -> Layout:
        """Lay out all buffers.

        Parameters
        ----------
        chunks : shape (num_ranks, 3).
        shift : shape (num_ranks,); in place, input chunk k is output chunk k + shift. None: out of place.
        has_packets, has_halves : whether scratch may hold packets too, and whether it is there twice.
        """
        cuts = np.zeros(1, dtype=np.int64) if cuts is None else cuts
        inputs, outputs, scratch = chunks.T
        halves = 2 if has_halves else 1
        starts = np.zeros((len(chunks), 3), dtype=np.int64)
        if shift is None:
            starts[:, OUTPUT] = inputs
            user = inputs + outputs
        else:
            starts[:, INPUT], starts[:, OUTPUT] = np.maximum(shift, 0), np.maximum(-shift, 0)
            user = np.maximum(starts[:, INPUT] + inputs, starts[:, OUTPUT] + outputs)
        starts[:, SCRATCH] = user
        total = user + (2 if has_packets else 1) * halves * scratch
        first = np.cumsum(total) - total
        pieces = len(cuts)
        return Layout(
            chunk_bytes=chunk_bytes,
            cuts=cuts,
            chunks=chunks,
            base=(starts + first[:, None]) * pieces,
            packets=(first + user + halves * scratch) * pieces,
            half=scratch * pieces if has_halves else np.zeros_like(scratch),
            user=np.stack([first, first + user], axis=1) * pieces,
            num_cells=int(total.sum()) * pieces,
            in_place=shift is not None,
        )

    @property
    def mode(self) -> str:
        """In words."""
        return "in place" if self.in_place else "out of place"

    @property
    def has_halves(self) -> bool:
        """Whether calls use the two halves of scratch in turn."""
        return bool(self.half.any())

    def cell(self, byte: int) -> int:
        """Cells before a byte of a buffer at which an act begins or ends."""
        chunk, rest = divmod(byte, self.chunk_bytes)
        return chunk * len(self.cuts) + (int(np.searchsorted(self.cuts, rest)) if rest else 0)

    def position(self) -> IntArray:
        """Per cell the byte at which it begins, counted from some beginning of a buffer."""
        chunk, piece = np.divmod(np.arange(self.num_cells), len(self.cuts))
        return np.asarray(chunk * self.chunk_bytes + self.cuts[piece])

    def owner(self, cell: int) -> int:
        """The rank whose memory a cell is in."""
        return int(np.searchsorted(self.user[:, 0], cell, side="right")) - 1

    def name(self, cell: int) -> str:
        """`o[5] of rank 2`, with the bytes of the chunk where chunks are cut."""
        rank, pieces = self.owner(cell), len(self.cuts)
        scratch = max(1, int(self.chunks[rank, SCRATCH]))
        if cell >= self.packets[rank]:
            said = f"the packets of s[{(cell - int(self.packets[rank])) // pieces % scratch}]"
        elif cell >= self.user[rank, 1]:
            said = f"s[{(cell - int(self.user[rank, 1])) // pieces % scratch}]"
        else:
            chunk = (cell - self.base[rank]) // pieces
            names = [
                f"{letter}[{int(chunk[column])}]"
                for column, letter in ((OUTPUT, "o"), (INPUT, "i"))
                if 0 <= chunk[column] < self.chunks[rank, column]
            ]
            said = names[0] if names else "memory between its buffers"
            said += f" (in place also {names[1]})" if len(names) > 1 else ""
        if pieces > 1:
            ends = [*self.cuts.tolist(), self.chunk_bytes]
            piece = cell % pieces
            said += f", bytes {ends[piece]} .. {ends[piece + 1] - 1} of {self.chunk_bytes},"
        return f"{said} of rank {rank}"
