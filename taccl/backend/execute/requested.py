"""What a user asks of a run, whatever the file is: each kind of file takes what means something for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from taccl.backend.execute.deadline import Deadline
from taccl.model.collective import Collective

_LIMIT_S = 60.0


class RunKeywords(TypedDict, total=False):
    """The fields of `RunRequested`, as keywords."""

    deadline: Deadline
    in_place: bool | None
    size_bytes: int | None
    dtype: str
    op: str
    collective: Collective | None
    root: int | None
    ranks_as: str
    seed: int
    check: bool
    slots: int | None
    piece_bytes: int | None
    calls: int | None


@dataclass(frozen=True, eq=False)
class RunRequested:
    """A run.

    Parameters
    ----------
    deadline : when it has to be over: reading the file, making the inputs, running and comparing the result.
    in_place : None: as the file claims, each way that it does.
    size_bytes : nccl-tests' size, rounded down to what the file can serve; None: about 1 MB, within the range
        that it serves.
    dtype, op : see `call.DTYPES` and `call.OPS`; plans sum, and know fewer types.
    collective : what it computes, where the file does not say so.
    root : of broadcast, reduce, gather, scatter; None: any that fits.
    ranks_as : `threads`, `processes`: one per rank, whose agents take turns. `turns`: all by turns in this
        thread, in an order that `seed` repeats.
    seed : of the inputs, and of the orders.
    check : whether to compare with NumPy's answer.
    slots : pieces that a connection holds; piece_bytes : what a piece holds at most. None: those of the
        protocol. Plans have neither.
    calls : how many, one after another, each with new inputs; None: the usual number.
    """

    deadline: Deadline = field(default_factory=lambda: Deadline(_LIMIT_S))
    in_place: bool | None = None
    size_bytes: int | None = None
    dtype: str = "float32"
    op: str = "sum"
    collective: Collective | None = None
    root: int | None = None
    ranks_as: str = "turns"
    seed: int = 0
    check: bool = True
    slots: int | None = None
    piece_bytes: int | None = None
    calls: int | None = None
