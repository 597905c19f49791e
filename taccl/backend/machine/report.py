"""What verification says: findings, facts, and the report that holds both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from taccl.errors import VerificationError
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import stamped

if TYPE_CHECKING:
    from typing_extensions import Unpack

Layer = Literal["structure", "meaning", "concurrency"]
Severity = Literal["error", "warning"]
#: Where a runtime turns the file down: when it loads it, when it looks for a file for a call, or at the call.
Refusal = Literal["load", "select", "launch"]
#: What a mode (in place, out of place) of a file turned out to be; `not used`: the file claims it, but
#: none of the runtimes requested about calls the file so.
Verdict = Literal["right", "wrong", "not claimed", "not used", "not checked"]

#: Findings of one rule that are written out; the rest are counted.
FINDINGS_PER_RULE = 20
WARNINGS_PER_RULE = 3


@dataclass(frozen=True, slots=True)
class Location:
    """A part of a file, as in `Finding`."""

    rank: int | None = None
    thread_block: int | None = None
    step: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong (error) or that may bite (warning).

    Parameters
    ----------
    layer, severity : `structure` (would a runtime take it), `meaning` (does it compute the
        collective), `concurrency` (in every order that a runtime allows).
    rule : a short fixed name of what was looked for, such as `missing-attribute` or `race`.
    message : one sentence, with the rank, thread block and step in it.
    rank, thread_block, step, line : where, as far as there is one place. `step` counts the steps of
        the thread block from 0 in the order of the file.
    runtimes : which runtimes it concerns; all that were requested about if they all behave equivalent.
    hint : what to do.
    refusal : set if the runtimes named do not run the file because of it.
    """

    layer: Layer
    severity: Severity
    rule: str
    message: str
    rank: int | None = None
    thread_block: int | None = None
    step: int | None = None
    line: int | None = None
    runtimes: tuple[str, ...] = ()
    hint: str | None = None
    refusal: Refusal | None = None

    def at(self, location: Location) -> Finding:
        """The same about another part of the file."""
        return replace(
            self,
            rank=location.rank,
            thread_block=location.thread_block,
            step=location.step,
            line=location.line,
        )

    def __str__(self) -> str:
        place = "" if self.line is None else f"line {self.line}: "
        concerned = f" [{', '.join(self.runtimes)}]" if self.runtimes else ""
        advice = "" if self.hint is None else f"; {self.hint}"
        return f"{self.severity}: {place}{self.message}{concerned}{advice}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found out about a file, right or wrong.

    Parameters
    ----------
    collective, num_ranks, num_steps, num_thread_blocks, protocol : as the file says.
    root : the root rank, given or found out, of a rooted collective.
    in_place, out_of_place : whether the result is right in each way of calling that the file claims, or in
        which a runtime calls it all the same.
    races : pairs of steps that touch one cell, one of them writing, with nothing to order them.
    readers : per runtime `yes`, `no` (refused when loaded), `never` (loaded, but selected for no call) or
        `launch` (refused when called).
    slot_depth : pieces that a connection must hold for the program to end, at the largest call that the
        file allows: 1 means that it ends even if every send waits for its receive. None: it does
        not end at the depth of the runtimes, or was not looked at.
    deadlock : whether it hangs at the depth of the runtimes in its range of sizes; None: not looked at.
    deadlock_whole, deadlock_split : the same if every step is one piece, and if every chunk is one.
    safe_bytes : with `deadlock`: calls of at most this many bytes end; None where no size does, or where
        all do.
    channels : rings and trees of a file for a stock library, which has no thread blocks; None: another file.
    rules : of a tuner file; None: another file.
    """

    collective: str
    num_ranks: int
    num_steps: int
    num_thread_blocks: int
    protocol: str
    root: int | None = None
    in_place: Verdict = "not checked"
    out_of_place: Verdict = "not checked"
    races: int | None = None
    readers: dict[str, str] = field(default_factory=dict)
    slot_depth: int | None = None
    deadlock: bool | None = None
    deadlock_whole: bool | None = None
    deadlock_split: bool | None = None
    safe_bytes: int | None = None
    channels: int | None = None
    rules: int | None = None


@dataclass(frozen=True, slots=True)
class Verification(Reported):
    """The outcome for one program. `ok` means that no finding is an error for the runtimes requested
    about.
    """

    findings: tuple[Finding, ...]
    facts: Facts
    path: str | None = None

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    def raise_for_findings(self) -> None:
        """Raise `VerificationError` with every error, unless there is none."""
        if not self.ok:
            raise VerificationError(
                "the program fails verification",
                findings=[str(error) for error in self.errors],
                path=self.path,
            )

    def report(self) -> Report:
        """The verification as figures, one row per finding, and a table."""
        facts, findings = self.facts, [asdict(finding) for finding in self.findings]
        cells = [
            ("collective", f"{facts.collective}, {facts.num_ranks} ranks, {facts.protocol}"),
            ("in place", facts.in_place),
            ("out of place", facts.out_of_place),
            ("readers", ", ".join(f"{name} {can}" for name, can in facts.readers.items())),
            *((finding.severity, finding.message) for finding in self.findings),
        ]
        title = f"{self.path or facts.collective}: {'ok' if self.ok else 'NOT ok'}"
        figures = {"ok": self.ok, "files": [self.as_dict()]}
        columns = [column.name for column in fields(Finding)]
        return Report("taccl.verify/1", figures, columns, findings, Table(title, cells))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: path, ok, facts, findings."""
        return {
            "path": self.path,
            "ok": self.ok,
            "facts": asdict(self.facts),
            "findings": [asdict(finding) for finding in self.findings],
        }


def reports_to_dict(reports: Sequence[Verification]) -> dict[str, object]:
    """What `taccl verify --json` prints of some files."""
    ok = all(report.ok for report in reports)
    return stamped("taccl.verify/1", {"ok": ok, "files": [report.as_dict() for report in reports]})


class Details(TypedDict, total=False):
    """What else a finding about the form of a file says.

    Parameters
    ----------
    severity : an error, unless stated.
    refusal : that runtimes do not run the file because of it. fatal : that executing it would mean nothing.
    """

    severity: Severity
    refusal: Refusal | None
    fatal: bool


class Collector:
    """Gathers findings; of each rule it keeps the first ones and counts the rest.

    `fatal` is set once the program is so far off that executing it would mean nothing.
    """

    def __init__(self) -> None:
        self.fatal = False
        self._kept: list[Finding] = []
        self._seen: Counter[tuple[str, tuple[str, ...]]] = Counter()

    def add(self, finding: Finding, fatal: bool = False) -> None:
        key = (finding.rule, finding.runtimes)
        self._seen[key] += 1
        self.fatal |= fatal
        if self._seen[key] <= (FINDINGS_PER_RULE if finding.severity == "error" else WARNINGS_PER_RULE):
            self._kept.append(finding)

    def structure(
        self,
        rule: str,
        message: str,
        hint: str,
        location: Location | None = None,
        runtimes: tuple[str, ...] = (),
        **details: Unpack[Details],
    ) -> None:
        """Add what is wrong with the form of a file."""
        severity, refusal = details.get("severity", "error"), details.get("refusal")
        finding = Finding("structure", severity, rule, message, runtimes=runtimes, hint=hint, refusal=refusal)
        self.add(finding if location is None else finding.at(location), details.get("fatal", False))

    def add_more(self, like: Finding, count: int) -> None:
        """Count `count` findings as `like`, without writing them out."""
        self._seen[(like.rule, like.runtimes)] += count

    def findings(self) -> tuple[Finding, ...]:
        """Errors before warnings, each in the order in which they were found."""
        kept = list(self._kept)
        for (rule, runtimes), count in self._seen.items():
            written = [f for f in self._kept if (f.rule, f.runtimes) == (rule, runtimes)]
            if count > len(written):
                more = f"{count - len(written)} more findings like this one: {written[0].message}"
                kept.append(
                    replace(written[0], message=more, rank=None, thread_block=None, step=None, line=None)
                )
        return tuple(sorted(kept, key=lambda finding: finding.severity == "warning"))
