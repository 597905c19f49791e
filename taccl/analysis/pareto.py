"""The frontier of latency against bandwidth: from the fewest steps to the fewest rounds per chunk (SCCL)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.encoding.bounds import Proof, lower_bound
from taccl.encoding.frontier import (
    Point,
    RoundBound,
    Undecided,
    fewest_steps,
    round_bound,
    walk,
)
from taccl.encoding.frontier.points import copies_of
from taccl.encoding.instance import Instance
from taccl.errors import NoScheduleInTime, SolverError
from taccl.model import units
from taccl.model.collective import Collective
from taccl.model.collectives import make_collective
from taccl.model.engine_costs import LINKS_ONLY
from taccl.model.network import Occupancy
from taccl.model.schedule import SavedSchedule, Schedule, schedule_file
from taccl.sketch import apply_sketch
from taccl.support.arguments import is_whole, shown
from taccl.support.budget import Budget, check_time_limit
from taccl.support.files import write_atomically
from taccl.support.notebook import new_axes
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.inputs import choose_topology
from taccl.synthesis.search import relative_gap
from taccl.topologies import PhysicalTopology
from taccl.topologies.without import without_helpers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from taccl.model.schedule.plot import Lanes

#: Why a walk ended: at the bound on rounds per chunk; nothing more to try with this many steps and chunks;
#: the time was up; the user stopped it.
FrontierStatus = Literal["bandwidth optimal", "finished", "time limit", "interrupted"]

#: Steps beyond the fewest that are tried by default.
_MORE_STEPS = 3
#: The most chunks that are tried by default, whatever the bound on rounds per chunk needs.
_CHUNKS = 8
#: More of either are no frontier that anybody walks.
_MOST_STEPS, _MOST_CHUNKS = 2**16, 2**12
#: Of a walk that ended at its limits.
_NOT_AT_BOUND = (
    "the search ended at {} steps and {} chunks per rank, before the bound on rounds per chunk; "
    "a larger --max-steps or --max-chunks may find fewer"
)
#: Seconds for each linear program of the bounds on the points' times.
_BOUND_S = 1.0

#: As high as a timeline of this many lanes.
_LANES = 12

#: What people read of a point.
_HEADER = (
    *("steps", "rounds", "chunks", "time (us)", "bound (us)", "gap"),
    *("algbw (GB/s)", "busbw (GB/s)"),
)
#: The figures of a point, in the order of a table.
_COLUMNS = (
    *("steps", "rounds", "chunks", "rounds_per_chunk", "minimal", "proof", "size_bytes", "time_us"),
    *("lower_bound_us", "bound_source", "gap", "algbw_gbps", "busbw_gbps", "solve_s"),
)


@dataclass(frozen=True, eq=False)
class FrontierPoint:
    """A point of SCCL's frontier, its time under the cost model, and a bound for as many chunks."""

    point: Point
    bound: Proof

    @property
    def schedule(self) -> Schedule:
        """The algorithm as an ordinary schedule; it passed `Schedule.check()`."""
        return self.point.schedule

    @property
    def time_us(self) -> float:
        """When its last transfer ends, microseconds, without barriers between steps."""
        return self.schedule.makespan_us

    @property
    def gap(self) -> float:
        """(time - bound) / time, a fraction."""
        return relative_gap(self.time_us, self.bound.value_us)

    def write_schedule(self, path: str | Path) -> None:
        """Write the schedule, as Parquet if the name ends in `.parquet`, else as JSON.

        `read_schedule` reads both back.

        Raises
        ------
        FileError : the file cannot be written.
        """
        saved = SavedSchedule(self.schedule, self.bound.value_us, self.bound.witness)
        write_atomically(path, schedule_file(path, saved))

    def plot(self, by: Lanes = "link", ax: Axes | None = None) -> Axes:
        """Draw the schedule's timeline and its bound: see `Schedule.plot`."""
        return self.schedule.plot(by, ax, lower_bound_us=self.bound.value_us)

    def figures(self) -> dict[str, object]:
        """All that is known, as plain values that JSON can hold; keys carry their units."""
        point = self.point
        return {
            "steps": point.steps,
            "rounds": point.rounds,
            "chunks": point.chunks,
            "rounds_per_chunk": str(point.rounds_per_chunk),
            "minimal": point.is_minimal,
            "proof": point.proof,
            "size_bytes": self.schedule.problem.size_bytes,
            "time_us": self.time_us,
            "lower_bound_us": self.bound.value_us,
            "bound_source": self.bound.witness,
            "gap": self.gap,
            "algbw_gbps": finite(self.schedule.algbw_gbps),
            "busbw_gbps": finite(self.schedule.busbw_gbps),
            "solve_s": round(point.seconds, 3),
        }


@dataclass(frozen=True, eq=False)
class Frontier(Reported):
    """Algorithms with fewer and fewer rounds per chunk.

    Parameters
    ----------
    least_steps : no algorithm has fewer steps.
    round_bound : no algorithm has fewer rounds per chunk, and why.
    points : in the order in which they were found: steps never go down, rounds per chunk always do.
    undecided : questions that were not answered in their time, so that points may be missing.
    notes : what else the user should know, a sentence each.
    """

    collective: Collective
    topology: str
    least_steps: int
    round_bound: RoundBound
    points: tuple[FrontierPoint, ...]
    undecided: tuple[Undecided, ...]
    status: FrontierStatus
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def fastest(self) -> FrontierPoint:
        """The point with the least time at the size requested."""
        return min(self.points, key=lambda each: each.time_us)

    def report(self) -> Report:
        """The frontier as figures, one row per point, and a table."""
        points = [point.figures() for point in self.points]
        figures = {
            "collective": self.collective.name,
            "root": self.collective.root,
            "ranks": self.collective.num_ranks,
            "topology": self.topology,
            "least_steps": self.least_steps,
            "least_rounds_per_chunk": str(self.round_bound.rounds_per_chunk),
            "least_rounds_source": self.round_bound.witness,
            "points": points,
            "undecided": [
                {"steps": open_.steps, "rounds": open_.rounds, "chunks": open_.chunks}
                for open_ in self.undecided
            ],
            "status": self.status,
            "solve_s": round(self.seconds, 3),
            "notes": list(self.notes),
        }
        cells = [
            (
                *(each.point.steps, each.point.rounds, each.point.chunks),
                *(f"{each.time_us:.2f}", f"{each.bound.value_us:.2f}", f"{100 * each.gap:.2f}%"),
                *(f"{each.schedule.algbw_gbps:.2f}", f"{each.schedule.busbw_gbps:.2f}"),
            )
            for each in self.points
        ]
        table = Table(f"{self._what}: {self.status}", cells, _HEADER)
        return Report("taccl.pareto/1", figures, _COLUMNS, points, table)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw rounds per chunk over steps, each point with its time and gap; returns the axes.

        Dashed lines stand where no algorithm has fewer. A point's own `plot` draws its timeline.

        Raises
        ------
        TacclError : matplotlib is not installed.
        """
        ax = new_axes(_LANES) if ax is None else ax
        steps = [point.point.steps for point in self.points]
        rounds = [float(point.point.rounds_per_chunk) for point in self.points]
        ax.plot(steps, rounds, marker="o", drawstyle="steps-post")
        for each, x, y in zip(self.points, steps, rounds, strict=True):
            text = f" {each.time_us:.2f} us, gap {100 * each.gap:.2f}%"
            ax.annotate(text, (x, y), va="bottom")
        ax.axvline(self.least_steps, color="black", linestyle="--", linewidth=1.0)
        ax.axhline(float(self.round_bound.rounds_per_chunk), color="black", linestyle="--", linewidth=1.0)
        ax.set_xticks(range(self.least_steps, max(steps, default=self.least_steps) + 1))
        ax.margins(0.2)
        ax.set_xlabel("steps")
        ax.set_ylabel("rounds per chunk")
        ax.set_title(f"{self._what}: {self.status}")
        return ax

    @property
    def _what(self) -> str:
        return f"{self.collective.name}, {self.collective.num_ranks} ranks, on {self.topology}"


def _check_enough_steps(most_steps: int, least: int) -> None:
    if most_steps < least:
        raise SolverError(
            f"{most_steps} steps are too few: some chunk is {least} links from where it is wanted",
            hint=f"--max-steps {least} or more",
        )


def _chunks_for(bound: RoundBound, steps: int) -> int:
    """Chunks with which this many steps, of a round or more each, can reach the bound, at most `_CHUNKS`."""
    if not bound.rounds_per_chunk:
        return 1
    whole = bound.rounds_per_chunk.denominator  # chunks that take a whole number of rounds
    return min(_CHUNKS, whole * math.ceil(steps / (bound.rounds_per_chunk * whole)))


def pareto(
    collective: str = "allgather",
    *,
    topology: str | Path | PhysicalTopology,
    size: str | int = "16MB",
    nodes: int | None = None,
    profile: str | Path | None = None,
    root: int | None = None,
    occupancy: Occupancy | None = None,
    max_steps: int | None = None,
    max_chunks: int | None = None,
    time_limit: float = 120.0,
    on_point: Callable[[FrontierPoint], None] | None = None,
) -> Frontier:
    """Walk from the latency optimum to the bandwidth optimum of a collective on a small machine.

    Parameters
    ----------
    collective : a name, of one that only copies or only sums.
    topology, nodes, profile, root, occupancy : as in `taccl.synthesize`.
    size : what nccl-tests prints as `size`; each point's chunks are rounded up to whole bytes.
    max_steps, max_chunks : how far to walk; by default three steps more than the fewest, and as many
        chunks as the bound on rounds per chunk needs for a round in each of these steps, at most 8.
    time_limit : seconds of search.
    on_point : called with each point when it is found.

    Raises
    ------
    TopologyError : the links' bandwidths are in no ratio of small whole numbers.
    CollectiveError : an unknown collective, or one that both sums and copies.
    SolverError : the instance is too large, or a limit is not positive.
    NoScheduleInTime : there was no point when the time was up.
    KeyboardInterrupt : the user stopped it before there was any point; later, the points are kept.
    """
    _check_limits(time_limit, max_steps, max_chunks)
    machine = choose_topology(topology, nodes=nodes, profile=profile, occupancy=occupancy)
    machine = without_helpers(machine)  # SCCL's encoding knows GPUs only
    instance_of = _stated(collective, machine, root, units.parse_size(size))
    copies = copies_of(instance_of(1))
    least, bound = fewest_steps(copies), copies.once(round_bound)
    most_steps = least + _MORE_STEPS if max_steps is None else max_steps
    most_chunks = _chunks_for(bound, most_steps) if max_chunks is None else max_chunks
    _check_enough_steps(most_steps, least)
    began = time.monotonic()
    budget = Budget(time_limit)
    points: list[FrontierPoint] = []
    undecided: list[Undecided] = []
    interrupted = False
    try:
        for news in walk(instance_of, most_steps, most_chunks, budget):
            if isinstance(news, Undecided):
                undecided.append(news)
                continue
            points.append(FrontierPoint(news, lower_bound(instance_of(news.chunks), _BOUND_S)))
            if on_point is not None:
                on_point(points[-1])
    except KeyboardInterrupt:
        if not points:
            raise
        interrupted = True
    if least and not points:
        raise NoScheduleInTime(
            f"no algorithm was found, and the time limit is {time_limit:g} s",
            hint="a larger --time-limit; taccl synthesize finds schedules for machines of this size",
        )
    out_of_time = bool(undecided) or not budget.remaining_s()
    status = _status(points, bound.rounds_per_chunk, interrupted, out_of_time)
    notes = (_NOT_AT_BOUND.format(most_steps, most_chunks),) if status == "finished" else ()
    return Frontier(
        collective=instance_of(1).problem.collective,
        topology=machine.name,
        least_steps=least,
        round_bound=bound,
        points=tuple(points),
        undecided=tuple(undecided),
        status=status,
        seconds=time.monotonic() - began,
        notes=notes if machine.executor is None else (*notes, LINKS_ONLY),
    )


def _stated(
    name: str, machine: PhysicalTopology, root: int | None, size_bytes: int
) -> Callable[[int], Instance]:
    """The problem for each number of chunks per rank, made once; all links may be used, as they are."""
    collective = make_collective(name, machine.num_ranks, 1, root)
    problem = apply_sketch(None, machine, collective, 1.0, max_group=DEFAULT_TARGET.max_group).problem

    @cache
    def instance_of(chunks: int) -> Instance:
        collective = make_collective(name, machine.num_ranks, chunks, root)
        chunk_bytes = math.ceil(Fraction(size_bytes, collective.chunks_per_size))
        return Instance(replace(problem, collective=collective, chunk_mb=chunk_bytes / units.MB))

    return instance_of


def _check_limits(time_limit: float, max_steps: int | None, max_chunks: int | None) -> None:
    check_time_limit(time_limit, example="120")
    for name, limit, most in (("steps", max_steps, _MOST_STEPS), ("chunks", max_chunks, _MOST_CHUNKS)):
        if limit is None:
            continue
        if not is_whole(limit) or limit < 1:
            raise SolverError(
                f"the most {name} must be at least 1, not {shown(limit)}", hint=f"--max-{name} 4"
            )
        if limit > most:
            raise SolverError(f"the most {name} are {most}, not {shown(limit)}", hint=f"--max-{name} 4")


def _status(
    points: list[FrontierPoint], least: Fraction, interrupted: bool, out_of_time: bool
) -> FrontierStatus:
    if not points or points[-1].point.rounds_per_chunk <= least:
        return "bandwidth optimal"
    if interrupted:
        return "interrupted"
    return "time limit" if out_of_time else "finished"
