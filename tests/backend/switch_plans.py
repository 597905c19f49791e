"""Plans whose switch sums and copies (NVLS): by hand, and made of schedules."""

from __future__ import annotations

from dataclasses import replace

from plan_examples import Lines, multicast_allgather, multicast_allreduce, plan, rank
from switched import nvls_allgather, nvls_allreduce, nvls_allreduce_of_nodes

from taccl.backend.lower_plan import PlanLowering
from taccl.backend.lower_plan.by_groups import GroupCut, group_plans
from taccl.backend.lower_plan.plans import PlanUse, plan_of_ranks, used_scratch
from taccl.backend.plan import ExecutionPlan
from taccl.backend.target import LoweringOptions
from taccl.model.schedule import Schedule

_START = "rlxsignal m0,1\nrlxwait m0,1\nnop\n"
_END = "nop\nsignal m0,1\nwait m0,1\n"


def one_shot_allreduce() -> ExecutionPlan:
    """Rank 0 of three sums everything for all, when the others have begun."""
    blocks = ["rlxwait m0,1\nnop\nglres w W0:0+3 > W0:0+3\nnop\nsignal m0,1", *["rlxsignal m0\nwait m0"] * 2]
    return plan(
        "allreduce",
        [
            rank(
                r,
                (3, 3, 0),
                [Lines(text, (0, 1) if r == 0 else (0,), (), (0,))],
                memory=(1, 2) if r == 0 else (0,),
                switch=("o", (0, 1, 2)),
            )
            for r, text in enumerate(blocks)
        ],
        in_place=True,
    )


def two_shot_allreduce() -> ExecutionPlan:
    """Each of three ranks sums its part for all, in two chunks."""
    return plan(
        "allreduce",
        [
            rank(
                r,
                (6, 6, 0),
                [
                    Lines(
                        _START + "".join(f"glres w W0:{k} > W0:{k}\n" for k in (2 * r, 2 * r + 1)) + _END,
                        (0, 1),
                        (),
                        (0,),
                    )
                ],
                memory=tuple(other for other in range(3) if other != r),
                switch=("i", (0, 1, 2)),
            )
            for r in range(3)
        ],
        in_place=True,
    )


def shared_allreduce() -> ExecutionPlan:
    """The same by two thread blocks, of which one speaks to peers, and both meet."""
    return plan(
        "allreduce",
        [
            rank(
                r,
                (3, 3, 0),
                [
                    Lines(
                        "rlxsignal m0,1\nrlxwait m0,1\nbarrier bar=0/2\n"
                        f"glres w W0:{r} > W0:{r} share=0/2\nbarrier bar=1/2\nsignal m0,1\nwait m0,1",
                        (0, 1),
                        (),
                        (0,),
                    ),
                    Lines(
                        f"barrier bar=0/2\nglres w W0:{r} > W0:{r} share=1/2\nbarrier bar=1/2", (), (), (0,)
                    ),
                ],
                memory=tuple(other for other in range(3) if other != r),
                switch=("o", (0, 1, 2)),
            )
            for r in range(3)
        ],
        in_place=True,
    )


def multicast_packets() -> ExecutionPlan:
    """Two ranks make packets of their part, and the switch copies them into the scratch of both."""
    return plan(
        "allgather",
        [
            rank(
                r,
                (1, 2, 3),
                [
                    Lines(
                        f"cpkt i0 > s0\ngstorepkt w s0 > W0:{1 + r}\nupkt s1 > o0\nupkt s2 > o1", (), (), (0,)
                    )
                ],
                switch=("s", (0, 1)),
            )
            for r in range(2)
        ],
        protocol="LL",
        double_scratch=True,
    )


def _through_switches(schedule: Schedule, **options: object) -> ExecutionPlan:
    lowering = PlanLowering(schedule, LoweringOptions(**options))
    return lowering.plan(lowering.switching)


def by_groups(
    collective: str,
    gpus: int,
    nodes: int = 1,
    pieces: int = 1,
    has_roots: bool = False,
    in_place: bool = False,
) -> ExecutionPlan:
    """A plan through the switches of nodes with these many GPUs each, whatever the schedule."""
    groups = tuple(tuple(range(node * gpus, (node + 1) * gpus)) for node in range(nodes))
    shape = GroupCut(collective, groups, pieces, has_roots, in_place)
    ranks = group_plans(shape, [node for node in range(nodes) for _ in range(gpus)])
    scratch = max(used_scratch(ranks))  # of one size everywhere, as what a switch channel spans
    call = PlanUse(
        collective, shape.ranks, shape.ranks * shape.chunks_per_rank, in_place, 0, 2**20, "grouped"
    )
    return plan_of_ranks([replace(rank, scratch_chunks=scratch) for rank in ranks], call)


def switch_plans() -> dict[str, ExecutionPlan]:
    """All of them, by name."""
    return {
        "multicast allgather": multicast_allgather(),
        "multicast allreduce": multicast_allreduce(),
        "multicast packets": multicast_packets(),
        "one-shot allreduce": one_shot_allreduce(),
        "two-shot allreduce": two_shot_allreduce(),
        "shared allreduce": shared_allreduce(),
        "taccl-switched allreduce": _through_switches(nvls_allreduce(3, chunk_mb=2**-14)),
        "taccl-switched allreduce, apart": _through_switches(
            nvls_allreduce(3, pieces=2, chunk_mb=2**-14), in_place=False, instances=2
        ),
        "taccl-switched allgather": _through_switches(nvls_allgather(3, chunk_mb=2**-14)),
        "taccl-switched nodes": _through_switches(nvls_allreduce_of_nodes(3, chunk_mb=2**-14)),
        "grouped allreduce": by_groups("allreduce", 2, 2, pieces=2, in_place=True),
        "grouped allreduce, rooted": by_groups("allreduce", 2, 3, has_roots=True),
        "grouped allgather": by_groups("allgather", 2, 2, in_place=True),
        "grouped reducescatter": by_groups("reducescatter", 3, 2),
    }
