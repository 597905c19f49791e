"""The target whose files are MSCCL++ plans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from taccl.backend.lower.carried import FEATURES, REASONS
from taccl.backend.lower_plan import PlanLowering
from taccl.backend.lower_plan.by_members import check_helpers
from taccl.backend.lower_plan.fits import check_problem_fits, unit_of
from taccl.backend.lower_plan.gathering import pull
from taccl.backend.lower_plan.plans import PUSHING, Pass, land_apart, spelling
from taccl.backend.lower_plan.sums import add_at_once
from taccl.backend.lower_plan.tuning import UNIT_BYTES
from taccl.backend.lower_plan.turns import take_turns
from taccl.backend.machine.report import Verification
from taccl.backend.machine.unequal import Requested, in_equal_chunks
from taccl.backend.mscclpp.commands import executor_test
from taccl.backend.mscclpp.reader import PlanDocument, parse_plan, parse_plan_document
from taccl.backend.mscclpp.writer import to_json
from taccl.backend.one_sided import OneSided
from taccl.backend.plan import ExecutionPlan
from taccl.backend.simulate import simulate_plan
from taccl.backend.target import Lowered, LoweringOptions, Target, TargetLimits
from taccl.backend.verify.mscclpp import verify_plan_document
from taccl.backend.verify.mscclpp.behaviour import CALLS, MOST_ACCESSES, MOST_ACTS
from taccl.backend.verify.mscclpp.versions import NEWEST
from taccl.errors import CollectiveError, ProgramLimitError
from taccl.model import units
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, begins_as_schedule
from taccl.support.gc_paused import gc_paused

#: A plan has at least one of these keys, as its reader wants it.
_KEYS = (b'"gpus"', b'"collective"')
#: This many times as long as its schedule, and a plan is made in another way, too: less is alphas at its
#: ends.
_MUCH_SLOWER = 1.005
#: Schedules of more transfers are no plans where one by groups is as fast as the schedule is.
_LONG = 4_000
#: How far predictions of plans are off nobody has measured: of these, so little is taken for a tie.
_TIE = 0.005
_PULLING = (pull, add_at_once)
_IN_TURNS = (take_turns, add_at_once)


def begins_as_plan(content: bytes) -> bool:
    """Whether a file is a JSON object with keys of a plan, and no saved schedule; well formed or not."""
    is_object = content[:64].removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
    return is_object and any(key in content for key in _KEYS) and not begins_as_schedule(content)


def _readers_of(collective: str) -> Sequence[tuple[str, ...]]:
    spelling(collective)
    return [(NEWEST.name,)]


def _refuse(problem: Problem, options: LoweringOptions) -> None:
    check_helpers(problem.topology)
    if options.in_place and problem.collective.name == "alltoall":
        raise CollectiveError(
            "no plan does an alltoall in place: what a rank sends would lie where it receives",
            hint="--out-of-place",
        )
    if options.in_place and problem.sizes is not None:
        raise CollectiveError(
            "no plan of unequal chunks is in place: what a rank sends would lie elsewhere than what it gets",
            hint="--out-of-place",
        )
    check_problem_fits(
        problem, options.instances, options.min_bytes, options.max_bytes, MOST_ACCESSES // (2 * CALLS)
    )


@gc_paused()
def _lower(schedule: Schedule, options: LoweringOptions) -> Sequence[Lowered[ExecutionPlan]]:
    lowering = PlanLowering(schedule, options, MOST_ACTS)
    network, by_groups = options.network, _by_groups(lowering, options)
    if by_groups is not None and (network is None or len(schedule) > _LONG):
        # A plan of a schedule is seldom faster than that, and of a long one takes minutes to make.
        launch_us = 0.0
        if network is not None and network.executor is not None:
            launch_us = network.executor.costs_of(options.protocol).launch_us
        if by_groups[0] <= launch_us + schedule.makespan_us:
            return [_lowered(by_groups[1], lowering, None)]
    try:
        plan = _first(lowering, options)
    except ProgramLimitError as too_large:
        if by_groups is None:
            too_large.findings += tuple(f"by switches: {finding}" for finding in lowering.limits_of_groups)
            raise
        return [_lowered(by_groups[1], lowering, None)]
    if network is not None:
        timed = _timed(plan, lowering, options, network)
        best = min(timed, key=lambda each: each[0])
        if by_groups is not None and by_groups[0] < best[0]:
            return [_lowered(by_groups[1], lowering, None)]
        plan = best[1]
    return [_lowered(plan, lowering, schedule)]


def _lowered(
    plan: ExecutionPlan, lowering: PlanLowering, schedule: Schedule | None
) -> Lowered[ExecutionPlan]:
    """A plan of this schedule; None: of its collective, by groups."""
    equal, collective = lowering.equal, None
    if schedule is None:
        ranks = plan.num_ranks
        collective = make_collective(plan.collective, ranks, plan.message_chunks // ranks)
    elif equal.elements is not None or schedule.problem.topology.num_helpers:
        collective = equal.collective
    return Lowered(plan, (NEWEST.name,), collective, equal.size_bytes)


def _by_groups(lowering: PlanLowering, options: LoweringOptions) -> tuple[float, ExecutionPlan] | None:
    """The fastest plan through switches of all ranks, in more pieces as long as that helps, and its time.

    Where nobody says how fast the machine is, the first one, which takes no time.
    """
    best: tuple[float, ExecutionPlan] | None = None
    for finer in lowering.by_groups():
        before_us = math.inf
        for plan in finer:
            if options.network is None:
                return 0.0, plan
            time_us = _time_us(plan, lowering, options.network)
            if best is None or time_us < best[0]:
                best = time_us, plan
            if time_us >= before_us:
                break
            before_us = time_us
    return best


def _time_us(
    plan: ExecutionPlan, lowering: PlanLowering, network: LogicalTopology, copy_us_per_mb: float = 0.0
) -> float:
    chunk_mb = lowering.equal.size_bytes / units.MB / plan.message_chunks
    return simulate_plan(plan, network, chunk_mb, copy_us_per_mb=copy_us_per_mb).time_us


def _first(lowering: PlanLowering, options: LoweringOptions) -> ExecutionPlan:
    """A plan that pushes; where that is too large, one that pulls, which takes fewer thread blocks.

    Where nobody says how fast the machine is, one through its switches, if there are any.
    """
    if options.network is None:
        for switched in _switched(lowering, options):
            return switched
    try:
        return lowering.plan(PUSHING)
    except ProgramLimitError as too_large:
        network = options.network
        if network is None or network.executor is None or options.protocol == "LL":
            raise
        try:
            return lowering.plan(_PULLING)
        except ProgramLimitError:
            raise too_large from None


def _timed(
    plan: ExecutionPlan, lowering: PlanLowering, options: LoweringOptions, network: LogicalTopology
) -> Iterator[tuple[float, ExecutionPlan]]:
    """A plan and others of its schedule that may be faster, each with its time; of equals the first is best.

    What is pulled takes no pass over what has landed, but is not sent while others are added up. Sends that
    take turns at a rank's ports come in the schedule's order, but go when others are done, and not next to
    them; they can bring back what a plan lost against its schedule. So can messages that wait for no peer's
    start, but are copied.

    All are made and timed, since over 128 rows as in docs/results/mscclpp.md none is always best: what is
    pulled takes 17% less (ReduceScatter) to 50% more (AllReduce), turns take 18% less to 5% more (AlltoAll).
    """
    schedule = lowering.schedule

    def timed(made: ExecutionPlan, copy_us_per_mb: float = 0.0) -> tuple[float, ExecutionPlan]:
        return _time_us(made, lowering, network, copy_us_per_mb), made

    best = timed(plan)
    yield best
    yield from map(timed, _switched(lowering, options))
    if plan.moves_packets:
        return
    launch_us = 0.0
    if network.executor is not None:
        launch_us = network.executor.costs_of(options.protocol).launch_us
        is_sum = schedule.problem.collective.is_reduction  # nothing else is pulled
        pulling = _fitting(lowering, _PULLING) if is_sum else ()  # its blocks may name too many peers' memory
        yield from (timed(other) for other in pulling if other.ranks != plan.ranks)
    at_least_us = _MUCH_SLOWER * (launch_us + schedule.makespan_us)
    passes = PUSHING
    for in_turns in map(timed, _fitting(lowering, _IN_TURNS) if best[0] > at_least_us else ()):
        yield in_turns
        if in_turns[0] < best[0]:
            best, passes = in_turns, _IN_TURNS
    if best[0] > at_least_us and best[0] - float(network.alpha_us.max()) < best[0] / _MUCH_SLOWER:
        copy_us_per_mb = _copy_us_per_mb(network)
        for apart in _fitting(lowering, (*passes, land_apart)):
            if timed(apart, copy_us_per_mb)[0] < timed(best[1], copy_us_per_mb)[0]:
                yield timed(apart)


def _fitting(lowering: PlanLowering, passes: Sequence[Pass]) -> Iterator[ExecutionPlan]:
    """The plan by these passes, if there is room for it."""
    with suppress(ProgramLimitError):
        yield lowering.plan(passes)


def _switched(lowering: PlanLowering, options: LoweringOptions) -> Iterator[ExecutionPlan]:
    """The plan whose switches do what they can, if they can do anything; they know no packets here."""
    if lowering.switching and options.protocol != "LL":
        yield from (plan for plan in _fitting(lowering, lowering.switching) if plan.uses_switches)


def _copy_us_per_mb(network: LogicalTopology) -> float:
    """What a copy is taken for where the machine does not say: it goes as fast as over its fastest link.

    Only where plans with and without a copy are compared: else copies that cost nothing would be made of any
    size.
    """
    return min(network.beta_us_per_mb.tolist(), default=0.0)


def _verify(
    document: PlanDocument,
    /,
    *,
    readers: Sequence[str] | None,
    collective: Requested | None,
    root: int | None,
) -> Verification:
    return verify_plan_document(document, targets=readers, collective=in_equal_chunks(collective), root=root)


def _takes(plan: ExecutionPlan, size_bytes: int) -> bool:
    return plan.min_bytes <= size_bytes <= plan.max_bytes and size_bytes % unit_of(plan) == 0


def _use(plan: ExecutionPlan, readers: tuple[str, ...], path: Path | None) -> list[str]:
    """Which calls are served, and how mscclpp's own test runs it."""
    sizes = f"{units.format_size(plan.min_bytes)} to {units.format_size(plan.max_bytes)}"
    unit = UNIT_BYTES * plan.message_chunks
    way = "in place" if plan.in_place else "out of place"
    lines = [f"serves calls of {sizes}, multiples of {unit} bytes, {way}"]
    command = None if path is None else executor_test(plan, path.resolve(), plan.max_bytes)
    return lines if command is None else [*lines, f"mscclpp: {command}"]


TARGETS: tuple[Target[ExecutionPlan, PlanDocument], ...] = (
    Target(
        name="mscclpp",
        title="plans for microsoft/mscclpp v0.10 (JSON)",
        format="json",
        runtimes=(NEWEST.name,),
        limits=TargetLimits(instances=64, chunk_bytes=UNIT_BYTES, fewer_chunks_fit=True),
        lower=_lower,
        write=to_json,
        features=FEATURES | {"helpers"},
        reasons={feature: why for feature, why in REASONS.items() if feature != "helpers"},
        read=parse_plan_document,
        verify=_verify,
        protocols=("Simple", "LL"),
        one_way_to_call=True,
        readers_of=_readers_of,
        refuse=_refuse,
        use=_use,
        takes=_takes,
        knows=begins_as_plan,
        parse=parse_plan,
        unfold=OneSided.of,
        wire={"LL": 2.0},
        predicted_by_links=True,
        is_one_sided=True,
        executed_by="mscclpp",
        prediction_error=_TIE,
    ),
)
