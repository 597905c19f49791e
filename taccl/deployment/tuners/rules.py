"""The noun of a tuner file, and its three dialects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

#: `nccl`: the example plugin of NCCL; `rccl`: the tuner inside RCCL, with the same columns; `ncclx`: the
#: tuner inside NCCLX.
Dialect = Literal["nccl", "ncclx", "rccl"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


def reader_of(dialect: Dialect) -> Literal["nccl", "rccl"]:
    """Whose algorithms its rules name."""
    return "rccl" if dialect == "rccl" else "nccl"


@dataclass(frozen=True, slots=True)
class TunerRule:
    """What a library takes for calls from `least_bytes` on.

    Parameters
    ----------
    collective : `allreduce`, `allgather`, `reducescatter`, `broadcast` or `reduce`.
    least_bytes, most_bytes : of the calls, as nccl-tests counts sizes, both included; None: no largest.
    algorithm, protocol : as NCCL's model calls them, such as `NVLSTree` and `Simple`.
    """

    collective: str
    least_bytes: int
    most_bytes: int | None
    algorithm: str
    protocol: str


@dataclass(frozen=True, slots=True)
class Tuning:
    """All rules for one number of nodes and ranks.

    Parameters
    ----------
    says : whose choice it is, for a comment.
    """

    nodes: int
    ranks: int
    rules: tuple[TunerRule, ...]
    says: str
