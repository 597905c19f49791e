"""What no schedule can beat, without running any engine; and what is proved of a bound that a file claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, overload

from taccl.api import make_problem
from taccl.backend.target import AnyTarget, ThreadBlocks
from taccl.backend.targets.registry import find_target
from taccl.encoding.bounds import NOTHING, Proof, all_bounds, lower_bound
from taccl.encoding.symmetry.action import is_automorphism
from taccl.errors import TacclError
from taccl.model import units
from taccl.model.engine_costs import LINKS_ONLY, Pace, effective_network
from taccl.model.executor import Executor
from taccl.model.problem import Problem
from taccl.model.schedule import SavedSchedule
from taccl.model.tolerance import is_above
from taccl.support.arguments import word
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.formulated import Formulated
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.predicted import any_file_bound, trusted, wires_bound
from taccl.synthesis.request import AUTO, AnyCollective, Request, RequestKeywords, request_of, spelled_out

if TYPE_CHECKING:
    from typing_extensions import Unpack

_PACES: Mapping[ThreadBlocks, Pace] = {"two-way": "in-phase", "one-way": "one-way"}

_COLUMNS = ("kind", "lower_bound_us", "witness", "algbw_gbps", "busbw_gbps", "holds_for_any_chunks")


@dataclass(frozen=True)
class ServedBy:
    """By what the links of a machine with an executor are served, where a protocol is known.

    Parameters
    ----------
    protocol, instances, thread_blocks : as in `bounds`; None: as many as there can be, and either kind.
    blocks : thread blocks on each link.
    launch_us : what a call takes before anything moves; it is in no bound of schedules.
    any_file : none of `files` is faster when it is executed, launch included.
    """

    protocol: str
    instances: int | None
    thread_blocks: ThreadBlocks | None
    blocks: int
    launch_us: float
    any_file: Proof

    @property
    def files(self) -> str:
        """Which files `any_file` is a bound of, however many thread blocks they have."""
        if self.instances is None:
            return f"{self.protocol} with this chunk count"
        return f"{self.protocol} with this chunk count and {units.format_count(self.instances, 'instance')}"

    @property
    def note(self) -> str:
        """Under which costs the bounds hold."""
        kind = "one-way " if self.thread_blocks != "two-way" else ""
        many = f"{self.blocks} {kind}thread block{'s' if self.blocks > 1 else ''}"
        return (
            f"costs are those of {many} of {self.protocol} on each link, and what is left open is no faster; "
            f"a call takes {self.launch_us:g} us before that"
        )


@dataclass(frozen=True, eq=False)
class Bounds(Reported, Sequence[Proof]):
    """The best lower bound of each kind, largest first, and the problem that they are for.

    Parameters
    ----------
    served : with which costs of the machine's executor; None: by links alone.
    """

    stated: Formulated
    proven: tuple[Proof, ...]
    served: ServedBy | None = None

    @overload
    def __getitem__(self, index: int) -> Proof: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Proof, ...]: ...
    def __getitem__(self, index: int | slice) -> Proof | tuple[Proof, ...]:
        return self.proven[index]

    def __len__(self) -> int:
        return len(self.proven)

    @property
    def any_chunks(self) -> Proof:
        """The largest that holds for any number of equal chunks; `NOTHING` where none does."""
        return next((each for each in self.proven if each.holds_for_any_chunks and each.value_us), NOTHING)

    @property
    def problem(self) -> Problem:
        """What the bounds are for."""
        return self.stated.problem

    def algbw_gbps(self, bound: Proof) -> float:
        """The algbw that no schedule exceeds by this bound, 10**9 bytes per second."""
        return units.bandwidth_gbps(self.problem.size_bytes, bound.value_us)

    def busbw_gbps(self, bound: Proof) -> float:
        """That times nccl-tests' factor for the collective."""
        return self.algbw_gbps(bound) * self.problem.collective.busbw_factor

    def report(self) -> Report:
        """The bounds as figures, one row per bound that says something, and a table."""
        problem, machine = self.problem, self.stated.topology
        on = machine.name + machine.sums_for(problem.collective)
        proven = [bound for bound in self.proven if bound.value_us > 0]
        cells = [
            (
                *(bound.kind, f"{bound.value_us:.2f}", f"{self.algbw_gbps(bound):.2f}"),
                *(f"{self.busbw_gbps(bound):.2f}", bound.witness),
            )
            for bound in proven
        ]
        header = ("bound", "time (us)", "algbw (GB/s)", "busbw (GB/s)", "why no schedule is faster")
        size = units.format_size(problem.size_bytes)
        title = f"{problem.collective.name}, {problem.collective.counted_ranks}, on {on}, {size}"
        rows = [self._figures(bound) for bound in proven]
        return Report("taccl.bound/1", self._all_figures(rows), _COLUMNS, rows, Table(title, cells, header))

    def _all_figures(self, rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
        problem, largest, any_chunks, served = self.problem, self.proven[0], self.any_chunks, self.served
        return {
            "collective": problem.collective.name,
            "root": problem.collective.root,
            "topology": self.stated.topology.name,
            "sketch": None if self.stated.sketch is None else self.stated.sketch.name,
            "ranks": problem.num_ranks,
            "nodes": problem.topology.num_nodes,
            "occupancy": problem.topology.occupancy,
            "size_bytes": problem.size_bytes,
            "chunk_bytes": round(problem.chunk_mb * units.MB),
            "chunks_per_rank": problem.collective.chunks_per_rank,
            "lower_bound_us": largest.value_us,
            "bound_source": largest.witness,
            "remedy": largest.remedy,
            "any_chunks_bound_us": any_chunks.value_us or None,
            "any_chunks_bound_source": any_chunks.witness if any_chunks.value_us else None,
            "bounds": list(rows),
            "protocol": None if served is None else served.protocol,
            "instances": None if served is None else served.instances,
            "thread_blocks": None if served is None else served.thread_blocks,
            "launch_us": None if served is None else served.launch_us,
            "any_file_bound_us": None if served is None else served.any_file.value_us,
            "any_file_bound_source": None if served is None else served.any_file.witness,
            "notes": list(self.stated.notes),
        }

    def _figures(self, bound: Proof) -> dict[str, object]:
        return {
            "kind": bound.kind,
            "lower_bound_us": bound.value_us,
            "witness": bound.witness,
            "algbw_gbps": finite(self.algbw_gbps(bound)),
            "busbw_gbps": finite(self.busbw_gbps(bound)),
            "holds_for_any_chunks": bound.holds_for_any_chunks,
        }


@spelled_out(RequestKeywords)
def bounds(
    collective: AnyCollective | Request = "allgather",
    *,
    protocol: str | None = None,
    instances: int | Literal["auto"] | None = None,
    thread_blocks: ThreadBlocks | Literal["auto"] | None = None,
    **requested: Unpack[RequestKeywords],
) -> Bounds:
    """The best lower bound of each kind in microseconds, largest first, each with its witness.

    Parameters
    ----------
    collective, requested : as in `taccl.make_problem`.
    protocol : of a file for the target: on a machine with an executor bounds are then of schedules under its
        costs, as `synthesize` has them, and there is one of files too. None or `auto`: by links alone, and so
        are those of schedules where the executor's numbers are defaults of a GPU.
    instances, thread_blocks : parallel copies of the program; whether a thread block may send and receive
        (`two-way`) or does one of the two. None or `auto`: the bounds hold for all that it may be.

    Raises
    ------
    TacclError : as `taccl.make_problem`, or the target has no such protocol, or not this many instances.
    TopologyError : the executor says nothing about the protocol.
    """
    request = request_of(collective, requested)
    wanted = None if protocol == AUTO else protocol
    copies = None if instances == AUTO else instances
    kind: ThreadBlocks | None = None if thread_blocks is None or thread_blocks == AUTO else thread_blocks
    if kind is not None:
        word(kind, "thread_blocks", tuple(_PACES), TacclError)
    if wanted is None and (copies is not None or kind is not None):
        raise TacclError(
            "how many thread blocks there are matters to bounds where a protocol is known",
            hint="--protocol Simple",
        )
    target = find_target(request.target)
    if wanted is not None:
        output = OutputOptions(protocol=wanted, instances=1 if copies is None else copies)
        wanted = output.for_target(target, "bound").protocol
    stated = make_problem(request)
    if wanted is None:
        return Bounds(stated, all_bounds(stated.problem))
    executor = stated.problem.topology.executor
    if executor is None:
        stated = replace(stated, notes=(*stated.notes, _NO_EXECUTOR))
        return Bounds(stated, all_bounds(stated.problem))
    served = _served_by(stated.problem, executor, target, wanted, copies, kind)
    if executor.origin is None:
        stated = _under_costs(stated, served)
    else:  # what is not measured proves nothing of schedules
        stated = replace(stated, notes=(*stated.notes, executor.origin.note((stated.problem.size_bytes,))))
    return Bounds(stated, all_bounds(stated.problem), served)


_NO_EXECUTOR = "bounds are by links alone: the machine does not say what executing costs"
#: Of a target that has no limit of its own.
_MOST_BLOCKS = 1024


def _served_by(
    problem: Problem,
    executor: Executor,
    target: AnyTarget,
    protocol: str,
    instances: int | None,
    kind: ThreadBlocks | None,
) -> ServedBy:
    """By what links are served at best, of what is requested."""
    most = _MOST_BLOCKS if target.limits.instances is None else target.limits.instances
    if executor.thread_blocks is not None:
        most = min(most, executor.thread_blocks)
    blocks = most if instances is None else instances
    moved = wires_bound(problem)
    any_file = any_file_bound(problem, protocol, blocks, moved)
    return ServedBy(
        protocol=protocol,
        instances=instances,
        thread_blocks=kind,
        blocks=blocks,
        launch_us=executor.costs_of(protocol).launch_us,
        any_file=trusted(any_file, problem, executor, protocol, moved),
    )


def _under_costs(stated: Formulated, served: ServedBy) -> Formulated:
    """The same with what serves the links in their costs, as `synthesize` has it."""
    pace: Pace = "one-way" if served.thread_blocks is None else _PACES[served.thread_blocks]
    network = effective_network(stated.problem.topology, served.protocol, served.blocks, pace)
    notes = tuple(note for note in stated.notes if note != LINKS_ONLY)
    return replace(stated, problem=replace(stated.problem, topology=network), notes=(*notes, served.note))


#: Seconds for proving again what a file claims; programs that take longer say nothing.
_AGAIN_S = 5.0
#: So much of a file's reason for its bound is reported.
_SHOWN = 60


def prove_again(saved: SavedSchedule, time_limit_s: float = _AGAIN_S) -> tuple[Proof, tuple[str, ...]]:
    """What is proved here about every schedule of the problem in a file, whatever the file claims.

    Returns
    -------
    The largest bound, and a note if the file claims a larger one. An engine may have proved that; showing a
    file proves it not again, so it stays a claim.
    """
    proved = lower_bound(believed(saved.schedule.problem), time_limit_s)
    return proved, claim_notes(saved, proved)


def claim_notes(saved: SavedSchedule, proved: Proof) -> tuple[str, ...]:
    """A sentence if the file claims a larger bound than is proved; nothing otherwise."""
    if not is_above(saved.lower_bound_us, proved.value_us):
        return ()
    words = "".join(letter if letter.isprintable() else " " for letter in saved.bound_source)
    why = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}..."
    return (f"the file claims a bound of {saved.lower_bound_us:.2f} us ({why!r}), which is not proved here",)


def believed(problem: Problem) -> Problem:
    """The problem without symmetries that are none: bounds rely on them, and a file can say anything."""
    return replace(
        problem, symmetry=tuple(each for each in problem.symmetry if is_automorphism(problem, each))
    )
