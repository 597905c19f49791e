"""What a user asks of a run, whatever the file is: each kind of file takes what means something for it."""

from __future__ import annotations

from dataclasses import dataclass

from taccl.backend.execute.deadline import Deadline
from taccl.model.collective import Collective


@dataclass(frozen=True, eq=False)
class RunRequested:
    """A run.

    Parameters
    ----------
    deadline : when it has to be over.
    in_place : None: each way that the file claims.
    size_bytes, dtype, op, collective, root, ranks_as, seed, check : as in `execute`.
    slots, piece_bytes : of connections; None: the usual ones.
    calls : how many, one after another; None: the usual number.
    """

    deadline: Deadline
    in_place: bool | None = None
    size_bytes: int | None = None
    dtype: str = "float32"
    op: str = "sum"
    collective: Collective | None = None
    root: int | None = None
    ranks_as: str = "threads"
    seed: int = 0
    check: bool = True
    slots: int | None = None
    piece_bytes: int | None = None
    calls: int | None = None
