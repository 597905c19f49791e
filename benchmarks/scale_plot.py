"""The plot of time and quality against ranks, of measured rows. It needs matplotlib (extra `plot`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks.calls import Case
from benchmarks.kept import Measured


class _Row(Protocol):
    @property
    def case(self) -> Case: ...

    @property
    def ranks(self) -> int: ...


def draw(
    kinds: Mapping[str, Sequence[tuple[str, int | None, int]]],
    collectives: Sequence[str],
    done: Sequence[tuple[_Row, Measured]],
    path: Path,
) -> None:
    """Seconds until a schedule near the best, and the part of the bound that it reaches, against ranks.

    A dotted line goes from the first point of each line as the number of transfers grows: what stays below it
    grows no faster than they do.

    Parameters
    ----------
    kinds : a line for each, of machines with their nodes and ranks, smallest first.
    collectives : a panel for the time of each; their quality shares one.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        1, len(collectives) + 1, figsize=(4.6 * (len(collectives) + 1), 4.2), layout="constrained"
    )
    *times, quality = axes
    ticks = sorted({ranks for machines in kinds.values() for _, _, ranks in machines})
    for axis, collective, style in zip(times, collectives, ("-o", "--s"), strict=False):
        for number, (kind, machines) in enumerate(kinds.items()):
            points = [
                (row.ranks, came.outcome.answer)
                for row, came in done
                if (row.case.machine, row.case.nodes, row.ranks) in machines
                and row.case.collective == collective
                and came.outcome.answer
            ]
            if points:
                _line(axis, quality, points, f"C{number}", style, f"{kind}, {collective}")
        axis.set(xscale="log", yscale="log", xlabel="ranks", ylabel="s; dotted: as transfers grow")
        axis.set(title=f"{collective}: until within 1% of the best")
    quality.set(xscale="log", xlabel="ranks", ylabel="% of the bound", ylim=(50, 101), title="quality")
    quality.legend(fontsize=7)
    for axis in axes:
        axis.set_xticks(ticks, [str(each) for each in ticks])
        axis.minorticks_off()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _line(
    time: Any, quality: Any, points: Sequence[tuple[int, dict[str, Any]]], color: str, style: str, label: str
) -> None:
    ranks = [each for each, _ in points]
    answers = [answer for _, answer in points]
    first = answers[0]
    time.plot(ranks, [answer["near_s"] for answer in answers], style, color=color)
    expected = [first["near_s"] * answer["transfers"] / first["transfers"] for answer in answers]
    time.plot(ranks, expected, ":", color=color, linewidth=0.8)
    quality.plot(ranks, [100 * (1 - answer["gap"]) for answer in answers], style, color=color, label=label)
