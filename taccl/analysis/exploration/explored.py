"""The table: for each collective and size the fastest algorithm known, its bound, and what libraries run."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from taccl.analysis.exploration.answer import Answer
from taccl.analysis.exploration.curves import Curve, at_size
from taccl.analysis.exploration.envelope import Envelope
from taccl.analysis.exploration.page.page import QuestionPart, explored_page, packed_timelines
from taccl.analysis.exploration.question import Question
from taccl.encoding.bounds import NOTHING, Proof
from taccl.errors import TacclError
from taccl.model import units
from taccl.model.collective import busbw_factor
from taccl.model.schedule import SavedSchedule
from taccl.model.tolerance import contradicts
from taccl.support.notebook import new_axes
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.search import relative_gap

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEADER = (
    *("collective", "size", "time (us)", "bound (us)", "gap", "algbw (GB/s)", "chunks", "algorithm"),
    *("today", "time (us)", "speed-up"),
)
#: What a timeline says where the time of the table is that of a file.
_LINKS_ONLY = "by the links' costs alone; its file is predicted to take"
#: As high as a timeline of this many lanes.
_LANES = 20
_COLUMNS = (
    *("collective", "topology", "size_bytes", "time_us", "lower_bound_us", "gap", "algbw_GBps", "busbw_GBps"),
    *("chunks_per_rank", "instances", "protocol", "sketch", "schedule", "baseline", "baseline_us", "speedup"),
)


@dataclass(frozen=True, eq=False)
class Cell:
    """One search.

    Parameters
    ----------
    way : which sketch of the question it kept to.
    answer : None: there is none, for the reason that `failure` says.
    is_known : whether it was found in the cache.
    """

    question: Question
    way: int
    size_bytes: int
    answer: Answer | None
    failure: str = ""
    is_known: bool = False


@dataclass(frozen=True, eq=False)
class Explored(Reported):
    """What an exploration found.

    Parameters
    ----------
    envelopes : all curves and bounds, one for each question.
    cells : the searches, in order.
    notes : what the user should know, a sentence each.
    interrupted : whether the user ended it.
    """

    envelopes: tuple[Envelope, ...]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    @cached_property
    def best(self) -> tuple[dict[str, Any], ...]:
        """A row for each collective and size: what is fastest there."""
        return tuple(row for envelope in self.envelopes for row in self._rows(envelope))

    def schedule(self, name: str, size: str | int | None = None) -> SavedSchedule:
        """A schedule by its name in `best`, checked, at this size or at that for which it was found.

        Raises
        ------
        TacclError : there is no schedule of that name, or it cannot be cut so.
        """
        curve = next((curve for curve, known in self._names.items() if known == name), None)
        if curve is None:
            raise TacclError(
                f"there is no schedule {name!r}", hint="one of " + ", ".join(self._names.values())
            )
        saved, size_bytes = curve.answer.saved, curve.answer.size_bytes
        if size is not None and units.parse_size(size) != size_bytes:
            size_bytes = units.parse_size(size)
            retimed = at_size(saved.schedule, size_bytes)
            if retimed is None:
                raise TacclError(
                    f"{name} cannot be cut for {size}", hint="a size of the table that it serves"
                )
            saved = SavedSchedule(retimed)
        bound = self._bound_at(curve, size_bytes)
        if saved.lower_bound_us >= bound.value_us:
            return saved
        return SavedSchedule(saved.schedule, bound.value_us, bound.witness)

    def _bound_at(self, curve: Curve, size_bytes: int) -> Proof:
        """What is proved of schedules at a size of the table, for the question that a curve is of."""
        envelope = next(each for each in self.envelopes if curve in (*each.library, *each.found))
        sizes = envelope.question.sizes
        is_of_files = envelope.question.jobs[0].has_predictions
        return NOTHING if is_of_files or size_bytes not in sizes else envelope.bounds[sizes.index(size_bytes)]

    @property
    def crossovers(self) -> list[dict[str, object]]:
        """Where another schedule becomes the fastest: the first size that it serves."""
        rows = [row for row in self.best if row["schedule"] is not None]
        return [
            {
                "collective": after["collective"],
                "topology": after["topology"],
                "size_bytes": after["size_bytes"],
                "from": before["schedule"],
                "to": after["schedule"],
            }
            for before, after in pairwise(rows)
            if (before["collective"], before["topology"]) == (after["collective"], after["topology"])
            and before["schedule"] != after["schedule"]
        ]

    @property
    def front(self) -> list[dict[str, Any]]:
        """Latency against bandwidth: the algorithms that none matches at both ends of the sizes.

        A row for each, lowest latency first; None where its chunks do not divide the size.
        """
        return [row for envelope in self.envelopes for row in self._on_front(envelope)]

    def front_lines(self) -> Iterator[str]:
        """The front for people, a line for each question that has several sizes."""
        for envelope in self.envelopes:
            question = envelope.question
            ends = {"smallest_us": question.sizes[0], "largest_us": question.sizes[-1]}
            algorithms = "; ".join(
                f"{row['schedule']} "
                + ", ".join(
                    f"{row[key]:.2f} us at {units.format_size(size)}"
                    for key, size in ends.items()
                    if row[key] is not None
                )
                for row in self._on_front(envelope)
            )
            if len(question.sizes) > 1 and algorithms:
                yield f"front of {question.name}: {algorithms}"

    def _on_front(self, envelope: Envelope) -> list[dict[str, Any]]:
        return [
            {
                "collective": envelope.question.collective,
                "topology": envelope.question.machine.name,
                "schedule": self._names[curve],
                "algorithm": curve.name,
                "smallest_us": finite(small_us),
                "largest_us": finite(large_us),
            }
            for curve, (small_us, large_us) in sorted(envelope.front().items(), key=lambda item: item[1])
        ]

    def report(self) -> Report:
        """All figures, one row for each collective and size, and a table."""
        figures = {
            "best": list(self.best),
            "cells": [_figures(cell) for cell in self.cells],
            "schedules": [
                {
                    "schedule": name,
                    "algorithm": curve.name,
                    "chunks_per_rank": curve.chunks,
                    "found_for_bytes": curve.answer.size_bytes,
                    "transfers": len(curve.answer.saved.schedule),
                }
                for curve, name in self._names.items()
            ],
            "crossovers": self.crossovers,
            "front": self.front,
            "status": "interrupted" if self.interrupted else "finished",
            "times_of": self.times_of,
            "notes": list(self.notes),
        }
        table = Table(self._title, [_shown(row) for row in self.best], _HEADER)
        return Report("taccl.explore/1", figures, _COLUMNS, self.best, table)

    def to_csv(self) -> str:
        """The rows of `best` as CSV, with a header."""
        text = io.StringIO()
        writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.best)
        return text.getvalue()

    def to_html(self) -> str:
        """A page for the browser that needs nothing else, with the timeline of every schedule of `best`."""
        parts = [self._part(envelope) for envelope in self.envelopes]
        sizes = [row["size_bytes"] for row in self.best]
        fastest = list(dict.fromkeys(row["schedule"] for row in self.best if row["schedule"] is not None))
        searched = sum(cell.answer.seconds for cell in self.cells if cell.answer is not None)
        facts = (
            ("machine", ", ".join(dict.fromkeys(str(row["topology"]) for row in self.best))),
            ("sizes", f"{units.format_size(min(sizes))} to {units.format_size(max(sizes))}"),
            ("searches", f"{len(self.cells)}, {searched:.0f} s"),
            ("schedules", str(len(fastest))),
            ("times are of", self.times_of),
        )
        notes = (*self.notes, *(["The search was interrupted."] if self.interrupted else ()))
        timelines = {name: packed_timelines(self._served(name)) for name in fastest}
        return explored_page("Which algorithm at which size", facts, notes, parts, timelines)

    def _part(self, envelope: Envelope) -> QuestionPart:
        rows, question = self._rows(envelope), envelope.question
        searches = [_figures(cell) for cell in self.cells if cell.question is question]
        used = {row["schedule"] for row in rows}
        names = {curve: name for curve, name in self._names.items() if name in used}
        return QuestionPart(envelope, rows, searches, names)

    def _served(self, name: str) -> Iterator[tuple[int, SavedSchedule, tuple[str, ...]]]:
        """A schedule at each size at which it is the fastest, with what is proved of it there, and a note."""
        for row in self.best:
            if row["schedule"] == name:
                size, bound_us = row["size_bytes"], row["lower_bound_us"]
                schedule = self.schedule(name, size).schedule
                # The bound of files counts what executing costs, which the times of a schedule do not.
                holds = not contradicts(bound_us, schedule.makespan_us)
                saved = SavedSchedule(schedule, *((bound_us, row["bound_source"]) if holds else ()))
                is_all = math.isclose(schedule.makespan_us, row["time_us"], rel_tol=1e-6)
                yield size, saved, () if is_all else (f"{_LINKS_ONLY} {row['time_us']:.2f} us",)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw algbw over size on log axes, each collective with its bound and what libraries run.

        Raises
        ------
        TacclError : matplotlib is not installed.
        """
        ax = new_axes(_LANES) if ax is None else ax
        for envelope in self.envelopes:
            rows = self._rows(envelope)
            sizes = [row["size_bytes"] for row in rows]
            (line,) = ax.plot(
                sizes, [row["algbw_GBps"] for row in rows], marker="o", label=envelope.question.name
            )
            for key, style, what in (("lower_bound_us", ":", "bound"), ("baseline_us", "--", "library")):
                speeds = [_gbps(size, row[key]) or math.nan for size, row in zip(sizes, rows, strict=True)]
                ax.plot(
                    sizes, speeds, style, color=line.get_color(), label=f"{envelope.question.name}, {what}"
                )
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xlabel("size (bytes)")
        ax.set_ylabel("algbw (GB/s)")
        ax.legend()
        return ax

    def picture(self, kind: Literal["svg", "png"]) -> bytes:
        """What `plot` draws, as the content of a file.

        Raises
        ------
        TacclError : matplotlib is not installed.
        """
        content = io.BytesIO()
        figure = self.plot().get_figure(root=True)
        assert figure is not None, "new axes have a figure"
        figure.savefig(content, format=kind, dpi=200)
        return content.getvalue()

    @property
    def _title(self) -> str:
        names = ", ".join(envelope.question.name for envelope in self.envelopes)
        return f"{names}: {units.format_count(len(self.cells), 'search')}; times are of {self.times_of}"

    @property
    def times_of(self) -> str:
        """What the times are of, and what they leave out."""
        predicted = {envelope.question.jobs[0].has_predictions for envelope in self.envelopes}
        links, files = "links alone: no launch, no per-step cost", "files as predicted"
        return files if predicted == {True} else links if predicted == {False} else f"{files}, or of {links}"

    @cached_property
    def _names(self) -> dict[Curve, str]:
        """The curves that are fastest somewhere or on the front, by number within their collective."""
        names: dict[Curve, str] = {}
        for number, envelope in enumerate(self.envelopes):
            prefix = (
                envelope.question.collective
                if len(self.envelopes) == 1
                else f"{envelope.question.collective}-{number + 1}"
            )
            named = dict.fromkeys([*filter(None, envelope.best()), *envelope.front()])
            names |= {curve: f"{prefix}-{place}" for place, curve in enumerate(named, start=1)}
        return names

    def _rows(self, envelope: Envelope) -> list[dict[str, Any]]:
        question = envelope.question
        library = envelope.best_library()
        factor = busbw_factor(question.collective, question.machine.num_members)
        rows: list[dict[str, Any]] = []
        for place, (size, curve) in enumerate(zip(question.sizes, envelope.best(), strict=True)):
            known, bound = library[place], envelope.bounds[place]
            time_us = None if curve is None else curve.times_us[place]
            baseline_us = None if known is None else known.times_us[place]
            gbps = _gbps(size, time_us)
            rows.append(
                {
                    "collective": question.collective,
                    "topology": question.machine.name,
                    "size_bytes": size,
                    "time_us": time_us,
                    "lower_bound_us": bound.value_us,
                    "bound_source": bound.witness,
                    "gap": None if time_us is None else relative_gap(time_us, bound.value_us),
                    "algbw_GBps": gbps,
                    "busbw_GBps": None if gbps is None else gbps * factor,
                    "chunks_per_rank": None if curve is None else curve.chunks,
                    "instances": None if curve is None else curve.answer.configuration.instances,
                    "protocol": None if curve is None else curve.answer.configuration.protocol,
                    "sketch": None if curve is None else question.sketch_name(curve.way),
                    "schedule": None if curve is None else self._names[curve],
                    "algorithm": None if curve is None else curve.name,
                    "baseline": None if known is None else known.name,
                    "baseline_us": baseline_us,
                    "speedup": None if time_us is None or baseline_us is None else baseline_us / time_us,
                }
            )
        return rows


def _gbps(size_bytes: Any, time_us: Any) -> float | None:
    """None where nothing is known, or nothing has to move."""
    return None if not time_us else finite(units.bandwidth_gbps(size_bytes, time_us))


def _figures(cell: Cell) -> dict[str, object]:
    answer, question = cell.answer, cell.question
    schedule = None if answer is None else answer.saved.schedule
    return {
        "collective": question.collective,
        "topology": question.machine.name,
        "size_bytes": cell.size_bytes,
        "sketch": question.sketch_name(cell.way),
        "chunks_per_rank": None if schedule is None else schedule.problem.collective.chunks_per_rank,
        "schedule_us": None if schedule is None else schedule.makespan_us,
        "solve_s": None if answer is None else round(answer.seconds, 3),
        "status": "failed" if answer is None else answer.status,
        "failure": cell.failure,
        "known": cell.is_known,
    }


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table for people."""

    def figure(key: str, digits: int = 2) -> str:
        return "-" if row[key] is None else f"{row[key]:.{digits}f}"

    return (
        *(
            row["collective"],
            units.format_size(row["size_bytes"]),
            figure("time_us"),
            figure("lower_bound_us"),
        ),
        "-" if row["gap"] is None else f"{100 * row['gap']:.1f}%",
        *(figure("algbw_GBps"), str(row["chunks_per_rank"] or "-"), str(row["schedule"] or "-")),
        *(str(row["baseline"] or "-"), figure("baseline_us")),
        "-" if row["speedup"] is None else f"{row['speedup']:.2f}x",
    )
