"""What `synthesize` hands over: a checked schedule, what is proven about it, and its files."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from taccl.encoding.bounds import NOTHING, Proof
from taccl.encoding.core.options import SearchOptions
from taccl.model import units
from taccl.model.collective import Collective
from taccl.model.engine_costs import LINKS_ALONE
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import SavedSchedule, Schedule, schedule_file, schedule_to_json
from taccl.model.template import Template
from taccl.model.tolerance import is_above
from taccl.model.windows import exposed_row, exposure
from taccl.support.files import write_atomically
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.autotune.files_tried import FileTried
from taccl.synthesis.autotune.trials import ChunksTried
from taccl.synthesis.lowering import OutputFile, paths_of, write_files
from taccl.synthesis.predicted import PredictedCall, by_links
from taccl.synthesis.search import Found, Status, relative_gap
from taccl.synthesis.searcher import TaskRun
from taccl.synthesis.template_files import FileByRank

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from taccl.model.schedule.plot import Lanes

__all__ = ["OutputFile", "Result"]

#: Files that took this many seconds say so.
_A_WHILE_S = 1.0

#: What a time of the schedule leaves out where thread blocks serve links.
_LINKS_SERVED = "links as thread blocks serve them: no launch, no sums"


@dataclass(frozen=True)
class Result(Reported):
    """A schedule that passed `Schedule.check()`, with a lower bound for every schedule of its problem.

    Parameters
    ----------
    found : the schedule, its bound, and how the search ended.
    options : what was requested of the engines.
    topology, sketch : their names; sketch is None when all links are used as they are.
    files : the verified texts of its files, that for most runtimes first; none if no file was requested.
    notes : what the user should know about how the request was understood, and what else was proved.
    chunks_tried : the numbers of chunks that were compared, where that was requested.
    file_seconds : how long lowering and verifying the files took, after the search.
    asked_for_file : whether there was to be a file.
    protocol, instances, thread_blocks : of the file.
    blocks_per_gpu, execution : the most thread blocks on any GPU, and a call of the file as the machine's
        executor runs it; a plan for MSCCL++ also by links alone. None where nothing is predicted: where the
        machine does not say what executing costs.
    files_tried : the protocols and instances that were compared, where they were open.
    machine : its network as it is, where the schedule's costs are those of thread blocks.
    scheduler, tasks : the address of the cluster that searched as well, and what became of its tasks.
    sums_at : where sums are made other than at GPUs (`PhysicalTopology.sums_at`); empty where nothing sums.
    any_chunks : no schedule is faster by links alone, whatever the number of equal chunks; `NOTHING`: not
        proved.
    template : of a collective that is too large to be planned whole: `schedule` is then that of the chunks of
        the first nodes, and this has what each rank does; None: the schedule is the whole.
    by_rank : its file, if one is requested, which is written rank by rank.
    """

    found: Found
    options: SearchOptions
    topology: str
    sketch: str | None
    files: tuple[OutputFile, ...] = ()
    notes: tuple[str, ...] = ()
    chunks_tried: tuple[ChunksTried, ...] = ()
    file_seconds: float = 0.0
    file_requested: bool = False
    protocol: str = ""
    instances: int = 1
    thread_blocks: str = "two-way"
    blocks_per_gpu: int | None = None
    execution: PredictedCall | None = None
    files_tried: tuple[FileTried, ...] = ()
    machine: LogicalTopology | None = None
    scheduler: str | None = None
    tasks: tuple[TaskRun, ...] = ()
    sums_at: str = ""
    any_chunks: Proof = NOTHING
    template: Template | None = None
    by_rank: FileByRank | None = None

    @property
    def schedule(self) -> Schedule:
        """The best schedule found."""
        return self.found.schedule

    @property
    def problem(self) -> Problem:
        """What the schedule answers."""
        return self.found.schedule.problem

    @property
    def lower_bound_us(self) -> float:
        """No schedule of this problem is faster, microseconds."""
        return self.found.lower_bound_us

    @property
    def bound_source(self) -> str:
        """Why no schedule is faster, in a few words."""
        return self.found.bound_source

    @property
    def status(self) -> Status:
        """Why the search ended: see `taccl.synthesis.search.Status`."""
        return self.found.status

    @property
    def solve_s(self) -> float:
        """How long the search took; stating the problem and lowering are not in it."""
        return self.found.seconds

    @property
    def collective(self) -> Collective:
        """The collective that the schedule computes."""
        return self.problem.collective

    @property
    def collective_name(self) -> str:
        """Of the whole, where `collective` is the part of one node."""
        return self.collective.name if self.template is None else self.template.collective

    @property
    def size_bytes(self) -> int:
        """What nccl-tests prints as `size`."""
        return self.problem.size_bytes

    @property
    def chunk_bytes(self) -> int:
        """Bytes in one chunk."""
        return round(self.problem.chunk_mb * units.MB)

    @property
    def time_us(self) -> float:
        """When the last transfer ends, microseconds."""
        return self.schedule.makespan_us

    @property
    def gap(self) -> float:
        """(time - bound) / time, a fraction."""
        return relative_gap(self.time_us, self.lower_bound_us)

    @property
    def exposed_us(self) -> float | None:
        """What the collective adds to computing alone, microseconds; None: nothing is said of computing."""
        return exposure(self.problem, self.time_us)["exposed_us"]

    @property
    def algbw_gbps(self) -> float:
        """Size divided by time, 10**9 bytes per second, as nccl-tests prints it."""
        return self.schedule.algbw_gbps

    @property
    def busbw_gbps(self) -> float:
        """The algbw times nccl-tests' factor for the collective, 10**9 bytes per second."""
        return self.schedule.busbw_gbps

    @property
    def checked(self) -> tuple[str, ...]:
        """What passed its checks: `schedule`, and the format of its files (`xml`) where there are any."""
        return ("schedule", *dict.fromkeys(file.format for file in self.files))

    @property
    def verified(self) -> bool:
        """Whether all that was requested passed its checks; a `CheckError` keeps what is not."""
        return bool(self.files) or not self.file_requested

    def paths(self, path: str | Path) -> tuple[Path, ...]:
        """Where `write(path)` puts each of `files`: the first at `path`, others at `NAME.READER.xml`."""
        return paths_of(self.files, path)

    def write(self, path: str | Path) -> tuple[Path, ...]:
        """Write the file to `path` (and see `paths`); returns the files written.

        Raises
        ------
        FileError : a file cannot be written; files that were there are then as they were.
        """
        if self.by_rank is not None and not self.files:
            return self.by_rank.write(path)
        return write_files(self.files, path)

    def write_schedule(self, path: str | Path) -> None:
        """Write the schedule, as Parquet if the name ends in `.parquet`, else as JSON.

        `read_schedule` reads both back.

        Raises
        ------
        FileError : the file cannot be written.
        """
        write_atomically(path, schedule_file(path, self.saved_schedule()))

    def schedule_text(self) -> str:
        """The `saved_schedule` as JSON."""
        saved = self.saved_schedule()
        return schedule_to_json(
            saved.schedule, lower_bound_us=saved.lower_bound_us, bound_source=saved.bound_source
        )

    def saved_schedule(self) -> SavedSchedule:
        """What a file of the schedule holds: it and its bound, on the machine as it is (`by_links`)."""
        if self.machine is None:
            return SavedSchedule(self.schedule, self.lower_bound_us, self.bound_source)
        return by_links(self.schedule, self.machine)

    def report(self) -> Report:
        """The result as figures, as one row of those that are single values, and as a table.

        The transfers are in `schedule.to_pandas()`.
        """
        figures = self.figures()
        single = [key for key, value in figures.items() if not isinstance(value, list | dict)]
        on = self.topology if self.sketch is None else f"{self.topology} ({self.sketch})"
        size = self.problem.size_and_chunks[0]
        table = Table(
            f"{self.collective_name}, {self.collective.counted_ranks}, on {on}{self.sums_at}, {size}",
            [*self._times(), ("verified", self._verdict())],
        )
        return Report("taccl.synthesize/1", figures, single, [figures], table)

    def figures(self) -> dict[str, object]:
        """All that is known, as plain values that JSON can hold; keys carry their units."""
        return {
            "collective": self.collective_name,
            "root": self.collective.root,
            "topology": self.topology,
            "sketch": self.sketch,
            "ranks": self.collective.num_members,
            "nodes": self.problem.topology.num_nodes,
            "occupancy": self.problem.topology.occupancy,
            "size_bytes": self.size_bytes,
            "chunk_bytes": self.chunk_bytes,
            "chunks_per_rank": self.collective.chunks_per_rank,
            "engine": self.options.engine,
            "solver": self.options.solver,
            "seed": self.options.seed,
            "effort": self.options.effort,
            "images": 1 if self.template is None else self.template.images,
            "transfers": len(self.schedule),
            "sends": len(self.schedule.sends),
            "time_us": self.time_us,
            "lower_bound_us": self.lower_bound_us,
            "bound_source": self.bound_source,
            "any_chunks_bound_us": self.any_chunks.value_us or None,
            "any_chunks_bound_source": self.any_chunks.witness if self.any_chunks.value_us else None,
            "gap": self.gap,
            **exposure(self.problem, self.time_us),
            "algbw_gbps": finite(self.algbw_gbps),
            "busbw_gbps": finite(self.busbw_gbps),
            "solve_s": round(self.solve_s, 3),
            "file_s": round(self.file_seconds, 3),
            "status": self.status,
            "verified": self.verified,
            "checked": list(self.checked),
            "notes": list(self.notes),
            "engines": [run.to_dict() for run in self.found.engines],
            "declined": [asdict(declined) for declined in self.found.declined],
            "failures": [asdict(failure) for failure in self.found.failures],
            "protocol": self.protocol,
            "instances": self.instances,
            "thread_blocks": self.thread_blocks,
            "blocks_per_gpu": self.blocks_per_gpu,
            "predicted": None if self.execution is None else self.execution.to_dict(),
            "files_tried": [asdict(tried) | {"gap": tried.gap} for tried in self.files_tried],
            "chunks_tried": [
                asdict(tried) | {"gap": tried.gap, "solve_s": tried.seconds} for tried in self.chunks_tried
            ],
            "scheduler": self.scheduler,
            "tasks": [task.to_dict() for task in self.tasks],
        }

    def plot(self, by: Lanes = "link", ax: Axes | None = None) -> Axes:
        """Draw the schedule's timeline and its bound: see `Schedule.plot`."""
        return self.schedule.plot(by, ax, lower_bound_us=self.lower_bound_us)

    def summary(self, verbose: bool = False) -> str:
        """The same for people; `verbose` : with the schedule's own bound and all that was tried."""
        nodes = units.format_count(self.problem.topology.num_nodes, "node")
        sends = units.format_count(len(self.schedule.sends), "send")
        if self.template is not None:
            sends += f", times {self.template.images} images"
        rows = [
            ("collective", f"{self.collective_name}, {self.collective.counted_ranks}"),
            ("topology", f"{self.topology}, {nodes}{self.sums_at}"),
            ("sketch", self.sketch or "none: all links, as they are"),
            ("size", ", in ".join(self.problem.size_and_chunks)),
            *self._times(),
            ("transfers", f"{len(self.schedule)} in {sends}"),
            ("engine", f"{self.options.engine}, {self.solve_s:.1f} s"),
            ("verified", self._verdict()),
        ]
        rows += [("note", note) for note in self.notes]
        if verbose:
            rows += [] if self.execution is None else [("schedule", self._bound_of_schedule())]
            rows += [(tried.name, tried.line) for tried in self.files_tried if tried.is_reported]
            rows += [(f"chunks {tried.chunks}", tried.line) for tried in self.chunks_tried]
        return "\n".join(f"{label:<12} {value}" for label, value in rows)

    def __repr__(self) -> str:
        return (
            f"Result({self.collective_name} on {self.topology}, {units.format_size(self.size_bytes)}: "
            f"{self.time_us:.2f} us, bound for this chunk count {self.lower_bound_us:.2f} us, "
            f"gap {100 * self.gap:.2f}%, {self.status})"
        )

    def _times(self) -> list[tuple[str, str]]:
        """One time with its bound and gap: of the file where that is predicted, else of the schedule."""
        factor = self.collective.busbw_factor
        shown_us = self.time_us if self.execution is None else self.execution.time_us
        algbw_gbps = units.bandwidth_gbps(self.size_bytes, shown_us)
        bandwidths = [
            ("algbw", units.format_bandwidth(algbw_gbps) + self.problem.size_of_algbw),
            ("busbw", units.format_bandwidth(algbw_gbps * factor)),
        ]
        if self.execution is None:
            return [
                ("time", f"{self.time_us:.2f} us  ({self._left_out})"),
                *zip(("lower bound", ""), self._bounds(), strict=False),
                ("gap", f"{100 * self.gap:.2f}% for this chunk count  ({self.status})"),
                *exposed_row(self.problem, self.time_us),
                *bandwidths,
            ]
        bound, time_us = self.execution.bound, self.execution.time_us
        return [
            ("file time", f"{time_us:.2f} us predicted  ({self._configuration()})"),
            *zip(("lower bound", ""), self._bounds_of_files(bound), strict=False),
            ("gap", f"{100 * self.execution.gap:.2f}%  (search ended: {self.status})"),
            *bandwidths,
            ("schedule", f"{self.time_us:.2f} us  ({self._left_out})"),
        ]

    def _bounds_of_files(self, bound: Proof) -> list[str]:
        """First what holds for any library's program, then what holds for files like this one."""
        like_this = f"with this chunk count, {self._instances()} and no more thread blocks"
        own = f"{bound.value_us:.2f} us for files of {self.protocol} {like_this}  ({bound.witness})"
        if not self.any_chunks.value_us:
            return [own]
        by_links = f"{self.any_chunks.value_us:.2f} us for any chunk count by links alone"
        first = f"{by_links}  ({self.any_chunks.witness})"
        return [first, own] if is_above(bound.value_us, self.any_chunks.value_us) else [first]

    def _bounds(self) -> list[str]:
        """First what holds for any chunk count, so for a library's, then what holds for this one."""
        source = f"  ({self.bound_source})" if self.bound_source else ""
        own = f"{self.lower_bound_us:.2f} us"
        of_any = f"{self.any_chunks.value_us:.2f} us"
        if not self.any_chunks.value_us:
            return [f"{own} for this chunk count{source}"]
        first = f"{of_any} for any chunk count  ({self.any_chunks.witness})"
        return [first] if own == of_any else [first, f"{own} for this chunk count{source}"]

    @property
    def _left_out(self) -> str:
        """What times of the schedule leave out."""
        return LINKS_ALONE if self.machine is None else _LINKS_SERVED

    def _configuration(self) -> str:
        kind = "one-way thread block" if self.thread_blocks == "one-way" else "thread block"
        blocks = units.format_count(self.blocks_per_gpu or 0, kind)
        return f"{self.protocol}, {self._instances()}, {blocks}"

    def _instances(self) -> str:
        return units.format_count(self.instances, "instance")

    def _bound_of_schedule(self) -> str:
        costs = "links alone" if self.machine is None else "the same costs"
        bound = f"lower bound {self.lower_bound_us:.2f} us for this chunk count by {costs}"
        return f"{bound} ({self.bound_source}), gap {100 * self.gap:.2f}%"

    def _verdict(self) -> str:
        if not self.files:
            return f"schedule ({'no file could be made' if self.file_requested else 'no file requested'})"
        readers = ", ".join(reader for file in self.files for reader in file.readers)
        took = f", made and verified in {self.file_seconds:.1f} s" if self.file_seconds >= _A_WHILE_S else ""
        return f"schedule and {self.files[0].format.upper()} for {readers}{took}"
