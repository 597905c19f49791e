"""A two-sided program to a plan: who sent writes into the receiver's memory, and tells it so.

It knows the program and the plan, not where the program came from, and it owes nothing to the verifier.
Each pair of thread blocks has a channel of its own, each message a place that nobody else touches meanwhile,
and dependencies between thread blocks of a rank become semaphores. A thread block with too many operations is
taken apart into several, one after the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from taccl.backend.lower_plan.blocks import Translation
from taccl.backend.lower_plan.fits import MAX_OPERATIONS
from taccl.backend.lower_plan.gathering import gather
from taccl.backend.lower_plan.packets import PacketTranslation
from taccl.backend.lower_plan.places import (
    NO_SUMS,
    Aliases,
    aliases,
    find_landings,
    find_packet_landings,
    steps_touching,
    writes,
)
from taccl.backend.lower_plan.pulls import find_pulls
from taccl.backend.lower_plan.steps import Steps, read_steps
from taccl.backend.lower_plan.sums import find_sums
from taccl.backend.plan import ExecutionPlan, RankPlan
from taccl.backend.program import Buffer, Program
from taccl.errors import CollectiveError

#: By collective, whether (input, output) is cut into a part for each rank.
_CUT = {
    "allgather": (True, False),
    "reducescatter": (False, True),
    "allreduce": (False, False),
    "alltoall": (False, False),
    "broadcast": (False, False),
}
#: Those that the runtime's callers know.
COLLECTIVES = tuple(_CUT)
#: As PyTorch calls them.
_USUALLY_IN_PLACE = frozenset({"allreduce", "broadcast"})
#: Operations with which parts of a thread block wait for each other.
_BETWEEN_PARTS = 8


def plain_name(collective: str) -> str:
    """A collective as plans spell it."""
    return collective.lower().replace("_", "").replace("-", "")


def translate(
    program: Program,
    node_of: Sequence[int] | None = None,
    *,
    in_place: bool | None = None,
    packets: bool = False,
    pulls: bool = False,
    sums_at_once: bool = True,
    lands_apart: bool = False,
) -> ExecutionPlan:
    """The plan that moves and adds up what a program does.

    Parameters
    ----------
    program : one that passed verification.
    node_of : by rank, the node that it is in; None: all are in one.
    in_place : which calls it is for; a plan is never for both. None: those that the program can serve, and
        where it can serve both, those that are usual: AllReduce and Broadcast in place, others not.
    pulls : whether ranks read what they add where others have it, inside of nodes.
    sums_at_once : whether what is there as soon is added in one pass.
    lands_apart : whether what would wait for the start of a peer's kernel behind a port is sent at once, to
        be copied from scratch to where it is wanted.
    packets : whether messages are packets (protocol LL); the program's steps must not be fused.

    Raises
    ------
    CollectiveError : MSCCL++ has no such collective, or the program cannot serve such calls.
    VerificationError : not a program that any runtime executes.
    ProgramLimitError : more steps than can be looked through.
    """
    name = plain_name(program.collective)
    if name not in _CUT:
        raise CollectiveError(
            f"MSCCL++ knows no {program.collective}", hint=f"it knows {', '.join(COLLECTIVES)}"
        )
    in_place = _in_place(program, name, in_place)
    part = program.chunks_per_loop // program.num_ranks
    names = aliases(name, program.num_ranks, part, in_place)
    where = (0,) * program.num_ranks if node_of is None else node_of
    choices = _Choices(names, where, packets, pulls and not packets, sums_at_once, lands_apart)
    sizes = [part if is_cut else program.chunks_per_loop for is_cut in _CUT[name]]
    plan = ExecutionPlan(
        name="",
        collective=name,
        protocol="LL" if packets else "Simple",
        double_scratch=packets,
        in_place=in_place,
        ranks=tuple(
            replace(rank, input_chunks=sizes[0], output_chunks=sizes[1]) for rank in _ranks(program, choices)
        ),
        min_bytes=min(program.min_bytes, 2**31 - 1),
        max_bytes=program.max_bytes,
    )
    return named(plan, program.name)


@dataclass(frozen=True)
class _Choices:
    """How messages move and sums are made: see `translate`. `pulls` is never set with `packets`."""

    names: Aliases
    where: Sequence[int]
    packets: bool
    pulls: bool
    sums_at_once: bool
    lands_apart: bool


def _ranks(program: Program, choices: _Choices) -> list[RankPlan]:
    """What each rank does, in thread blocks that are cut until none has too many operations."""
    cuts: dict[tuple[int, int], list[int]] = {}
    gathers = choices.pulls and choices.sums_at_once
    while True:
        steps = read_steps(program, cuts)
        rows: Mapping[int, Sequence[int]] = {}
        if gathers:
            gathered = gather(steps, choices.names, choices.where)
            steps, rows = gathered.steps, gathered.rows
        translation = _translation(steps, rows, choices)
        ranks = translation.run()
        more = _finer(steps, translation.ends, cuts)
        if more == cuts:
            break
        cuts, gathers = {} if rows else more, False  # what is gathered is not cut
    if choices.packets:
        return ranks
    return [
        replace(rank, scratch_chunks=used) for rank, used in zip(ranks, _used_scratch(ranks), strict=True)
    ]


def _translation(steps: Steps, rows: Mapping[int, Sequence[int]], choices: _Choices) -> Translation:
    """The translation of some steps; `rows` are those that were gathered."""
    names, where = choices.names, choices.where
    touching = steps_touching(steps, names)
    pulled = find_pulls(steps, names, where, rows) if choices.pulls else {}
    alone = frozenset(pulled.values()) | {each for row in rows.values() for each in row}
    sums = NO_SUMS
    if choices.sums_at_once:
        sums = find_sums(steps, names, touching, alone, choices.packets)
    if choices.packets:
        landings, made_at = find_packet_landings(steps, names, touching)
        return PacketTranslation(steps, names, landings, where, made_at, sums)
    landings = find_landings(steps, names, pulled, touching)
    translation = Translation(steps, names, landings, where, pulled, sums)
    if choices.lands_apart and (apart := translation.find_apart()):
        landings = find_landings(steps, names, pulled, touching, apart)
        translation = Translation(steps, names, landings, where, pulled, sums, apart)
    return translation


def _used_scratch(ranks: Sequence[RankPlan]) -> list[int]:
    """By rank, how much of its scratch is named at all: fused steps and pulled messages leave some aside."""
    used = [0] * len(ranks)
    for rank in ranks:
        for block in rank.blocks:
            for operation in block.operations:
                for each in (*operation.sources, *operation.targets):
                    memory = rank.memory_of(block, operation, each)
                    if memory is not None and memory[1] is Buffer.SCRATCH:
                        used[memory[0]] = max(used[memory[0]], each.index + each.size)
    return used


def named(plan: ExecutionPlan, begin: str) -> ExecutionPlan:
    """The plan under a name that no other has: plans of one name share their state."""
    digest = hashlib.sha256(repr(replace(plan, name="")).encode()).hexdigest()[:8]
    return replace(plan, name=f"{begin}_{plan.collective}_{plan.num_ranks}_{digest}")


def _in_place(program: Program, name: str, requested: bool | None) -> bool:
    """Which calls the plan is for. Out of place, a plan leaves the input alone; a program need not."""
    apart = program.out_of_place and not _writes_input(program)
    if requested is None and (apart or program.in_place):
        return program.in_place and (name in _USUALLY_IN_PLACE or not apart)
    if (requested and program.in_place) or (requested is False and apart):
        return bool(requested)
    if requested is not True and program.out_of_place:
        raise CollectiveError(
            "the program writes into the input of calls out of place, which a plan must leave alone",
            hint="a plan for calls in place, if the program can serve them",
        )
    way = "in place" if requested else "out of place"
    raise CollectiveError(f"the program serves no calls {way}", hint="a plan for the other calls")


def _writes_input(program: Program) -> bool:
    return any(
        writes(step) and step.dst is Buffer.INPUT
        for rank in program.ranks
        for block in rank.thread_blocks
        for step in block.steps
    )


def _finer(
    steps: Steps, ends: Sequence[Sequence[int]], cuts: Mapping[tuple[int, int], list[int]]
) -> dict[tuple[int, int], list[int]]:
    """The cuts, and some in all thread blocks with too many operations.

    Parameters
    ----------
    ends : by thread block, how many operations it has after each of its steps.
    """
    finer = {key: list(places) for key, places in cuts.items()}
    for block, counts in zip(steps.blocks, ends, strict=True):
        if not counts or counts[-1] <= MAX_OPERATIONS:
            continue
        parts = -(-counts[-1] // (MAX_OPERATIONS - _BETWEEN_PARTS))
        wanted, start = -(-counts[-1] // parts), 0
        for at in range(1, len(counts)):
            if counts[at - 1] - start >= wanted:
                finer.setdefault((block.rank, block.id), []).append(block.first + at)
                start = counts[at - 1]
    return {key: sorted(set(places)) for key, places in finer.items()}
