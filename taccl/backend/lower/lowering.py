"""From a schedule to two-sided programs: its actions in thread blocks, within the limits of runtimes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from taccl.backend.limits import check_limits, limits_of
from taccl.backend.lower.actions import scratch_map
from taccl.backend.lower.assemble import Assembly, assemble
from taccl.backend.lower.carried import XML_FEATURES, XML_REASONS
from taccl.backend.lower.dialects import FUSING_RUNTIMES, dialects, runtimes_named
from taccl.backend.lower.least import check_sends_fit, check_size
from taccl.backend.lower.number import number_steps
from taccl.backend.lower.to_actions import plan_actions
from taccl.backend.program import Program, Protocol
from taccl.backend.target import THREAD_BLOCKS, Lowered, LoweringOptions, ThreadBlocks, refuse_features
from taccl.errors import CollectiveError, ProgramLimitError, TacclError
from taccl.model.executor import Executor
from taccl.model.schedule import Schedule
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
    refuse_features("MSCCL-XML", schedule.problem, XML_FEATURES, XML_REASONS, hint)
    collective = schedule.problem.collective
    files = dialects(collective.name, runtimes)
    check_sends_fit(schedule, runtimes_named(runtimes), instances)
    fused = FUSING_RUNTIMES.issuperset(runtimes_named(runtimes))
    options = LoweringOptions(
        protocol=protocol.value,
        instances=instances,
        thread_blocks=thread_blocks,
        executor=executor,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
    )
    plans = [plan_actions(schedule, replace(options, executor=None), fused)]
    if executor is not None:
        plans.insert(0, plan_actions(schedule, options, fused))
    sizes = plans[0].sizes
    programs = (
        _within_limits(
            [
                replace(plan, early_flags=protocol is Protocol.LL and "rccl" in dialect.readers)
                for plan in plans
            ],
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
    made = tuple(Lowered(program, dialect.readers) for program, dialect in zip(programs, files, strict=True))
    for lowered in made:
        check_size(lowered.program.ranks)
    return made


def _within_limits(plans: Sequence[Assembly], readers: Sequence[str], header: Program) -> Program:
    """The program under a header, by the first plan that is not too much for the runtimes.

    Without turns at ports, if with them the last plan is too much.
    """
    plan, *others = plans
    try:
        made = assemble(plan, limits_of(readers), _both_if_it_can)
        scratch = [scratch_map(rank.actions) for rank in made.ranks]
        ranks = tuple(
            number_steps(number, rank, scratch, plan.sizes) for number, rank in enumerate(made.ranks)
        )
        channels = 1 + max(block.channel for rank in ranks for block in rank.thread_blocks)
        program = replace(header, ranks=ranks, in_place=True in made.calls, num_channels=channels)
        check_limits(program, readers)
    except ProgramLimitError as fault:
        if others:
            return _within_limits(others, readers, header)
        if not plan.takes_turns:
            if plan.one_way:
                fault.hint = f"two-way thread blocks take fewer of them; else {fault.hint}"
            raise
        return _within_limits([replace(plan, takes_turns=False)], readers, header)
    return program


def _both_if_it_can(works_in_place: bool) -> Sequence[bool]:
    """A file serves calls apart, and in place where it can.

    An AlltoAll is never said to: microsoft/msccl refuses such calls, and would not use the file for others.
    """
    return (False, True) if works_in_place else (False,)
