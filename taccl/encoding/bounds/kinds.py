"""Chunks that start at the same ranks and are wanted at the same ones, and where permutations take them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Kinds:
    """Chunks that start at the same ranks and are wanted at the same ones are of one kind.

    Parameters
    ----------
    starts, wanted : shape (num_kinds, num_ranks).
    are_sums : whether what starts at several ranks is added up, shape (num_kinds,).
    many : how many chunks each kind has, shape (num_kinds,).
    """

    starts: BoolArray
    wanted: BoolArray
    are_sums: BoolArray
    many: IntArray

    @staticmethod
    def of(problem: Problem) -> Kinds:
        """Those of a problem; what is wanted where it starts, and is no sum, is left out."""
        collective, shape = problem.collective, (problem.num_chunks, problem.num_ranks)
        starts, wanted = np.zeros((2, *shape), dtype=np.bool_)
        starts[collective.inputs.chunk, collective.inputs.rank] = True
        wanted[collective.outputs.chunk, collective.outputs.rank] = True
        are_sums = collective.reduces & (starts.sum(axis=1) > 1)
        wanted &= ~starts | are_sums[:, None]
        rows = np.concatenate([starts, wanted, are_sums[:, None]], axis=1)[wanted.any(axis=1)]
        kinds, many = np.unique(rows, axis=0, return_counts=True)
        return Kinds(kinds[:, : shape[1]], kinds[:, shape[1] : -1], kinds[:, -1], many)

    def __len__(self) -> int:
        return len(self.many)

    @cached_property
    def names(self) -> list[bytes]:
        """A name of each kind, by what starts and is wanted where, and how many chunks there are."""
        return self._named(np.arange(self.starts.shape[1]))

    def images(self, ranks: IntArray) -> IntArray | None:
        """The kind that each goes to, shape (num_kinds,); None: some kind goes to none."""
        number = {name: kind for kind, name in enumerate(self.names)}
        found = [number.get(name, -1) for name in self._named(ranks)]
        return None if -1 in found else np.array(found, dtype=np.int64)

    def _named(self, ranks: IntArray) -> list[bytes]:
        starts, wanted = np.empty_like(self.starts), np.empty_like(self.wanted)
        starts[:, ranks], wanted[:, ranks] = self.starts, self.wanted
        packed = np.packbits(np.concatenate([starts, wanted, self.are_sums[:, None]], axis=1), axis=1)
        return [
            row.tobytes() + many.to_bytes(8, "little")
            for row, many in zip(packed, self.many.tolist(), strict=True)
        ]
