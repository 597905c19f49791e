"""The algorithms that libraries have, next to each other, at several sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taccl.analysis.exploration.bounds import bounds_of
from taccl.analysis.exploration.curves import Curve, at_size
from taccl.analysis.exploration.library import NOT_WHOLE, Library
from taccl.analysis.exploration.question import Question, question_of
from taccl.analysis.exploration.sizes import sizes_of
from taccl.encoding.bounds import Proof
from taccl.errors import TacclError
from taccl.model import units
from taccl.model.schedule import SavedSchedule, schedule_to_json
from taccl.support.arguments import shown
from taccl.support.budget import Budget, check_time_limit
from taccl.support.lists import few
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request
from taccl.synthesis.search import relative_gap
from taccl.topologies import PhysicalTopology

ALL = "all"
_HEADER = ("size", "algorithm", "chunks", "time(us)", "bound(us)", "gap", "algbw(GB/s)")
_COLUMNS = ("size_bytes", "algorithm", "chunks_per_rank", "time_us", "lower_bound_us", "gap", "algbw_gbps")
#: The part of the time for bounds.
_FOR_BOUNDS = 0.3


@dataclass(frozen=True, eq=False)
class LibraryTable(Reported):
    """What each algorithm takes at each size, fastest first.

    Parameters
    ----------
    bounds : one for each size.
    curves : several may have one name, in other numbers of chunks.
    notes : what the user should know, a sentence each.
    """

    question: Question
    bounds: tuple[Proof, ...]
    curves: tuple[Curve, ...]
    notes: tuple[str, ...] = ()

    def schedule(self, name: str, size: str | int) -> SavedSchedule:
        """The schedule of an algorithm that is fastest at a size, checked.

        Raises
        ------
        TacclError : no algorithm of that name has a time at that size.
        """
        size_bytes = self.question.rounded(units.parse_size(size))
        place = self.question.sizes.index(size_bytes) if size_bytes in self.question.sizes else -1
        known = [curve for curve in self.curves if curve.name == name]
        if not known or place < 0:
            names = few(sorted({curve.name for curve in self.curves}), 12)
            raise TacclError(f"there is no {name!r} at {size}", hint=f"one of {names}")
        curve = min(known, key=lambda each: each.times_us[place])
        made = at_size(curve.answer.saved.schedule, size_bytes)
        if made is None:
            raise TacclError(f"{name} cannot be cut for {size}")
        return SavedSchedule(made, self.bounds[place].value_us, self.bounds[place].witness)

    def fastest_text(self, size: str | int) -> str:
        """The schedule of the fastest of them at a size, as the text of a file; raises as `schedule`."""
        size_bytes = self.question.rounded(units.parse_size(size))
        rows = self._rows(self.question.sizes.index(size_bytes)) if size_bytes in self.question.sizes else []
        if not rows:
            raise TacclError(f"no algorithm has a time at {size}")
        saved = self.schedule(str(rows[0]["algorithm"]), size_bytes)
        return schedule_to_json(
            saved.schedule, lower_bound_us=saved.lower_bound_us, bound_source=saved.bound_source
        )

    def report(self) -> Report:
        """One row for each size and algorithm, and a table."""
        rows = [row for place in range(len(self.question.sizes)) for row in self._rows(place)]
        figures = {
            "collective": self.question.collective,
            "topology": self.question.machine.name,
            "ranks": self.question.machine.num_members,
            "algorithms": rows,
            "notes": list(self.notes),
        }
        cells = [
            (
                *(units.format_size(size), name, chunks, f"{time_us:.2f}", f"{bound_us:.2f}"),
                *(f"{100 * gap:.1f}%", "-" if gbps is None else f"{gbps:.2f}"),
            )
            for size, name, chunks, time_us, bound_us, gap, gbps in (
                tuple(row[column] for column in _COLUMNS) for row in rows
            )
        ]
        title = f"{self.question.name}: links alone, no launch, no per-step cost"
        return Report("taccl.baseline.library/1", figures, _COLUMNS, rows, Table(title, cells, _HEADER))

    def _rows(self, place: int) -> list[dict[str, Any]]:
        """The fastest of each kind at one size, in however many channels and batches."""
        size, bound = self.question.sizes[place], self.bounds[place]
        fastest: dict[str, Curve] = {}
        for curve in self.curves:
            known = fastest.get(curve.kind)
            if known is None or curve.times_us[place] < known.times_us[place]:
                fastest[curve.kind] = curve
        return [
            {
                "size_bytes": size,
                "algorithm": curve.name,
                "chunks_per_rank": curve.chunks,
                "time_us": curve.times_us[place],
                "lower_bound_us": bound.value_us,
                "gap": relative_gap(curve.times_us[place], bound.value_us),
                "algbw_gbps": finite(units.bandwidth_gbps(size, curve.times_us[place])),
            }
            for curve in sorted(fastest.values(), key=lambda curve: curve.times_us[place])
            if math.isfinite(curve.times_us[place])
        ]


def library(
    name: str = ALL,
    collective: str = "allreduce",
    *,
    topology: str | Path | PhysicalTopology,
    nodes: int | None = None,
    without: str | Sequence[str] | None = None,
    sizes: str | Sequence[str | int] = "1KB,64KB,1MB,16MB,256MB,1GB",
    root: int | None = None,
    time_limit: float = 20.0,
    effort: int | None = None,
) -> LibraryTable:
    """What the algorithms of NCCL, RCCL and MPI take on a machine: links alone, next to a bound.

    Rings (in several channels, in the orders that this machine has the links for), double binary trees,
    doubling, all-pairs, Bruck, PAT, by leaders, NVLS, CollNet: as the engines that build and do not search
    have them, checked like all schedules.

    Parameters
    ----------
    name : of one algorithm, or part of its name, in any case; `all`.
    topology, nodes, without, root : as in `taccl.Request`.
    sizes : as in `taccl.explore`.
    time_limit : seconds; what would come later is left out. effort : units of work in place of seconds.

    Raises
    ------
    TacclError : the machine, the collective or a size is wrong, or it has no such algorithm.
    """
    if not name:
        raise TacclError("the name of an algorithm is empty", hint=f"{ALL}, ring")
    check_time_limit(time_limit, example="20")
    budget = Budget(time_limit) if effort is None else Budget.of_work(effort, time_limit)
    request = Request(collective, topology=topology, nodes=nodes, without=without, root=root, executor=False)
    question, notes = question_of(request, (None,), OutputOptions(file=False), sizes_of(sizes))
    bounds = bounds_of(question, budget.share(_FOR_BOUNDS))
    curves, more = _curves(name, question, budget)
    return LibraryTable(question, bounds, curves, (*notes, *more))


def library_times_us(
    name: str,
    collective: str,
    *,
    topology: PhysicalTopology,
    sizes: Sequence[int],
    time_limit: float,
    effort: int,
) -> dict[int, float]:
    """What the fastest variant of an algorithm takes at each size, microseconds, without bounds.

    Raises
    ------
    TacclError : as `library`.
    """
    budget = Budget.of_work(effort, time_limit)
    request = Request(collective, topology=topology, executor=False)
    question, _ = question_of(request, (None,), OutputOptions(file=False), sizes_of(sizes))
    curves, _ = _curves(name, question, budget)
    fastest = (min(curve.times_us[place] for curve in curves) for place in range(len(question.sizes)))
    times = zip(question.sizes, fastest, strict=True)
    return {size: time_us for size, time_us in times if math.isfinite(time_us)}


def _curves(name: str, question: Question, budget: Budget) -> tuple[tuple[Curve, ...], tuple[str, ...]]:
    """The algorithms of a name, and what the user should know of them."""
    known = Library(question, budget, name="" if name == ALL else name)
    every = tuple(known)
    curves = tuple(curve for curve in every if name == ALL or name.lower() in curve.name.lower())
    if not curves:
        every = tuple(Library(question, budget))
        if not every:
            raise TacclError(f"libraries have no algorithm for {question.name}")
        names = few(sorted({curve.name for curve in every}), 12)
        raise TacclError(f"there is no algorithm {shown(name)} for {question.name}", hint=f"one of {names}")
    return curves, (() if known.is_whole else (NOT_WHOLE,))
