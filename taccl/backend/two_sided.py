"""A program of sends and receives, unfolded: how it is shown, simulated and run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.requested import RunRequested
from taccl.backend.execute.two_sided.run import run_program
from taccl.backend.machine.one_call import OneCall
from taccl.backend.msccl_xml.reader import Document
from taccl.backend.program import Program
from taccl.backend.show import Timeline, describe_program, program_timeline
from taccl.backend.simulate import Simulation, simulate_program
from taccl.backend.simulate.executor.executed import simulate_executed
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.simulate.simulated import Simulated
from taccl.backend.unfolded import FactLines, Relays, Unfolded
from taccl.backend.verify.msccl_xml import Verification, refusals_of, verify_program
from taccl.backend.verify.msccl_xml.one_call import call_of_program
from taccl.errors import TacclError, VerificationError
from taccl.model.collective import Collective
from taccl.model.executor import ProtocolCosts, RuntimeName
from taccl.model.network import LogicalTopology

#: Reasons for a refusal that are written out.
_FINDINGS = 5


@dataclass(frozen=True, eq=False)
class TwoSided(Unfolded):
    """A program of sends and receives; `document`: its MSCCL-XML file, where it comes from one."""

    program: Program
    document: Document | None = None

    @staticmethod
    def of(program: Program) -> TwoSided:
        """A program that is in no file, or in one of another format."""
        blocks = [block for rank in program.ranks for block in rank.thread_blocks]
        return TwoSided(
            collective=program.collective,
            coll_key="coll",
            num_ranks=program.num_ranks,
            chunks=program.chunks_per_loop,
            min_bytes=program.min_bytes,
            max_bytes=program.max_bytes,
            protocol=program.protocol.value,
            steps=sum(len(block.steps) for block in blocks),
            most_blocks=max((len(rank.thread_blocks) for rank in program.ranks), default=0),
            program=program,
        )

    @staticmethod
    def of_document(document: Document) -> TwoSided:
        """The program in an MSCCL-XML file, of which verification knows more than its steps."""
        made = TwoSided.of(document.program)
        return replace(made, document=document)

    @property
    def two_sided(self) -> Program:
        """Itself."""
        return self.program

    @property
    def executed_by(self) -> RuntimeName | None:
        """An interpreter of MSCCL-XML."""
        return "msccl"

    @property
    def relays(self) -> Relays:
        """Each thread block passes on pieces of what its steps name."""
        blocks = [sum(b.send >= 0 or b.recv >= 0 for b in rank.thread_blocks) for rank in self.program.ranks]
        fused = any(
            step.op.sends and step.op.receives
            for rank in self.program.ranks
            for block in rank.thread_blocks
            for step in block.steps
        )
        return Relays(tuple(blocks), fused)

    def check(self, collective: Collective | None, root: int | None) -> None:
        """Refuse what verification refuses before it executes anything."""
        subject = self.program if self.document is None else self.document
        findings = refusals_of(subject, collective=collective, root=root)
        if findings:
            shown = [str(finding) for finding in findings[:_FINDINGS]]
            more = [f"and {len(findings) - _FINDINGS} more"] if len(findings) > _FINDINGS else []
            raise VerificationError(
                "no runtime would execute the program, so it has no time",
                findings=[*shown, *more],
                path=None if self.document is None else self.document.path,
                hint="taccl verify says all that is wrong",
            )

    def verify(self, collective: Collective | None, root: int | None) -> Verification:
        """By the verifier of programs, whatever the format."""
        return verify_program(self.program, targets=None, collective=collective, root=root)

    def one_call(self, collective: Collective | None, root: int | None) -> OneCall:
        """Of its steps."""
        return call_of_program(self.program, collective, root)

    def root(self) -> int | None:
        """Verification finds the one that fits."""
        return verify_program(self.program).facts.root

    def run(self, requested: RunRequested) -> Iterator[Execution]:
        """Once for each way of calling it that it claims."""
        return run_program(self.program, requested)

    def simulate(self, network: LogicalTopology, chunk_mb: float, settings: SimulationSettings) -> Simulated:
        """By the network's executor, slice by slice; or by its links, step by step."""
        if settings.proxy_us:
            raise TacclError("only plans have proxies", hint="leave --proxy-cost out")
        if network.executor is not None and not settings.links_only:
            _check_executed(settings)
            protocol = self.program.protocol if settings.protocol is None else settings.protocol
            return simulate_executed(
                self.program, network, network.executor, chunk_mb, protocol, settings.rounds
            )
        return simulate_program(
            self.program,
            network,
            chunk_mb,
            protocol=settings.protocol,
            slots=settings.slots,
            arbitration=settings.arbitration,
            copy_us_per_mb=settings.copy_us_per_mb,
        )

    def wire(self, costs: ProtocolCosts | None) -> float:
        """What the protocol puts on the wire."""
        return 1.0 if costs is None else costs.shape.wire

    def describe(
        self, rank: int | None = None, simulated: Simulated | None = None, facts: FactLines = ()
    ) -> Iterator[str]:
        """For each rank its thread blocks and their steps."""
        return describe_program(self.program, rank, _by_links(simulated), facts)

    def timeline(
        self, simulated: Simulated | None = None, facts: FactLines = (), notes: Iterable[str] = ()
    ) -> Timeline:
        """A lane for each thread block, a bar for each step that does something."""
        return program_timeline(self.program, _by_links(simulated), facts, notes)


def _by_links(simulated: Simulated | None) -> Simulation | None:
    """A simulation that has a row for each step."""
    if simulated is None or isinstance(simulated, Simulation):
        return simulated
    raise TacclError(
        "a run that the machine's executor predicts has no timeline of steps", hint="simulate by links alone"
    )


def _check_executed(settings: SimulationSettings) -> None:
    """Refuse what is part of the machine's executor, or means nothing under it."""
    for name, given in (
        ("slots", settings.slots is not None),
        ("arbitration", settings.arbitration != "urgent"),
        ("copy cost", settings.copy_us_per_mb > 0),
    ):
        if given:
            raise TacclError(
                f"the machine's executor says how a file is executed, so a {name} of one's own means nothing",
                hint="change the section executor: of the machine's file, or take it out",
            )
