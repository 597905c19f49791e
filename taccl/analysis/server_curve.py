"""What aggregating servers buy: the lower bound of a collective by the number of servers, and its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from taccl.analysis.bound import Bounds, bounds
from taccl.backend.target import ThreadBlocks
from taccl.encoding.bounds import Proof
from taccl.errors import CheckError, TacclError
from taccl.model import units
from taccl.model.problem import Problem
from taccl.model.tolerance import is_above
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.request import AnyCollective, Request, RequestKeywords, request_of, spelled_out
from taccl.synthesis.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

_COLUMNS = ("helpers", "lower_bound_us", "busbw_gbps", "speedup", "witness")


@dataclass(frozen=True, eq=False)
class ServerCurve(Reported):
    """Lower bounds of one request, one for each number of servers, and the times that were found.

    Parameters
    ----------
    counts : the numbers of servers.
    proofs : the bound with as many.
    problem, topology : the problem with the first number, and the name of its machine.
    any_chunks : whether the bounds are for any number of chunks, since no number is requested.
    results : what was found with as many, where it was searched for; else none.
    """

    counts: tuple[int, ...]
    proofs: tuple[Proof, ...]
    problem: Problem
    topology: str
    any_chunks: bool = True
    results: tuple[Result, ...] = ()

    @property
    def best(self) -> Result:
        """The fastest of the results; where several are, that with the fewest servers."""
        least = min(each.time_us for each in self.results)
        return next(each for each in self.results if not is_above(each.time_us, least))

    @property
    def best_count(self) -> int:
        """How many servers that has."""
        return self.counts[self.results.index(self.best)]

    @property
    def title(self) -> str:
        """What is requested, without the servers."""
        size = units.format_size(self.problem.size_bytes)
        base = self.topology.rpartition(" with ")[0] or self.topology
        many = "any number of chunks" if self.any_chunks else "the chunks requested"
        what = f"{self.problem.collective.name}, {self.problem.collective.num_members} ranks"
        return f"{what}, on {base}, {size} in {many}"

    @property
    def header(self) -> tuple[str, ...]:
        """Of the columns of the table."""
        times = ("time(us)", "chunks", "gap") if self.results else ()
        of_bounds = ("busbw(GB/s)", "of the first", "why no schedule is faster")
        return ("servers", *times, "bound(us)", *of_bounds)

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """The rows of the table, as texts."""
        return [
            (
                str(row["helpers"]),
                *(
                    (f"{row['time_us']:.2f}", str(row["chunks_per_rank"]), f"{row['gap']:.1%}")
                    if self.results
                    else ()
                ),
                *(f"{row['lower_bound_us']:.2f}", f"{row['busbw_gbps'] or 0:.2f}"),
                *(f"{row['speedup']:.3f}x", str(row["witness"])),
            )
            for row in self.rows()
        ]

    def report(self) -> Report:
        """A row for each number of servers, and a table."""
        figures = {
            "collective": self.problem.collective.name,
            "topology": self.topology,
            "ranks": self.problem.collective.num_members,
            "size_bytes": self.problem.size_bytes,
            "servers": self.rows(),
        }
        table = Table(self.title, self.cells, self.header)
        return Report("taccl.bound.helpers/1", figures, _COLUMNS, self.rows(), table)

    def rows(self) -> list[dict[str, object]]:
        """Each number with its bound, and with its time where results are there: speedups are of these."""
        values = [each.time_us for each in self.results] or [each.value_us for each in self.proofs]
        rows: list[dict[str, object]] = []
        for number, (count, proof, value_us) in enumerate(zip(self.counts, self.proofs, values, strict=True)):
            found = self.results[number] if self.results else None
            factor = self.problem.collective.busbw_factor
            rows.append(
                {
                    "helpers": count,
                    **({} if found is None else {"time_us": found.time_us, "gap": found.gap}),
                    **({} if found is None else {"chunks_per_rank": found.collective.chunks_per_rank}),
                    "lower_bound_us": proof.value_us,
                    "busbw_gbps": finite(units.bandwidth_gbps(self.problem.size_bytes, value_us) * factor),
                    "speedup": values[0] / value_us if value_us else 1.0,
                    "witness": proof.witness,
                }
            )
        return rows


def searched_with_servers(
    counts: Iterable[int], request: Request, search: Callable[[Request], Result]
) -> ServerCurve:
    """What is found with each of these numbers of servers that aggregate.

    Parameters
    ----------
    counts : numbers of servers, such as `range(9)`.
    search : what finds a result of a request, such as `taccl.synthesize` with a time limit for each.

    Raises
    ------
    TacclError : of the search, or there is no number.
    CheckError : no file could be made of the fastest result, which is kept in it.
    """
    curve = what_servers_buy(counts, request)
    results: list[Result] = []
    faults: dict[int, CheckError] = {}
    for count in curve.counts:
        try:
            results.append(search(replace(request, helpers=count)))
        except (
            CheckError
        ) as fault:  # no file could be made of what was found: of the fastest there must be one
            if not isinstance(fault.kept, Result):
                raise
            results.append(fault.kept)
            faults[count] = fault
    curve = replace(curve, results=tuple(results))
    if curve.best_count in faults:
        raise faults[curve.best_count]
    return curve


@spelled_out(RequestKeywords)
def what_servers_buy(
    counts: Iterable[int],
    collective: AnyCollective | Request = "allgather",
    *,
    protocol: str | None = None,
    instances: int | Literal["auto"] | None = None,
    thread_blocks: ThreadBlocks | Literal["auto"] | None = None,
    **requested: Unpack[RequestKeywords],
) -> ServerCurve:
    """The lower bound with each of these numbers of servers that aggregate.

    Parameters
    ----------
    counts : numbers of servers, such as `range(9)`.
    collective, protocol, instances, thread_blocks, requested : as in `taccl.bounds`.

    Raises
    ------
    TacclError : as `taccl.bounds`, or there is no number.
    """
    numbers = _checked(counts)
    request = request_of(collective, requested)
    proven = [
        bounds(
            replace(request, helpers=count),
            protocol=protocol,
            instances=instances,
            thread_blocks=thread_blocks,
        )
        for count in numbers
    ]
    any_chunks = request.chunks is None or request.leaves_chunks_open
    largest = tuple(_largest(each, any_chunks) for each in proven)
    return ServerCurve(numbers, largest, proven[0].problem, proven[0].stated.topology.name, any_chunks)


def _checked(counts: Iterable[int]) -> tuple[int, ...]:
    numbers = tuple(counts)
    if not numbers:
        raise TacclError("no number of helpers is given", hint="range(9)")
    return numbers


def _largest(proven: Bounds, any_chunks: bool) -> Proof:
    every: Sequence[Proof] = [each for each in proven if each.holds_for_any_chunks or not any_chunks]
    return max(every or proven, key=lambda each: each.value_us)
