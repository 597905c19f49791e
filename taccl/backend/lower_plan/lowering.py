"""From a schedule, or a two-sided program, to a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from taccl.backend.lower.assemble import assemble
from taccl.backend.lower.sizes import sizes_of
from taccl.backend.lower.to_actions import plan_actions
from taccl.backend.lower.unequal import EqualChunks, starts_of
from taccl.backend.lower_plan.by_groups import GROUPED, GroupCut, group_plans, groups_of, shapes_of
from taccl.backend.lower_plan.by_members import by_members
from taccl.backend.lower_plan.fits import check_plan_fits, checked_window, has_room
from taccl.backend.lower_plan.gathering import pull
from taccl.backend.lower_plan.graph import WRITING, Graph
from taccl.backend.lower_plan.places import aliases
from taccl.backend.lower_plan.plans import (
    CUSTOM,
    PUSHING,
    USUALLY_IN_PLACE,
    Pass,
    PlanUse,
    make_plan,
    named,
    plan_of_ranks,
    spelling,
    used_scratch,
)
from taccl.backend.lower_plan.read import graph_of_actions, graph_of_program
from taccl.backend.lower_plan.sharing import cuts_equally, share_out
from taccl.backend.lower_plan.sums import add_at_once
from taccl.backend.lower_plan.switches import switches_of, use_switches
from taccl.backend.lower_plan.tuning import FILLED
from taccl.backend.plan import NO_LARGEST, ExecutionPlan
from taccl.backend.program import Buffer, Program
from taccl.backend.target import LoweringOptions
from taccl.errors import CollectiveError, ProgramLimitError, UnitError
from taccl.model.schedule import Schedule


class PlanLowering:
    """Plans of one schedule, by the passes that its actions go through; the actions are made once.

    Ranks of one node, or of one NVLink domain of several, write into each other's memory; others go through
    ports. Instances are thread blocks that share each range; where ranges overlap in part, or that takes too
    many operations, each has its part of each chunk.
    """

    def __init__(
        self, schedule: Schedule, options: LoweringOptions, most_operations: int | None = None
    ) -> None:
        """`most_operations` : of all ranks together; None: however many.

        Helpers of the schedule's machine are faces of switches; see `by_members.check_helpers`.

        Raises
        ------
        CollectiveError : unequal chunks that are no whole number of bytes.
        UnitError : no call that it could serve lies between the sizes requested.
        """
        topology = schedule.problem.topology
        switches = switches_of(topology)
        self._groups = groups_of(topology, switches)
        #: limits that plans by groups were over, as far as any were tried
        self.limits_of_groups: list[str] = []
        schedule = by_members(schedule)
        #: for plans whose switches do what they can; of a machine without any, there are none
        self.switching = (partial(use_switches, switches=switches), pull, add_at_once) if switches else ()
        self.equal = equal = EqualChunks.of(schedule.problem)
        sizes = sizes_of(equal.collective, equal.size_bytes, options.min_bytes, options.max_bytes)
        self.schedule, self.most_operations = schedule, most_operations
        self.options = replace(options, min_bytes=sizes.min_bytes, max_bytes=sizes.max_bytes)
        self._graphs: dict[tuple[int, bool], tuple[Graph, PlanUse]] = {}

    def plan(self, passes: Sequence[Pass] = PUSHING) -> ExecutionPlan:
        """The plan that carries out the schedule.

        Raises
        ------
        ProgramLimitError : over a limit of the runtime, which the message names.
        CollectiveError : a collective that the runtime does not know, or calls that it cannot serve.
        UnitError : the runtime does not serve calls of that size.
        """
        options, size_bytes = self.options, self.equal.size_bytes
        most_blocks = None if options.executor is None else options.executor.thread_blocks
        chunks = self.schedule.problem.collective.chunks_per_rank
        alone = self._made(1, passes)
        if options.instances == 1:
            check_plan_fits(alone, self.most_operations, most_blocks, alone, chunks)
            return checked_window(alone, size_bytes)
        if cuts_equally(alone) and has_room(alone):
            check_plan_fits(alone, self.most_operations, most_blocks, alone, chunks, options.instances)
            plan = share_out(alone, options.instances)
        else:
            plan = self._made(options.instances, passes)
            check_plan_fits(plan, self.most_operations, most_blocks, alone, chunks)
        plan = named(plan, options.name)
        return checked_window(plan, size_bytes)

    def by_groups(self) -> Iterator[Iterator[ExecutionPlan]]:
        """Plans of the collective through switches of all ranks, not of the schedule: by way, in more pieces.

        None where there are no such switches, for other collectives, unequal chunks and packets, nor any that
        the runtime has no room for, or that does not serve the size.
        """
        problem, options = self.schedule.problem, self.options
        name = spelling(problem.collective.name)
        if not self._groups or name not in GROUPED or problem.sizes is not None or options.protocol == "LL":
            return
        in_place = name in USUALLY_IN_PLACE if options.in_place is None else options.in_place
        for shapes in shapes_of(name, self._groups, in_place):
            yield self._those_that_fit(shapes)

    def _those_that_fit(self, shapes: Iterable[GroupCut]) -> Iterator[ExecutionPlan]:
        for shape in shapes:
            try:
                with suppress(UnitError):
                    yield self._grouped(shape)
            except ProgramLimitError as too_large:
                self.limits_of_groups += too_large.findings

    def _grouped(self, shape: GroupCut) -> ExecutionPlan:
        options, ranks, nodes = self.options, shape.ranks, self.schedule.problem.topology.memory_of.tolist()
        sizes = options.min_bytes or 0, options.max_bytes or NO_LARGEST
        chunks = ranks * shape.chunks_per_rank
        call = PlanUse(shape.collective, ranks, chunks, shape.in_place, *sizes, options.name)
        made = group_plans(shape, nodes)
        scratch = max(used_scratch(made))  # of one size everywhere, as what a switch channel spans
        alone = plan_of_ranks([replace(rank, scratch_chunks=scratch) for rank in made], call)
        most_blocks = None if options.executor is None else options.executor.thread_blocks
        check_plan_fits(alone, self.most_operations, most_blocks, parts=options.instances)
        plan = named(share_out(alone, options.instances), options.name) if options.instances > 1 else alone
        return checked_window(plan, self.equal.size_bytes)

    def _made(self, instances: int, passes: Sequence[Pass]) -> ExecutionPlan:
        # A sum that is pulled is where its message comes, whatever sums cost.
        key = instances, pull in passes
        if key not in self._graphs:
            self._graphs[key] = self._graph(*key)
        return make_plan(*self._graphs[key], passes)

    def _graph(self, instances: int, pulls: bool) -> tuple[Graph, PlanUse]:
        options = replace(self.options, executor=None) if pulls else self.options
        problem = self.schedule.problem
        name = CUSTOM if problem.sizes is not None else spelling(problem.collective.name)

        def calls(works_in_place: bool) -> Sequence[bool]:
            usual = works_in_place and name in USUALLY_IN_PLACE
            in_place = usual if options.in_place is None else options.in_place
            if in_place and not (works_in_place and problem.sizes is None):
                raise _serves_none(in_place)
            return (in_place,)

        packets = options.protocol == "LL"  # they are added as they are read, by whoever waits for them
        actions = plan_actions(self.schedule, replace(options, instances=instances), gathers=not packets)
        made = assemble(replace(actions, takes_turns=False), FILLED, calls)
        (in_place,), sizes = made.calls, actions.sizes
        equal = EqualChunks.of(actions.flow.schedule.problem)
        call = PlanUse(
            name,
            problem.num_ranks,
            sizes.chunks_per_loop if equal.elements is None else equal.collective.chunks_per_size,
            in_place,
            sizes.min_bytes,
            sizes.max_bytes,
            options.name,
        )
        names = aliases(name, call.ranks, call.part, call.in_place)
        nodes = problem.topology.memory_of.tolist()
        starts = None if equal.elements is None else partial(starts_of, actions.flow, equal.elements)
        return graph_of_actions(made.ranks, names, nodes, packets, starts), call


def lower_to_plan(
    schedule: Schedule,
    options: LoweringOptions,
    most_operations: int | None = None,
    passes: Sequence[Pass] = PUSHING,
) -> ExecutionPlan:
    """`PlanLowering.plan`, of one plan."""
    return PlanLowering(schedule, options, most_operations).plan(passes)


def translate(
    program: Program,
    node_of: Sequence[int] | None = None,
    *,
    in_place: bool | None = None,
    packets: bool = False,
    passes: Sequence[Pass] = PUSHING,
) -> ExecutionPlan:
    """The plan that moves and adds up what a program does.

    Parameters
    ----------
    program : one that passed verification.
    node_of : by rank, the node that it is in; None: all are in one.
    in_place : which calls it is for; a plan is never for both. None: those that the program can serve, and
        where it can serve both, those that are usual: AllReduce and Broadcast in place, others not.
    packets : whether messages are packets (protocol LL); the program's steps must not be fused.

    Raises
    ------
    CollectiveError : MSCCL++ has no such collective, or the program cannot serve such calls.
    VerificationError : not a program that any runtime executes.
    ProgramLimitError : more steps than can be looked through.
    """
    name = spelling(program.collective)
    call = PlanUse(
        name,
        program.num_ranks,
        program.chunks_per_loop,
        _in_place(program, name, in_place),
        program.min_bytes,
        program.max_bytes,
        program.name,
    )
    names = aliases(name, call.ranks, call.part, call.in_place)
    nodes = (0,) * call.ranks if node_of is None else node_of
    return make_plan(graph_of_program(program, names, nodes, packets), call, passes)


def _in_place(program: Program, name: str, requested: bool | None) -> bool:
    """Which calls the plan is for. Out of place, a plan leaves the input alone; a program need not."""
    apart = program.out_of_place and not _writes_input(program)
    if requested is None and (apart or program.in_place):
        return program.in_place and (name in USUALLY_IN_PLACE or not apart)
    if (requested and program.in_place) or (requested is False and apart):
        return bool(requested)
    if requested is not True and program.out_of_place:
        raise CollectiveError(
            "the program writes into the input of calls out of place, which a plan must leave alone",
            hint="a plan for calls in place, if the program can serve them",
        )
    raise _serves_none(bool(requested))


def _serves_none(in_place: bool) -> CollectiveError:
    way = "in place" if in_place else "out of place"
    return CollectiveError(f"the program serves no calls {way}", hint="a plan for the other calls")


def _writes_input(program: Program) -> bool:
    return any(
        step.dst is Buffer.INPUT and step.op in WRITING
        for rank in program.ranks
        for block in rank.thread_blocks
        for step in block.steps
    )
