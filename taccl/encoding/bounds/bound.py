"""What a bound is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The arguments that prove bounds; docs/engines.md says what each is.
Kind = Literal[
    "latency",
    "cut",
    "volume",
    "flow",
    "whole-flow",
    "throughput",
    "spread",
    "holdings",
    "entry",
]


@dataclass(frozen=True)
class Bound:
    """No schedule of the problem ends before `value_us`.

    Parameters
    ----------
    value_us : 0 where the argument says nothing.
    witness : why, in a few words: the chunk, the ranks, the ports.
    kind : the argument.
    """

    value_us: float
    witness: str
    kind: Kind

    @property
    def holds_for_any_chunks(self) -> bool:
        """Whether it stays true when the same size is cut into another number of equal chunks."""
        return self.kind in ("flow", "throughput")
