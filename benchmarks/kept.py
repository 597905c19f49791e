"""What was measured, kept next to a page of results, so that several goes fill one page.

One line of JSON for each call that was made, in `docs/results/NAME.jsonl`; of a call made again the last
counts. It knows lines and calls, and neither which are requested nor what a page looks like.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks import report
from benchmarks.calls import Case, Outcome


@dataclass(frozen=True)
class Measured:
    """What became of a call; `day` as 2026-11-22, and on which `machine`."""

    case: Case
    outcome: Outcome
    day: str
    machine: str


def measured_now(case: Case, outcome: Outcome) -> Measured:
    """With today's date and this machine."""
    return Measured(case, outcome, str(datetime.date.today()), report.machine())


def keep(name: str, measured: Measured) -> None:
    """Add a line for a call."""
    keep_line(name, asdict(measured))


def kept(name: str) -> dict[Case, Measured]:
    """The last of each call."""
    found = dict[Case, Measured]()
    for reported in kept_lines(name):
        case = Case(**reported["case"])
        found[case] = Measured(case, Outcome(**reported["outcome"]), reported["day"], reported["machine"])
    return found


def keep_line(name: str, reported: object) -> None:
    """Add a line. Processes that write at once lose nothing: a line is one write at the end of the file."""
    report.RESULTS.mkdir(parents=True, exist_ok=True)
    with (report.RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(reported) + "\n")


def kept_lines(name: str) -> Iterator[Any]:
    """What each line holds; one that was cut off is left out."""
    path = report.RESULTS / f"{name}.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)
