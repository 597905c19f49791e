"""From a schedule to a plan: the passes of programs, within the limits of a plan, and a translation.

It knows schedules and the numbers that a plan may not exceed; what right plans are it must not know.
"""

from __future__ import annotations

from taccl.backend.limits import RuntimeLimits
from taccl.backend.lower.lowering import lower_within
from taccl.backend.lower.sizes import sizes_of
from taccl.backend.lower_plan.fits import check_plan_fits, checked_window
from taccl.backend.lower_plan.translate import translate
from taccl.backend.plan import ExecutionPlan
from taccl.backend.target import LoweringOptions
from taccl.schedule import Schedule

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


def lower_to_plan(schedule: Schedule, options: LoweringOptions) -> ExecutionPlan:
    """The plan that carries out a valid schedule.

    Ranks of one node write into each other's memory, others go through ports.

    Raises
    ------
    ProgramLimitError : over a limit of the runtime, which the message names.
    CollectiveError : a collective that the runtime does not know.
    UnitError : no call that it could serve lies between the sizes asked for.
    """
    problem = schedule.problem
    sizes = sizes_of(problem.collective, problem.size_bytes, options.min_bytes, options.max_bytes)
    program = lower_within(
        schedule,
        _LIMITS,
        spelling=problem.collective.name,
        protocol=options.protocol,
        instances=options.instances,
        thread_blocks=options.thread_blocks,
        executor=options.executor,
        min_bytes=sizes.min_bytes,
        max_bytes=sizes.max_bytes,
        name=options.name,
    )
    plan = translate(program, problem.topology.node_of.tolist(), packets=options.protocol == "LL")
    check_plan_fits(plan)
    return checked_window(plan, problem.size_bytes)
