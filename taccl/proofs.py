"""What no schedule can beat, without running any engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from taccl import units
from taccl.api import StatedProblem, make_problem
from taccl.encoding.bounds import Proof, all_bounds
from taccl.notebook import frame_of_rows, html_table
from taccl.problem import Problem
from taccl.request import AnyCollective, Request, RequestKeywords, request_of, spelled_out
from taccl.schemas import finite, stamped

if TYPE_CHECKING:
    from pandas import DataFrame
    from typing_extensions import Unpack

_COLUMNS = ("kind", "lower_bound_us", "witness", "algbw_gbps", "busbw_gbps", "holds_for_any_chunks")


@dataclass(frozen=True, eq=False)
class Bounds(Sequence[Proof]):
    """The best lower bound of each kind, largest first, and the problem that they are for."""

    stated: StatedProblem
    proven: tuple[Proof, ...]

    @overload
    def __getitem__(self, index: int) -> Proof: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Proof, ...]: ...
    def __getitem__(self, index: int | slice) -> Proof | tuple[Proof, ...]:
        return self.proven[index]

    def __len__(self) -> int:
        return len(self.proven)

    @property
    def problem(self) -> Problem:
        """What the bounds are for."""
        return self.stated.problem

    def algbw_gbps(self, bound: Proof) -> float:
        """The algbw that no schedule exceeds by this bound, 10**9 bytes per second."""
        return units.bandwidth_gbps(self.problem.size_bytes, bound.value_us)

    def busbw_gbps(self, bound: Proof) -> float:
        """That times nccl-tests' factor for the collective."""
        return self.algbw_gbps(bound) * self.problem.collective.busbw_factor

    def to_dict(self) -> dict[str, object]:
        """What `taccl bound --json` prints: plain values, in units by their keys."""
        problem, largest = self.problem, self.proven[0]
        return stamped(
            "taccl.bound/1",
            {
                "collective": problem.collective.name,
                "root": problem.collective.root,
                "topology": self.stated.topology.name,
                "sketch": None if self.stated.sketch is None else self.stated.sketch.name,
                "ranks": problem.num_ranks,
                "nodes": problem.topology.num_nodes,
                "occupancy": problem.topology.occupancy,
                "size_bytes": problem.size_bytes,
                "chunk_bytes": round(problem.chunk_mb * units.MB),
                "chunks_per_rank": problem.collective.chunks_per_rank,
                "lower_bound_us": largest.value_us,
                "bound_source": largest.witness,
                "remedy": largest.remedy,
                "bounds": [self._figures(each) for each in self.proven if each.value_us > 0],
                "notes": list(self.stated.notes),
            },
        )

    def to_pandas(self) -> DataFrame:
        """A pandas.DataFrame of one row per bound that says something.

        Raises
        ------
        TacclError : pandas is not installed.
        """
        return frame_of_rows([self._figures(each) for each in self.proven if each.value_us > 0], _COLUMNS)

    def _repr_html_(self) -> str:
        problem = self.problem
        rows = [
            (
                *(each.kind, f"{each.value_us:.2f}", f"{self.algbw_gbps(each):.2f}"),
                *(f"{self.busbw_gbps(each):.2f}", each.witness),
            )
            for each in self.proven
            if each.value_us > 0
        ]
        header = ("bound", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "why no schedule is faster")
        size = units.format_size(problem.size_bytes)
        on = self.stated.topology.name
        return html_table(
            f"{problem.collective.name}, {problem.num_ranks} ranks, on {on}, {size}", header, rows
        )

    def _figures(self, bound: Proof) -> dict[str, object]:
        return {
            "kind": bound.kind,
            "lower_bound_us": bound.value_us,
            "witness": bound.witness,
            "algbw_gbps": finite(self.algbw_gbps(bound)),
            "busbw_gbps": finite(self.busbw_gbps(bound)),
            "holds_for_any_chunks": bound.holds_for_any_chunks,
        }


@spelled_out(RequestKeywords)
def bounds(collective: AnyCollective | Request = "allgather", **asked: Unpack[RequestKeywords]) -> Bounds:
    """The best lower bound of each kind in microseconds, largest first, each with its witness.

    Parameters and errors are those of `taccl.make_problem`.
    """
    stated = make_problem(request_of(collective, asked))
    return Bounds(stated, all_bounds(stated.problem))
