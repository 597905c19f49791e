"""From a schedule to a plan: the passes of programs, within the limits of a plan, and a translation."""

from __future__ import annotations

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.lowering import lower_within
from taccl.backend.lower.sizes import sizes_of
from taccl.backend.lower_plan.fits import check_plan_fits, checked_window, has_room
from taccl.backend.lower_plan.sharing import chunk_by_chunk, cuts_equally, share_out
from taccl.backend.lower_plan.translate import named, translate
from taccl.backend.plan import ExecutionPlan
from taccl.backend.target import LoweringOptions
from taccl.model.schedule import Schedule

#: Steps of a thread block take three operations or so of the 64 that there is room for.
_STEPS = 20
_LIMITS = RuntimeLimits(
    blocks=2**20,
    steps=_STEPS,
    channels=2**20,
    blocks_per_channel=2**20,
    waited_blocks=2**20,
    count=2**30,
    buffer_chunks=2**30,
    elements=2**30,
    ranks=2**20,
)


def lower_to_plan(
    schedule: Schedule,
    options: LoweringOptions,
    most_operations: int | None = None,
    pulls: bool = False,
    sums_at_once: bool = True,
    takes_turns: bool = False,
    lands_apart: bool = False,
) -> ExecutionPlan:
    """The plan that carries out a valid schedule.

    Ranks of one node, or of one NVLink domain of several, write into each other's memory; others go through
    ports. Instances are thread blocks
    that share each range; where that takes too many operations, each has its part of each chunk.

    Parameters
    ----------
    most_operations : of all ranks together; None: however many.
    pulls : whether ranks read what they add where others have it, inside of nodes; not of packets.
    sums_at_once : whether what is there as soon is added in one pass.
    takes_turns : whether what a rank sends through one port goes in the schedule's order; else at once.
    lands_apart : whether what would wait for the start of a peer's kernel behind a port is sent at once, to
        be copied from scratch to where it is wanted; not of packets, which wait for nobody.

    Raises
    ------
    ProgramLimitError : over a limit of the runtime, which the message names.
    CollectiveError : a collective that the runtime does not know, or calls that it cannot serve (in place).
    UnitError : no call that it could serve lies between the sizes requested.
    """
    problem = schedule.problem
    sizes = sizes_of(problem.collective, problem.size_bytes, options.min_bytes, options.max_bytes)

    def made(instances: int) -> ExecutionPlan:
        program = lower_within(
            schedule,
            _LIMITS,
            spelling=problem.collective.name,
            protocol=options.protocol,
            instances=instances,
            thread_blocks=options.thread_blocks,
            executor=None if pulls else options.executor,  # a sum that is pulled is where its message comes
            takes_turns=takes_turns,
            min_bytes=sizes.min_bytes,
            max_bytes=sizes.max_bytes,
            name=options.name,
        )
        return translate(
            program,
            problem.topology.memory_of.tolist(),
            in_place=options.in_place,
            packets=options.protocol == "LL",
            pulls=pulls,
            sums_at_once=sums_at_once,
            lands_apart=lands_apart,
        )

    most_blocks = None if options.executor is None else options.executor.thread_blocks
    chunks = problem.collective.chunks_per_rank
    plan = alone = made(1)
    equivalent = plan if options.instances == 1 or cuts_equally(plan) else chunk_by_chunk(plan)
    if options.instances == 1 or has_room(equivalent):
        check_plan_fits(equivalent, most_operations, most_blocks, alone, chunks, options.instances)
        plan = equivalent if options.instances == 1 else share_out(equivalent, options.instances)
    else:
        plan = made(options.instances)
        check_plan_fits(plan, most_operations, most_blocks, alone, chunks)
    plan = plan if options.instances == 1 else named(plan, options.name)
    return checked_window(plan, problem.size_bytes)
