"""The inputs of a call, NumPy's own answer to it, and the comparison with what was computed.

Answers are made from whole buffers with NumPy and not from chunks, so that they owe nothing to how a
program, or `taccl.model.collectives`, cuts them. Only a collective given as data is read chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taccl.backend.execute.call import Call
from taccl.backend.execute.deadline import blocks_of
from taccl.errors import CollectiveError
from taccl.model.collective import Collective

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Wanted:
    """Part of an output buffer: from element `first` on it must be `value`, up to `tolerance`.

    `tolerance` None means to the bit.
    """

    first: int
    value: Array
    tolerance: Array | None = None


@dataclass(frozen=True, eq=False)
class ReferenceAnswer:
    """What goes in, and what must come out.

    Inputs of other ranks are made anew when they are requested, so that a process that runs one rank of
    many needs room for its own buffers only.

    `look` is called every now and then while data is made or compared, and may raise.
    """

    call: Call
    look: Callable[[], None]

    def input_of(self, rank: int) -> Array:
        """The input of a rank: random by seed and rank, equivalent on ranks that start with the same data."""
        return _random(self.call, rank, self.look) if self.call.custom is None else self._custom_inputs[rank]

    def _inputs(self) -> Iterator[Array]:
        return (self.input_of(rank) for rank in range(self.call.num_ranks))

    @cached_property
    def _custom_inputs(self) -> list[Array]:
        made = [_random(self.call, rank, self.look) for rank in range(self.call.num_ranks)]
        if self.call.custom is not None:
            _share_sources(self.call.custom, _scale(self.call), made)
        return made

    def wanted(self, rank: int, root: int | None) -> list[Wanted]:
        """What the output of a rank must hold; nothing where it may hold anything."""
        call = self.call
        if call.custom is not None:
            return self._wanted_of_custom(call.custom, rank)
        name, ranks = call.collective, call.num_ranks
        if name == "allreduce" or (name == "reduce" and rank == root):
            return [self._total]
        if name == "reducescatter":
            size = int(call.output_size[rank])
            part, tolerance = slice(rank * size, (rank + 1) * size), self._total.tolerance
            return [Wanted(0, self._total.value[part], None if tolerance is None else tolerance[part])]
        if name == "allgather" or (name == "gather" and rank == root):
            return [Wanted(0, np.concatenate(list(self._inputs())))]
        if name == "alltoall":
            return [
                Wanted(0, np.concatenate([each.reshape(ranks, -1)[rank].copy() for each in self._inputs()]))
            ]
        if root is not None and name == "broadcast":
            return [Wanted(0, self.input_of(root))]
        if root is not None and name == "scatter":
            return [Wanted(0, self.input_of(root).reshape(ranks, -1)[rank])]
        return []

    def _wanted_of_custom(self, collective: Collective, rank: int) -> list[Wanted]:
        scale = _scale(self.call)
        outputs = collective.outputs
        wanted = []
        for row in np.flatnonzero(outputs.rank == rank):
            chunk, first = outputs.chunk[row], int(outputs.offset[row]) * scale
            parts = self._parts.get(int(chunk), [])
            if collective.reduces[chunk]:
                reduced = self._reduced(parts)
                wanted.append(Wanted(first, reduced.value, reduced.tolerance))
            elif parts:
                wanted.append(Wanted(first, parts[0]))
        return wanted

    @cached_property
    def _parts(self) -> dict[int, list[Array]]:
        """Per chunk of a collective given as data, what each rank that starts with it holds."""
        parts: dict[int, list[Array]] = {}
        if self.call.custom is not None:
            scale, placed = _scale(self.call), self.call.custom.inputs
            for chunk, rank, offset in zip(
                placed.chunk.tolist(), placed.rank.tolist(), placed.offset.tolist(), strict=True
            ):
                first = offset * scale
                parts.setdefault(chunk, []).append(self._custom_inputs[rank][first : first + scale])
        return parts

    @cached_property
    def _total(self) -> Wanted:
        return self._reduced(self._inputs())

    def _reduced(self, parts: Iterable[Array]) -> Wanted:
        """The reduction, in a wider type; the tolerance is what the order of the operations may change."""
        op, dtype = self.call.op, np.dtype(self.call.dtype)
        exact = not np.issubdtype(dtype, np.floating) or op in ("max", "min")
        wide = dtype if exact else np.dtype(np.longdouble if dtype.itemsize > 4 else np.float64)
        total: Array | None = None
        size, number = np.empty(0), 0
        for part in parts:
            number += 1
            if total is None:
                total = part.astype(wide)
                size = np.abs(total)
                continue
            for block in blocks_of(len(part), self.look):
                value = part[block].astype(wide)
                total[block] = self.call.combine(total[block], value)
                size[block] = np.abs(total[block]) if op == "prod" else size[block] + np.abs(value)
        if total is None:
            raise CollectiveError("a chunk is the sum of no contributions")
        return Wanted(0, total) if exact else Wanted(0, total, number * np.finfo(dtype).eps * size)

    def differs(self, found: Array, value: Array, tolerance: Array | None) -> NDArray[np.bool_]:
        """Where what was found is not the value, up to the tolerance; None: to the bit."""
        bad = np.empty(len(value), dtype=np.bool_)
        for block in blocks_of(len(value), self.look):
            if tolerance is None:
                bad[block] = found[block] != value[block]
            else:
                off = np.abs(found[block].astype(value.dtype) - value[block])
                bad[block] = ~(off <= tolerance[block])
        return bad

    def input_counts(self, rank: int, root: int | None) -> bool:
        """Whether a caller's input means anything, and so must be left as it was."""
        if self.call.custom is not None:
            return bool((self.call.custom.inputs.rank == rank).any())
        return self.call.collective not in ("broadcast", "scatter") or rank == root


def any_integers(dice: np.random.Generator, dtype: np.dtype[Any], size: int) -> Array:
    """Random numbers, all of the type equally likely."""
    info = np.iinfo(dtype)
    # A draw of bytes throws away what is left of a word, so blocks of them would differ from the whole.
    drawn = np.promote_types(dtype, np.int32)
    numbers: Array = dice.integers(info.min, info.max, size=size, dtype=drawn, endpoint=True).astype(dtype)
    return numbers


def _random(call: Call, rank: int, look: Callable[[], None]) -> Array:
    dice = np.random.default_rng((call.seed, rank, 0))
    made: Array = np.empty(int(call.input_size[rank]), dtype=call.dtype)
    is_float = np.issubdtype(made.dtype, np.floating)
    spread = min(1.0, 8.0 / call.num_ranks)
    for block in blocks_of(len(made), look):
        size = block.stop - block.start
        if not is_float:
            made[block] = any_integers(dice, made.dtype, size)
        elif call.op == "prod":  # so near to 1 that the product of all ranks neither over- nor underflows
            made[block] = np.exp2(dice.uniform(-spread, spread, size))
        else:
            made[block] = dice.uniform(-1.0, 1.0, size)
    return made


def _scale(call: Call) -> int:
    """Elements per chunk of a collective given as data."""
    assert call.custom is not None
    item = np.dtype(call.dtype).itemsize
    return call.size_bytes // item // call.custom.chunks_per_size


def _share_sources(collective: Collective, scale: int, made: list[Array]) -> None:
    """A chunk that starts on several ranks, and is no sum, is the same data on all of them."""
    first_place: dict[int, tuple[int, int]] = {}
    placed = collective.inputs
    for chunk, rank, offset in zip(
        placed.chunk.tolist(), placed.rank.tolist(), placed.offset.tolist(), strict=True
    ):
        if not collective.reduces[chunk]:
            source, at = first_place.setdefault(chunk, (rank, offset))
            made[rank][offset * scale : (offset + 1) * scale] = made[source][at * scale : (at + 1) * scale]
