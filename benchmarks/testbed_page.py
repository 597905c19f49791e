"""The page and the plot of what the testbed's benchmark kept: predicted next to measured."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import report
from benchmarks.testbed_cases import GLOO, MACHINES, MPI, PLAN, RING

KEPT = report.RESULTS / "testbed.jsonl"
#: A library that takes so many times as long as the ring by hand had a bad order.
_BAD = 1.5

_INTRO = """\
Plans on machines that [`taccl testbed`](../testbed.md) builds out of shaped links: eight ranks, each a
process in a network namespace, real TCP, 5 calls after one that is not counted, medians of the rank that
ends last, from an agreed start on. Plans and rings run as [rounds](../pytorch.md#rounds) over gloo's sends
and receives; gloo and Open MPI (4.1.4) with their own collectives over the same links. Results are compared
with gloo's, element by element. The computer had other work all the while: 8 to 10 processes were ready to
run on its 2 cores during *nodes*, 12 during *torus*, and up to 22 during the last runs of *fabric*, beside
which two more testbeds ran; there gloo's and Open MPI's times are of an earlier, quieter run. *nodes*, run
once more beside two others, took 1.07 times its prediction in the median, 1.33 at most. *cube* was measured
at such a time too, and ended before most of Open MPI's calls: what its rings cost was fitted to disturbed
runs (12 ms a message, where 2 and less are usual), so its small rings are predicted up to 1.5 times too
slow.

*Ring by hand*: both directions at once, half of the data each, in an order that uses the fastest links;
AlltoAll: all pairs at once, where all have a path. *Predicted*: rounds in which messages that meet on a
link share it equally, as TCP does (`benchmarks/testbed_fluid.py`; `taccl lower --rounds` serves them one at
a time, which comes to the same on *nodes* and *torus*, and was what they were predicted by). Three costs in
it were fitted on the same testbed before any plan was searched or run, to programs of `taccl probe` and to
rings at other sizes: of a round, of a message to a neighbour, of one through NICs or switches. (`taccl
topology fit --runs` fits costs of thread blocks, which rounds do not have.) Rates are those of the
machine's file; payload is 8948 of 9014 bytes.

Plans are found with 1, 2, 4 and 8 chunks in each rank's part (`--effort 800`) and lowered twice, packed
and `--pipelined`; the one that is predicted fastest is run.
"""


_LOST = """\
## What rounds lose

A rank waits for all of its messages of a round before it posts the next. A schedule counts on no such
waits: on the torus, the AllGather of 3 MB takes 481 ms by its schedule's own times, and 722 as rounds (its
ring by hand, whose rounds are all alike: 575). So a plan that is faster than the best ring as a schedule
may be slower as rounds, and is predicted to be. Waiting for what a message reads, and for no more
(`pipelined=True`), mends it: [plans that run ahead](testbed_pipelined.md).
"""


@dataclass(frozen=True)
class Row:
    """All that was measured of a call: who -> (measured, predicted), ms; None: not predicted."""

    machine: str
    collective: str
    size_bytes: int
    times: dict[str, tuple[float, float | None]]

    def over_best(self) -> tuple[str, float, float | None]:
        """The fastest of the others, how many times faster the plan was measured than it, and predicted than
        the ring by hand, the one of them that is predicted.
        """
        others = {who: times for who, times in self.times.items() if who != PLAN}
        best = min(others, key=lambda who: others[who][0])
        plan, by_hand = self.times[PLAN], others.get(RING, (0.0, None))
        predicted = by_hand[1] / plan[1] if by_hand[1] and plan[1] else None
        return best, others[best][0] / plan[0], predicted


def write_page(command: str) -> None:
    """Write docs/results/testbed.md and its plot."""
    kept = _kept()
    rows, probes = _rows(kept), [each for each in kept if each["kind"] == "probe"]
    known = {row.machine for row in rows}
    about = "\n".join(f"- **{each.name}**: {each.about}" for each in MACHINES if each.name in known)
    parts = [
        about,
        _summary(rows),
        _calls(rows),
        "## What was fitted",
        _fitted(probes),
        _LOST,
        _bad_orders(rows),
    ]
    if any(each["wrong"] for each in kept):
        parts.insert(1, "**Some results were wrong.**")
    _plot(rows)
    parts.insert(3, "![predicted and measured times](testbed.png)")
    report.write("testbed", "On a network that is there", _INTRO, "\n\n".join(parts), command)


def _kept() -> list[dict[str, Any]]:
    """Of a call that was made again the last counts."""
    lines = map(json.loads, KEPT.read_text().splitlines() if KEPT.exists() else [])
    keys = ("machine", "kind", "who", "collective", "size_bytes")
    return list({tuple(line[key] for key in keys): line for line in lines}.values())


def kept_of(machine: str, kind: str) -> list[dict[str, Any]]:
    """Rows of a machine, `probe` or `call`."""
    return [each for each in _kept() if (each["machine"], each["kind"]) == (machine, kind)]


def _rows(kept: Sequence[dict[str, Any]]) -> list[Row]:
    calls: dict[tuple[str, str, int], dict[str, tuple[float, float | None]]] = {}
    for each in kept:
        if each["kind"] == "call":
            key = (each["machine"], each["collective"], each["size_bytes"])
            predicted = None if each["predicted_us"] is None else each["predicted_us"] / 1e3
            calls.setdefault(key, {})[each["who"]] = (each["took_us"] / 1e3, predicted)
    return [Row(*key, times) for key, times in calls.items() if PLAN in times]


def _errors(rows: Sequence[Row], who: str) -> list[float]:
    found = [row.times[who] for row in rows if who in row.times]
    return [abs(predicted / measured - 1) for measured, predicted in found if predicted]


def _tenths(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _summary(rows: Sequence[Row]) -> str:
    lines = []
    for who in (PLAN, RING):
        errors = _errors(rows, who)
        worst = [_percent(_tenths(errors, part)) for part in (0.5, 0.9)] if errors else ["", ""]
        lines.append([who, str(len(errors)), *worst, _percent(max(errors, default=0.0))])
    header = ("of", "calls", "median of abs(predicted - measured) / measured", "90th percentile", "largest")
    ratios = [
        measured / predicted
        for row in rows
        for _, measured, predicted in [row.over_best()]
        if predicted is not None
    ]
    within = sum(abs(ratio - 1) <= 0.15 for ratio in ratios)
    faster = sum(row.over_best()[1] > 1 for row in rows)
    said = (
        f"The plan is measured faster than the best of the others in {faster} of {len(rows)} calls. In "
        f"{within} of the {len(ratios)} in which a ring is predicted, this speed-up is within 15% of the one "
        f"predicted over that ring; their ratio has the median {statistics.median(ratios):.2f}."
        if ratios
        else ""
    )
    return report.table(header, lines) + "\n\n" + said


def _calls(rows: Sequence[Row]) -> str:
    def of(row: Row, who: str, part: int) -> str:
        value = row.times[who][part] if who in row.times else None
        return "" if value is None else f"{value:.0f}"

    lines = []
    for row in rows:
        best, measured, predicted = row.over_best()
        plan = row.times[PLAN]
        lines.append(
            [
                row.machine,
                row.collective,
                f"{row.size_bytes / 2**20:g}",
                of(row, PLAN, 1),
                of(row, PLAN, 0),
                f"{plan[0] / plan[1]:.2f}" if plan[1] else "",
                of(row, RING, 1),
                of(row, RING, 0),
                of(row, GLOO, 0),
                of(row, MPI, 0),
                best,
                f"{measured:.2f}",
                "" if predicted is None else f"{predicted:.2f}",
            ]
        )
    header = (
        *("machine", "collective", "MB", "plan: predicted ms", "measured ms", "ratio"),
        *("ring by hand: predicted", "measured", "gloo", "Open MPI"),
        *("best of the others", "speed-up over it", "predicted over the ring"),
    )
    return report.table(header, lines)


def _fitted(probes: Sequence[dict[str, Any]]) -> str:
    lines = []
    for machine in MACHINES:
        own = [each for each in probes if each["machine"] == machine.name]
        if own:
            costs = own[-1]["costs"]
            errors = [abs(each["predicted_us"] / each["took_us"] - 1) for each in own]
            values = [f"{costs[key]:.0f}" for key in ("round_us", "near_us", "far_us")]
            far = values[2] if "fabric" in machine.yaml else ""
            lines.append([machine.name, str(len(own)), *values[:2], far, _percent(statistics.median(errors))])
    header = (
        *("machine", "runs", "round, us", "message to a neighbour, us", "through NICs, us"),
        "median error of these runs",
    )
    return (
        report.table(header, lines)
        + "\n\nA round's cost is negative where the bucket of a link, full after each pause, lets the first "
        "10 KB of the next message through at once; on links of 8 to 10 Mbit/s these are 8 to 10 ms."
    )


def _bad_orders(rows: Sequence[Row]) -> str:
    said = []
    for row in rows:
        if RING not in row.times:
            continue
        slow = [
            f"{who} {row.times[who][0] / row.times[RING][0]:.1f}"
            for who in (GLOO, MPI)
            if who in row.times and row.times[who][0] > _BAD * row.times[RING][0]
        ]
        if slow:
            size = f"{row.size_bytes / 2**20:g} MB"
            said.append(
                f"- {row.machine}, {row.collective}, {size}: {' and '.join(slow)} times the ring by hand"
            )
    head = (
        "## Where a library's order was simply bad\n\ngloo and Open MPI take ranks in their given order and "
        "know nothing of links: their neighbours may be no neighbours, and then messages go through other "
        "ranks' namespaces. What is gained over them there is no merit of a plan; the columns of speed-ups "
        f"are over the best of all others. More than {_BAD} times as long as the ring by hand took:\n\n"
    )
    return head + "\n".join(said)


def _plot(rows: Sequence[Row]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 5))
    for machine in MACHINES:
        own = [row for row in rows if row.machine == machine.name]
        times = [row.times[PLAN] for row in own]
        left.scatter(
            [predicted for _, predicted in times], [took for took, _ in times], s=18, label=machine.name
        )
        found = [row.over_best() for row in own]
        known = [(predicted, took) for _, took, predicted in found if predicted is not None]
        right.scatter([each[0] for each in known], [each[1] for each in known], s=18, label=machine.name)
    for axes, about, off in (
        (left, "time of the plan, ms", 0.08),
        (right, "speed-up over the best other", 0.15),
    ):
        low, high = axes.get_xlim()
        ends = [max(low, 1e-3), high]
        axes.plot(ends, ends, color="grey", linewidth=0.8)
        axes.fill_between(ends, [e * (1 - off) for e in ends], [e * (1 + off) for e in ends], alpha=0.15)
        axes.set(xlabel=f"predicted {about}", ylabel=f"measured {about}")
        axes.legend(fontsize=8)
    left.set(xscale="log", yscale="log")
    figure.tight_layout()
    figure.savefig(report.RESULTS / "testbed.png", dpi=90)
