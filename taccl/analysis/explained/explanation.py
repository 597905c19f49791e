"""What `explain()` hands over: the verdict, the conflicts, and what would help, as text and as figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from taccl.analysis.explained.conflict import Conflict, short_place
from taccl.analysis.explained.routes import DemandPath, Unmet, links_said
from taccl.encoding.bounds import Proof
from taccl.model import units
from taccl.model.collective import Collective
from taccl.model.problem import Statement
from taccl.sketch.parts import in_short
from taccl.support.report import Report, Reported, Table
from taccl.synthesis.search import Found, relative_gap

#: There is a schedule, by the target time if there is one; no bound excludes the target, and no schedule was
#: found by it; there is none.
Verdict = Literal["possible", "not excluded", "impossible"]


@dataclass(frozen=True, eq=False)
class Explanation(Reported):
    """Whether a request can be met, and if not, why.

    Parameters
    ----------
    verdict : `possible`, `not excluded` or `impossible`.
    conflicts : why it is impossible; none otherwise.
    helps : sets of lines, each of which would be enough to leave out.
    unmet : the demands of the collective, and which of them cannot be met.
    bound : what no schedule can beat; None if there is none.
    machine_bound : the bound without any line of the sketch, for any number of chunks; None if not requested.
    found : the best schedule of a short search; None if there was none, or no reason to search.
    way : the longest of the shortest routes of a possible request.
    target_us, max_hops : what was requested, None if it was not.
    sums_at : where sums are made other than at GPUs (`PhysicalTopology.sums_for`); empty where nothing sums.
    """

    collective: Collective
    topology: str
    sketch: str | None
    size_bytes: int
    verdict: Verdict
    conflicts: tuple[Conflict, ...] = ()
    helps: tuple[tuple[Statement, ...], ...] = ()
    unmet: Unmet | None = None
    bound: Proof | None = None
    machine_bound: Proof | None = None
    found: Found | None = None
    way: DemandPath | None = None
    target_us: float | None = None
    max_hops: int | None = None
    notes: tuple[str, ...] = ()
    sums_at: str = ""

    @property
    def exit_code(self) -> int:
        """0, or what `taccl synthesize` would end with."""
        return min((conflict.exit_code for conflict in self.conflicts), default=0)

    def summary(self) -> str:
        """For people, a line or a paragraph for each thing there is to say."""
        return "\n".join(
            [
                f"{self._subject()}: {self._verdict_said()}",
                *self._paragraphs(),
                *(f"note: {note}" for note in self.notes),
            ]
        )

    def _subject(self) -> str:
        on = self.topology if self.sketch is None else f"{self.topology} ({self.sketch})"
        ranks, size = self.collective.counted_ranks, units.format_size(self.size_bytes)
        return f"{self.collective.name}, {ranks}, on {on}{self.sums_at}, {size}"

    def _verdict_said(self) -> str:
        within = "" if self.target_us is None else f" within {self.target_us:g} us"
        if self.verdict == "possible":
            return f"a schedule exists{within}"
        if self.verdict == "not excluded":
            return f"nothing excludes a schedule{within}, and none was found in the time given"
        if self.unmet is not None and self.unmet.unmet:
            over = "" if self.max_hops is None else f" over at most {links_said(self.max_hops)}"
            return (
                f"no schedule exists: {self.unmet.unmet} of {self.unmet.demands} demands cannot be met{over}"
            )
        if self.bound is None:
            return "the sketch contradicts its network"
        return f"no schedule exists{within}"

    def _paragraphs(self) -> list[str]:
        shown = []
        for conflict in self.conflicts:
            shown.append("\n" + conflict.text() + _others_said(conflict))
        if self.unmet is not None and self.unmet.untold:
            shown.append(f"\ncut off for other reasons: {self.unmet.untold} more")
        if self.helps:
            shown.append(f"\nfor {self._goal()}, it is enough to change {helps_said(self.helps)}")
        if self.machine_bound is not None and not any(conflict.machine for conflict in self.conflicts):
            bound = self.machine_bound
            shown.append(
                "without any of the sketch, and however finely the size is cut, the bound is "
                f"{bound.value_us:.2f} us ({bound.witness})"
            )
        if self.found is not None:
            shown.append(self._found_said(self.found))
        if self.verdict != "impossible" and self.bound is not None:
            shown.append(f"no schedule is faster than {self.bound.value_us:.2f} us: {self.bound.witness}")
        if self.way is not None:
            ranks = " -> ".join(map(str, self.way.ranks))
            hops = self.way.num_links
            requested = f"; --max-hops {hops - 1} tells why" if hops > 1 and self.max_hops is None else ""
            shown.append(f"longest way: {links_said(hops)}, {ranks}, for {self.way.what}{requested}")
        return shown

    def _goal(self) -> str:
        if self.unmet is not None and self.unmet.unmet:
            return "every demand to be met"
        return f"no bound to exclude {self.target_us:g} us"

    def _found_said(self, found: Found) -> str:
        time_us = found.schedule.makespan_us
        bound_us = found.lower_bound_us if self.bound is None else self.bound.value_us
        gap = relative_gap(time_us, bound_us)
        return f"found in {found.seconds:.1f} s: {time_us:.2f} us, gap {100 * gap:.2f}%"

    def report(self) -> Report:
        """The explanation as figures, one row per conflict, and a table."""
        found, bound = self.found, self.bound
        cells = [("verdict", self._verdict_said())]
        cells += [("conflict", conflict.text()) for conflict in self.conflicts]
        if found is not None:
            cells.append(("time", self._found_said(found)))
        if bound is not None:
            cells.append(("lower bound", f"{bound.value_us:.2f} us ({bound.witness})"))
        rows = [{"conflict": conflict.text()} for conflict in self.conflicts]
        return Report("taccl.explain/1", self.figures(), ["conflict"], rows, Table(self._subject(), cells))

    def figures(self) -> dict[str, object]:
        """All that is known, as plain values that JSON can hold; keys carry their units."""
        found = self.found
        return {
            "collective": self.collective.name,
            "root": self.collective.root,
            "ranks": self.collective.num_members,
            "topology": self.topology,
            "sketch": self.sketch,
            "size_bytes": self.size_bytes,
            "target_us": self.target_us,
            "max_hops": self.max_hops,
            "verdict": self.verdict,
            "conflicts": [conflict.figures() for conflict in self.conflicts],
            "helps": [[_plain(said) for said in lines] for lines in self.helps],
            "demands": None if self.unmet is None else self.unmet.demands,
            "unmet_demands": None if self.unmet is None else self.unmet.unmet,
            "lower_bound_us": None if self.bound is None else self.bound.value_us,
            "bound_source": None if self.bound is None else self.bound.witness,
            "machine_bound_us": None if self.machine_bound is None else self.machine_bound.value_us,
            "time_us": None if found is None else found.schedule.makespan_us,
            "longest_way": None if self.way is None else list(self.way.ranks),
            "notes": list(self.notes),
        }


def _others_said(conflict: Conflict) -> str:
    """How many demands are cut off next to the one that is named."""
    others = []
    if conflict.demands > 1:
        others.append(f"{conflict.demands - 1} more by the same")
    if conflict.images:
        others.append(f"{conflict.images} more by their images under the symmetries of the sketch")
    return f"\ncut off like it: {', and '.join(others)}" if others else ""


def helps_said(helps: Sequence[Sequence[Statement]]) -> str:
    """`A; or B; or C and D`, each by its place or, where it has none, by what it says."""
    return "; or ".join(_places(lines) for lines in helps)


def _places(lines: Sequence[Statement]) -> str:
    """`a.yaml:3, 5-8`: the places of statements of one file together."""
    by_path: dict[str, list[Statement]] = {}
    for said in lines:
        by_path.setdefault(short_place(replace(said, line=None)), []).append(said)
    shown = []
    for path, of_path in by_path.items():
        of = {said.line for said in of_path if said.line is not None}
        if of:
            shown.append(f"{path or 'line '}{':' if path else ''}{in_short(of)}")
        shown += [path or said.text.split(":")[0] for said in of_path if said.line is None]
    return " and ".join(shown)


def _plain(said: Statement) -> dict[str, object]:
    return {"path": said.path, "line": said.line, "text": said.text}
