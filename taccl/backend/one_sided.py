"""A one-sided plan, unfolded: how it is shown, simulated and run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from taccl.backend.execute.one_sided.run import execute_plan, run_plan
from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.requested import RunRequested
from taccl.backend.machine.one_call import OneCall
from taccl.backend.machine.report import Collector
from taccl.backend.plan import ExecutionPlan
from taccl.backend.show import Timeline, describe_plan, plan_timeline
from taccl.backend.simulate import PlanSimulation, moves_only_packets, simulate_plan
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.simulate.simulated import Simulated
from taccl.backend.unfolded import FactLines, Unfolded
from taccl.backend.verify.msccl_xml import Verification
from taccl.backend.verify.mscclpp import verify_plan
from taccl.backend.verify.mscclpp.one_call import call_of_plan
from taccl.backend.verify.mscclpp.verifier import check_structure
from taccl.errors import TacclError, VerificationError
from taccl.model.collective import Collective
from taccl.model.executor import ProtocolCosts, RuntimeName
from taccl.model.network import LogicalTopology

#: Errors that are written out.
_SHOWN = 10
_IN_SWITCH = (
    "no bound: the plan sums or copies in a switch, and nothing on this machine does that (helpers); "
    "its time is of the same bytes over links, so the plan may be faster"
)


def check_executable(plan: ExecutionPlan, look: Callable[[], None] = lambda: None) -> None:
    """Refuse a plan whose numbers mean nothing. `look` is called now and then, and may raise.

    Raises
    ------
    VerificationError : with what is wrong: a real runtime would touch memory that it must not, or crash.
    """
    collector = Collector()
    check_structure(plan, collector, look)
    if collector.fatal:
        errors = [str(finding) for finding in collector.findings() if finding.severity == "error"]
        more = [f"and {len(errors) - _SHOWN} more"] if len(errors) > _SHOWN else []
        raise VerificationError(
            "the plan cannot be executed", findings=[*errors[:_SHOWN], *more], hint="taccl verify tells more"
        )


@dataclass(frozen=True, eq=False)
class OneSided(Unfolded):
    """A plan whose thread blocks write into their peers' memory."""

    plan: ExecutionPlan

    @staticmethod
    def of(plan: ExecutionPlan) -> OneSided:
        """What a plan unfolds into."""
        return OneSided(
            collective=plan.collective,
            coll_key="collective",
            num_ranks=plan.num_ranks,
            chunks=plan.message_chunks,
            min_bytes=plan.min_bytes,
            max_bytes=plan.max_bytes,
            protocol="LL" if plan.moves_packets else "Simple",
            steps=plan.num_operations,
            most_blocks=max(len(rank.blocks) for rank in plan.ranks),
            plan=plan,
        )

    @property
    def executed_by(self) -> RuntimeName:
        """MSCCL++'s executor of plans."""
        return "mscclpp"

    @property
    def unbounded(self) -> str | None:
        """A switch may move more than links; on a machine with such a switch there is a bound."""
        return _IN_SWITCH if self.plan.uses_switches else None

    def check(self, collective: Collective | None, root: int | None) -> None:
        """Refuse numbers that mean nothing."""
        check_executable(self.plan)

    def verify(self, collective: Collective | None, root: int | None) -> Verification:
        """By the verifier of plans."""
        return verify_plan(self.plan, collective=collective, root=root)

    def one_call(self, collective: Collective | None, root: int | None) -> OneCall:
        """Of its operations, in a call in which blocks share ranges evenly, if there is one."""
        return call_of_plan(self.plan, collective, root)

    def root(self) -> int | None:
        """A call shows it."""
        check_executable(self.plan)
        return execute_plan(self.plan, calls=1).root

    def run(self, requested: RunRequested) -> Iterator[Execution]:
        """In the one way of calling it that it is for."""
        requested.deadline.turns_to("checking the plan")
        check_executable(self.plan, requested.deadline.look)
        yield run_plan(self.plan, requested)

    def simulate(self, network: LogicalTopology, chunk_mb: float, settings: SimulationSettings) -> Simulated:
        """Event by event, with the executor's costs where the network has one."""
        for name, given in (
            ("another protocol", settings.protocol is not None),
            ("a number of slots", settings.slots is not None),
            ("an arbitration", settings.arbitration != "urgent"),
            ("a copy cost", settings.copy_us_per_mb > 0),
        ):
            if given:
                raise TacclError(
                    f"a plan is simulated as it is, so {name} means nothing", hint="leave it out"
                )
        return simulate_plan(
            self.plan, network, chunk_mb, proxy_us=settings.proxy_us, links_only=settings.links_only
        )

    def wire(self, costs: ProtocolCosts | None) -> float:
        """Packets have a flag with each word."""
        return 2.0 if moves_only_packets(self.plan) else 1.0

    def describe(
        self, rank: int | None = None, simulated: Simulated | None = None, facts: FactLines = ()
    ) -> Iterator[str]:
        """For each rank its thread blocks and their operations."""
        return describe_plan(self.plan, rank, _of_plan(simulated), facts)

    def timeline(
        self, simulated: Simulated | None = None, facts: FactLines = (), notes: Iterable[str] = ()
    ) -> Timeline:
        """A lane for each thread block and port channel, a bar for what moves and for waits."""
        check_executable(self.plan)
        return plan_timeline(self.plan, _of_plan(simulated), facts, notes)


def _of_plan(simulated: Simulated | None) -> PlanSimulation | None:
    """A simulation that has a row for each operation."""
    if simulated is None or isinstance(simulated, PlanSimulation):
        return simulated
    raise TacclError("this simulation is of no plan", hint="simulate the file again")
