"""A graph becomes a plan: passes, thread blocks that are cut until all fit, and a name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from taccl.backend.lower_plan.blocks import Blocks
from taccl.backend.lower_plan.gathering import pull
from taccl.backend.lower_plan.graph import Graph
from taccl.backend.lower_plan.packets import PacketBlocks
from taccl.backend.lower_plan.pulls import pull_alone
from taccl.backend.lower_plan.sums import add_at_once
from taccl.backend.lower_plan.tuning import BETWEEN_PARTS, MAX_OPERATIONS
from taccl.backend.plan import ExecutionPlan, RankPlan
from taccl.backend.program import Buffer
from taccl.errors import CollectiveError
from taccl.model.collectives import COLLECTIVES

#: What a graph goes through before it is spelled, in order.
Pass: TypeAlias = Callable[[Graph], Graph]
#: Messages are put, and what is there as soon is added in one pass.
PUSHING: tuple[Pass, ...] = (add_at_once,)

#: What plans call collectives that the runtime's callers do not know.
CUSTOM = "custom"
#: By collective, whether (input, output) is cut into a part for each rank.
_CUT = {
    "allgather": (True, False),
    "reducescatter": (False, True),
    "allreduce": (False, False),
    "alltoall": (False, False),
    "broadcast": (False, False),
    CUSTOM: (False, False),
}
#: As PyTorch calls them.
USUALLY_IN_PLACE = frozenset({"allreduce", "broadcast"})


@dataclass(frozen=True, slots=True)
class PlanUse:
    """What a plan is for.

    Parameters
    ----------
    collective : as plans spell it.
    ranks, chunks : how many ranks, and chunks of the whole buffer of a call.
    in_place : the calls that it serves.
    min_bytes, max_bytes : sizes of those.
    name : how the plan's begins.
    """

    collective: str
    ranks: int
    chunks: int
    in_place: bool
    min_bytes: int
    max_bytes: int
    name: str

    @property
    def part(self) -> int:
        """Chunks of a rank's part."""
        return self.chunks // self.ranks


def spelling(collective: str) -> str:
    """A collective as plans spell it.

    Raises
    ------
    CollectiveError : a standard one that MSCCL++ has no word for.
    """
    name = collective.lower().replace("_", "").replace("-", "")
    if name in _CUT:
        return name
    if name in COLLECTIVES:
        raise CollectiveError(
            f"MSCCL++ has no {collective}: no call of its libraries asks for it",
            hint=f"it has {', '.join(_CUT)}; another --target, or --no-file for the schedule alone",
        )
    return CUSTOM


def make_plan(graph: Graph, call: PlanUse, passes: Sequence[Pass]) -> ExecutionPlan:
    """The plan that does what a graph does.

    Raises
    ------
    CollectiveError : fused steps and packets.
    ProgramLimitError : more actions and thread blocks than can be looked through.
    """
    return plan_of_ranks(_ranks(graph, passes), call, graph.packets)


def plan_of_ranks(ranks: Sequence[RankPlan], call: PlanUse, packets: bool = False) -> ExecutionPlan:
    """The plan for such calls of what each rank does, whose input and output have no size yet."""
    sizes = [call.part if is_cut else call.chunks for is_cut in _CUT[call.collective]]
    plan = ExecutionPlan(
        name="",
        collective=call.collective,
        protocol="LL" if packets else "Simple",
        double_scratch=packets,
        in_place=call.in_place,
        ranks=tuple(replace(rank, input_chunks=sizes[0], output_chunks=sizes[1]) for rank in ranks),
        min_bytes=min(call.min_bytes, 2**31 - 1),
        max_bytes=call.max_bytes,
    )
    return named(plan, call.name)


def named(plan: ExecutionPlan, begin: str) -> ExecutionPlan:
    """The plan under a name that no other has: plans of one name share their state."""
    digest = hashlib.sha256(repr(replace(plan, name="")).encode()).hexdigest()[:8]
    return replace(plan, name=f"{begin}_{plan.collective}_{plan.num_ranks}_{digest}")


def land_apart(graph: Graph) -> Graph:
    """What would wait for the start of a peer's kernel behind a port is sent at once.

    It is copied from scratch to where it is wanted. Not of packets, which wait for nobody.
    """
    return graph if graph.packets else replace(graph, apart=Blocks(graph).starts.could_land_apart())


def _ranks(graph: Graph, passes: Sequence[Pass]) -> list[RankPlan]:
    """What each rank does, in thread blocks that are cut until none has too many operations."""
    cuts: dict[int, list[int]] = {}
    while True:
        passed, parts = graph.cut(cuts)
        for each in passes:
            passed = each(passed)
        blocks = PacketBlocks(passed) if graph.packets else Blocks(passed)
        ranks = blocks.ranks()
        finer = _finer(blocks.ends, parts, cuts)
        if finer == cuts:
            break
        cuts = {} if passed.rows else finer  # what is gathered is not cut
        passes = [pull_alone if each is pull else each for each in passes]
    if graph.packets:
        return ranks
    return [replace(rank, scratch_chunks=used) for rank, used in zip(ranks, used_scratch(ranks), strict=True)]


def used_scratch(ranks: Sequence[RankPlan]) -> list[int]:
    """By rank, how much of its scratch is named at all: fused steps and pulled messages leave some aside."""
    used = [0] * len(ranks)
    for rank in ranks:
        for block in rank.blocks:
            for operation in block.operations:
                for each in (*operation.sources, *operation.targets):
                    for owner, buffer in rank.memories_of(block, operation, each):
                        if buffer is Buffer.SCRATCH:
                            used[owner] = max(used[owner], each.index + each.size)
    return used


def _finer(
    ends: Sequence[Sequence[int]], parts: Sequence[tuple[int, int]], cuts: Mapping[int, list[int]]
) -> dict[int, list[int]]:
    """The cuts, and some in all thread blocks with too many operations.

    Parameters
    ----------
    ends : by thread block, how many operations it has after each of its actions.
    parts : by thread block, the one that it is a part of, and the position there of its first action.
    """
    finer = {block: list(positions) for block, positions in cuts.items()}
    for (block, first), counts in zip(parts, ends, strict=True):
        if not counts or counts[-1] <= MAX_OPERATIONS:
            continue
        pieces = -(-counts[-1] // (MAX_OPERATIONS - BETWEEN_PARTS))
        wanted, start = -(-counts[-1] // pieces), 0
        for at in range(1, len(counts)):
            if counts[at - 1] - start >= wanted:
                finer.setdefault(block, []).append(first + at)
                start = counts[at - 1]
    return {block: sorted({*positions}) for block, positions in finer.items()}
