"""From a schedule to programs: the passes, in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from taccl.backend.limits import RuntimeLimits, check_limits, limits_of
from taccl.backend.lower.actions import scratch_map
from taccl.backend.lower.additions import plan_additions
from taccl.backend.lower.assemble import Assembled, Assembly, Calls, assemble
from taccl.backend.lower.carried import FEATURES, REASONS
from taccl.backend.lower.dialects import FUSING_RUNTIMES, dialects, runtimes_named
from taccl.backend.lower.flow import read_flow
from taccl.backend.lower.instances import cut_into_instances
from taccl.backend.lower.layout import chunk_orders, lay_out
from taccl.backend.lower.least import check_sends_fit
from taccl.backend.lower.local_work import LocalWork, gathered_cells, with_gathered
from taccl.backend.lower.made_sums import Cell
from taccl.backend.lower.number import number_steps
from taccl.backend.lower.order import order_events
from taccl.backend.lower.sizes import Sizes, sizes_of
from taccl.backend.program import Program, Protocol
from taccl.backend.target import THREAD_BLOCKS, Lowered, LoweringOptions, ThreadBlocks, refuse_features
from taccl.errors import CollectiveError, ProgramLimitError, TacclError
from taccl.model.collective import IntArray
from taccl.model.executor import Executor
from taccl.model.schedule import Schedule
from taccl.model.units import MB
from taccl.support.arguments import word
from taccl.support.gc_paused import gc_paused


@gc_paused()
def lower(
    schedule: Schedule,
    *,
    protocol: Protocol = Protocol.SIMPLE,
    runtimes: str | Iterable[str] = "all",
    instances: int = 1,
    thread_blocks: ThreadBlocks = "two-way",
    executor: Executor | None = None,
    min_bytes: int | None = None,
    max_bytes: int | None = None,
    name: str = "taccl",
) -> tuple[Lowered[Program], ...]:
    """The programs that carry out a valid schedule, each for the runtimes that it names.

    Usually one; for `all` runtimes, ReduceScatter takes two, since the runtimes spell it differently.

    Parameters
    ----------
    schedule : one that `check` accepts.
    runtimes : `all` makes one program that every runtime that knows the collective can run; naming one
        makes a program for its limits, with fused steps where all that are named take them.
    instances : into how many parts each chunk is cut, each sent by thread blocks of its own.
    thread_blocks : `two-way` blocks receive and send where that delays nothing; of `one-way` blocks each
        does one of the two, so no step is fused with the send of what it received.
    executor : what executing costs on the machine, so that local copies and sums get thread blocks of their
        own as far as the limits allow it; None: not known, and they run next to what they follow.
    min_bytes, max_bytes : sizes of the calls that it may serve, by default half and twice the size
        that the schedule was made for.

    Raises
    ------
    ProgramLimitError : over a limit of a runtime, which the message names.
    CollectiveError : a collective that the runtimes do not know, fewer than one instance, or a problem with
        helpers, unequal chunks or inputs that come late.
    UnitError : no size lies from `min_bytes` to `max_bytes`.
    """
    word(thread_blocks, "thread_blocks", THREAD_BLOCKS, TacclError)
    if instances < 1:
        raise CollectiveError(f"a program has at least one instance, not {instances}")
    hint = "taccl show tells of the schedule itself"
    refuse_features("MSCCL-XML", schedule.problem, FEATURES, REASONS, hint)
    collective = schedule.problem.collective
    files = dialects(collective.name, runtimes)
    check_sends_fit(schedule, runtimes_named(runtimes), instances)
    fused = FUSING_RUNTIMES.issuperset(runtimes_named(runtimes))
    cut, instance = cut_into_instances(schedule, instances)
    sizes = sizes_of(cut.problem.collective, schedule.problem.size_bytes, min_bytes, max_bytes)
    one_way = thread_blocks == "one-way"
    plans = [_plan(cut, instance, fused, one_way)]
    if executor is not None:
        local = LocalWork(
            executor, protocol.value, cut.problem.chunk_mb * MB, schedule.makespan_us, instances
        )
        plans.insert(0, _plan(cut, instance, fused, one_way, local))
    programs = (
        _within_limits(
            [
                replace(plan, early_flags=protocol is Protocol.LL and "rccl" in dialect.readers)
                for plan in plans
            ],
            sizes,
            dialect.readers,
            Program(
                name=name,
                collective=dialect.spelling,
                num_ranks=collective.num_ranks,
                num_channels=0,
                chunks_per_loop=sizes.chunks_per_loop,
                protocol=protocol,
                in_place=False,
                out_of_place=True,
                min_bytes=sizes.min_bytes,
                max_bytes=sizes.max_bytes,
                ranks=(),
            ),
        )
        for dialect in files
    )
    return tuple(Lowered(program, dialect.readers) for program, dialect in zip(programs, files, strict=True))


@dataclass(frozen=True, eq=False)
class InBlocks:
    """What carries out a valid schedule, in thread blocks of one peer, for any kind of file.

    Parameters
    ----------
    assembled : the actions of all ranks, and whether they are for calls in place.
    sizes : of the schedule's collective, cut into instances.
    """

    assembled: Assembled
    sizes: Sizes


def lower_to_blocks(
    schedule: Schedule, options: LoweringOptions, limits: RuntimeLimits, calls: Calls, instances: int
) -> InBlocks:
    """The actions of a valid schedule.

    Parameters
    ----------
    options : of those, the thread blocks, the executor and its protocol, and the sizes of calls.
    limits : within which thread blocks are filled; whether there are too many of them is not looked at.
    calls : which of the calls that are possible they are for.

    Raises
    ------
    ProgramLimitError : there are not enough channels.
    CollectiveError, UnitError : as `lower`.
    """
    cut, instance = cut_into_instances(schedule, instances)
    sizes = sizes_of(
        cut.problem.collective, schedule.problem.size_bytes, options.min_bytes, options.max_bytes
    )
    local = None
    if options.executor is not None:
        chunk_bytes = cut.problem.chunk_mb * MB
        local = LocalWork(options.executor, options.protocol, chunk_bytes, schedule.makespan_us, instances)
    plan = _plan(cut, instance, False, options.thread_blocks == "one-way", local)
    return InBlocks(assemble(replace(plan, takes_turns=False), limits, calls), sizes)


def _within_limits(
    plans: Sequence[Assembly], sizes: Sizes, readers: Sequence[str], header: Program
) -> Program:
    """The program under a header, by the first plan that is not too much for the runtimes.

    Without turns at ports, if with them the last plan is too much.
    """
    plan, *others = plans
    try:
        made = assemble(plan, limits_of(readers), _both_if_it_can)
        scratch = [scratch_map(rank.actions) for rank in made.ranks]
        ranks = tuple(number_steps(number, rank, scratch, sizes) for number, rank in enumerate(made.ranks))
        channels = 1 + max(block.channel for rank in ranks for block in rank.thread_blocks)
        program = replace(header, ranks=ranks, in_place=True in made.calls, num_channels=channels)
        check_limits(program, readers)
    except ProgramLimitError as fault:
        if others:
            return _within_limits(others, sizes, readers, header)
        if not plan.takes_turns:
            if plan.one_way:
                fault.hint = f"two-way thread blocks take fewer of them; else {fault.hint}"
            raise
        return _within_limits([replace(plan, takes_turns=False)], sizes, readers, header)
    return program


def _both_if_it_can(works_in_place: bool) -> Sequence[bool]:
    """A file serves calls apart, and in place where it can.

    An AlltoAll is never said to: microsoft/msccl refuses such calls, and would not use the file for others.
    """
    return (False, True) if works_in_place else (False,)


def _plan(
    schedule: Schedule, instance: IntArray, fused: bool, one_way: bool, local: LocalWork | None = None
) -> Assembly:
    """Order and layout, with the order of chunks in groups that needs the fewest copies."""
    orders = chunk_orders(schedule.problem.collective)
    if schedule.sends.count.max(initial=1) == 1:
        orders = orders[:1]
    plans = []
    for position in orders:
        flow = read_flow(schedule, instance, position)
        events = order_events(flow)
        # Fused steps add on receipt, which costs them nothing.
        gathered = gathered_cells(flow, local) if local is not None and not fused else frozenset[Cell]()
        flow = with_gathered(flow, gathered)
        adding = plan_additions(flow, events, fused, gathered)
        layouts = lay_out(flow, events, adding, fused, gathered)
        plans.append(Assembly(flow, events, adding, layouts, fused, one_way, local, gathered))
    return min(plans, key=lambda plan: sum(layout.cost for layout in plan.layouts))
