"""What a program takes at the very least, reported before a schedule is searched for, and before one is
lowered; and what it takes, before it is written and verified.

Lowering a million transfers takes half a minute, and searching for them takes minutes. What is counted before
takes no longer than a look at columns. So what is refused then has no file, and what is not may still turn
out to have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from taccl.backend.limits import RuntimeLimits, limits_of
from taccl.backend.lower.dialects import FUSING_RUNTIMES, dialects, runtimes_named
from taccl.backend.machine.expected import MAX_CELLS
from taccl.backend.program import RankProgram
from taccl.errors import ProgramLimitError
from taccl.model.collective import Collective, IntArray
from taccl.model.collectives import COLLECTIVES
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule

#: Findings that are reported.
_FINDINGS = 3
_FEWER = "fewer chunks or instances, or --no-file for the schedule alone"


@dataclass(frozen=True, eq=False)
class _Least:
    """For each rank, at the least: how often it receives and sends, chunks of a buffer, and thread blocks."""

    receives: IntArray
    sends: IntArray
    buffer: IntArray
    blocks: IntArray

    def findings(self, limits: RuntimeLimits, *, fused: bool) -> list[str]:
        """Each limit that a rank is over, with the rank that is furthest."""
        ranks = len(self.buffer)
        # A step may be both a receive and a send, where steps are fused.
        steps = np.maximum(self.receives, self.sends) if fused else self.receives + self.sends
        elements = 2 + ranks + steps  # the program, its ranks, a thread block
        found = []
        for values, limit, what in (
            (steps, limits.blocks * limits.steps, "steps in all its thread blocks"),
            (elements, limits.elements, "XML elements to keep"),
            (self.buffer, limits.buffer_chunks, "chunks in a buffer"),
            (self.blocks, limits.blocks, "thread blocks"),
        ):
            rank = int(values.argmax())
            if values[rank] > limit:
                found.append(f"rank {rank}: at least {values[rank]} {what}; the limit is {limit}")
        return found


def check_problem_fits(problem: Problem, runtimes: tuple[str, ...], instances: int) -> None:
    """Refuse a problem that no file of these runtimes can carry out, whatever the schedule is.

    Raises
    ------
    ProgramLimitError : the limits that every program is over, with the number of chunks that may fit.
    """
    collective = problem.collective
    receives, sends = _moved(collective)
    buffer = np.maximum(
        collective.inputs.buffer_size(problem.num_ranks), collective.outputs.buffer_size(problem.num_ranks)
    )
    fused = FUSING_RUNTIMES.issuperset(runtimes_named(runtimes))
    parts = collective.chunks_per_rank
    for dialect in dialects(collective.name, runtimes):
        limits = limits_of(dialect.readers)

        def findings(chunks: int, times: int, limits: RuntimeLimits = limits) -> list[str]:
            """The same for this many chunks in each part, and this many instances."""
            into, out, room = (-(-each * chunks // parts) for each in (receives, sends, buffer))
            moves = times * -(-into // limits.count), times * -(-out // limits.count)
            least = _Least(*moves, times * room, np.zeros_like(room))
            return least.findings(limits, fused=fused)

        if found := findings(parts, instances):
            raise ProgramLimitError(
                f"no program for {collective.name} on {problem.num_ranks} ranks "
                f"fits {_join(dialect.readers)}",
                findings=found[:_FINDINGS],
                hint=_what_fits(collective, instances, lambda chunks, times: not findings(chunks, times)),
            )


def check_sends_fit(schedule: Schedule, runtimes: tuple[str, ...], instances: int) -> None:
    """Refuse a schedule that takes more steps or thread blocks than a file of these runtimes holds.

    A thread block sends to one rank and receives from one, for one instance.

    Raises
    ------
    ProgramLimitError : the limits that every program for it is over, or it is more than can be checked.
    """
    topology, sends = schedule.problem.topology, schedule.sends
    into, out = (
        instances * np.bincount(end[sends.link], minlength=topology.num_ranks)
        for end in (topology.dst, topology.src)
    )
    pairs = np.unique(np.stack([topology.src[sends.link], topology.dst[sends.link]]), axis=1)
    peers = np.maximum(*(np.bincount(end, minlength=topology.num_ranks) for end in pairs))
    least = _Least(into, out, np.zeros_like(peers), instances * peers)
    fused = FUSING_RUNTIMES.issuperset(runtimes_named(runtimes))
    for dialect in dialects(schedule.problem.collective.name, runtimes):
        if found := least.findings(limits_of(dialect.readers), fused=fused):
            raise ProgramLimitError(
                f"the program is too large for {_join(dialect.readers)}",
                findings=found[:_FINDINGS],
                hint=_FEWER,
            )
    _check_cells(instances * _cells(schedule, fused=fused), "at least ")


def check_size(ranks: Sequence[RankProgram]) -> None:
    """Refuse what is more than can be checked, with the local copies that nobody knew of before.

    Raises
    ------
    ProgramLimitError : it is.
    """
    buffers = sum(rank.input_chunks + rank.output_chunks + rank.scratch_chunks for rank in ranks)
    steps = (step.count for rank in ranks for block in rank.thread_blocks for step in block.steps)
    _check_cells(buffers + sum(steps))


def _check_cells(cells: int, about: str = "") -> None:
    if cells > MAX_CELLS:
        raise ProgramLimitError(
            "the program is too large to be checked",
            findings=[f"{about}{cells} chunks in all buffers and steps; the limit is {MAX_CELLS}"],
            hint=_FEWER,
        )


def _cells(schedule: Schedule, *, fused: bool) -> int:
    """How many chunks the buffers and steps of one instance have at least, as the verifier counts them.

    A step has the chunks that it receives or sends, or both at once where steps are fused. What a rank only
    passes on lies in its scratch, which is never used twice.
    """
    problem, ranks = schedule.problem, schedule.problem.num_ranks
    collective = problem.collective
    ends = np.stack([np.bincount(end, minlength=ranks) for end in (schedule.dst, schedule.src)])
    moved = ends.max(axis=0) if fused else ends.sum(axis=0)
    arriving = int(np.count_nonzero(~collective.reduces[schedule.chunk]))
    passed_on = max(0, arriving - len(collective.outputs))
    return int(moved.sum()) + passed_on


def _moved(collective: Collective) -> tuple[IntArray, IntArray]:
    """How many chunks must come to each rank, and leave it, in some form: two of shape (num_ranks,)."""
    ranks, chunk, rank = collective.num_ranks, collective.outputs.chunk, collective.outputs.rank
    has = np.isin(chunk * ranks + rank, collective.inputs.chunk * ranks + collective.inputs.rank)
    # A sum comes from others where there are others, a copy where it is not.
    comes = np.where(collective.reduces[chunk], collective.num_sources[chunk] > has, ~has)
    into = np.bincount(rank[comes], minlength=ranks)
    # A rank alone with what some other rank wants has to send it.
    elsewhere = np.bincount(chunk[comes], minlength=collective.num_chunks)
    own, holder = collective.inputs.chunk, collective.inputs.rank
    wanted_here = np.isin(own * ranks + holder, chunk * ranks + rank)
    others = collective.num_wanted[own] > wanted_here
    alone = collective.reduces[own] | (collective.num_sources[own] == 1)
    leaves = alone & others & (elsewhere[own] > 0)
    return into, np.bincount(holder[leaves], minlength=ranks)


def _what_fits(collective: Collective, instances: int, fits: Callable[[int, int], bool]) -> str:
    """What to ask for in place of a problem that does not fit."""
    alone = "--no-file for the schedule alone"
    if instances > 1 and fits(collective.chunks_per_rank, 1):
        return f"fewer --instances, or {alone}"
    if collective.name in COLLECTIVES:
        chunks = next((n for n in range(collective.chunks_per_rank - 1, 0, -1) if fits(n, instances)), 0)
        if chunks:
            return f"--chunks {chunks} or fewer, or {alone}"
    return f"fewer ranks, another --target, or {alone}"


def _join(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
