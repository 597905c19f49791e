"""What aggregating servers buy: the lower bound of a collective by the number of servers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from taccl.analysis.bound import Bounds, bounds
from taccl.backend.target import ThreadBlocks
from taccl.encoding.bounds import Proof
from taccl.errors import TacclError
from taccl.model import units
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.request import AnyCollective, Request, RequestKeywords, request_of, spelled_out

if TYPE_CHECKING:
    from typing_extensions import Unpack

_COLUMNS = ("helpers", "lower_bound_us", "busbw_gbps", "speedup", "witness")


@dataclass(frozen=True, eq=False)
class ServerCurve(Reported):
    """Lower bounds of one request, one for each number of servers.

    Parameters
    ----------
    counts : the numbers of servers.
    bounds : the bounds with as many.
    any_chunks : whether the curve is of bounds for any number of chunks, since no number is requested.
    """

    counts: tuple[int, ...]
    bounds: tuple[Bounds, ...]
    any_chunks: bool = True

    header = ("servers", "bound(us)", "busbw(GB/s)", "of the first", "why no schedule is faster")

    @property
    def title(self) -> str:
        """What is asked for, without the servers."""
        problem, on = self.bounds[0].problem, self.bounds[0].stated.topology.name
        size = units.format_size(problem.size_bytes)
        base = on.rpartition(" with ")[0] or on
        many = "any number of chunks" if self.any_chunks else "the chunks requested"
        what = f"{problem.collective.name}, {problem.collective.num_members} ranks"
        return f"{what}, on {base}, {size} in {many}"

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """The rows of the table, as texts."""
        return [
            (
                *(str(row["helpers"]), f"{row['lower_bound_us']:.2f}", f"{row['busbw_gbps'] or 0:.2f}"),
                *(f"{row['speedup']:.3f}x", str(row["witness"])),
            )
            for row in self._rows()
        ]

    def report(self) -> Report:
        """A row for each number of servers, and a table."""
        problem = self.bounds[0].problem
        figures = {
            "collective": problem.collective.name,
            "topology": self.bounds[0].stated.topology.name,
            "ranks": problem.collective.num_members,
            "size_bytes": problem.size_bytes,
            "servers": self._rows(),
        }
        table = Table(self.title, self.cells, self.header)
        return Report("taccl.bound.helpers/1", figures, _COLUMNS, self._rows(), table)

    def _largest(self, proven: Bounds) -> Proof:
        every = [each for each in proven if each.holds_for_any_chunks or not self.any_chunks]
        return max(every or proven, key=lambda each: each.value_us)

    def _rows(self) -> list[dict[str, object]]:
        largest = [self._largest(each) for each in self.bounds]
        return [
            {
                "helpers": count,
                "lower_bound_us": proof.value_us,
                "busbw_gbps": finite(each.busbw_gbps(proof)),
                "speedup": largest[0].value_us / proof.value_us if proof.value_us else 1.0,
                "witness": proof.witness,
            }
            for count, each, proof in zip(self.counts, self.bounds, largest, strict=True)
        ]


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
    numbers = tuple(counts)
    if not numbers:
        raise TacclError("no number of helpers is given", hint="range(9)")
    request = request_of(collective, requested)
    return ServerCurve(
        numbers,
        tuple(
            bounds(
                replace(request, helpers=count),
                protocol=protocol,
                instances=instances,
                thread_blocks=thread_blocks,
            )
            for count in numbers
        ),
        any_chunks=request.chunks is None,
    )
