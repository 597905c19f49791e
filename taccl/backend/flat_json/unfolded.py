"""A file of actions, unfolded: how it is shown, simulated and run; and one call of it, for other formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from taccl.backend.execute.outcome import Execution
from taccl.backend.execute.requested import RunRequested
from taccl.backend.flat_json.cells import cells_of
from taccl.backend.flat_json.checks import check_structure
from taccl.backend.flat_json.document import ActionsProgram
from taccl.backend.flat_json.execution import run_actions
from taccl.backend.flat_json.in_blocks import in_blocks
from taccl.backend.flat_json.reader import ActionsDocument
from taccl.backend.flat_json.unfold import unfold
from taccl.backend.flat_json.verify import verify_actions
from taccl.backend.flat_json.wanted import expected
from taccl.backend.machine.one_call import OneCall
from taccl.backend.machine.report import Collector, Verification
from taccl.backend.machine.run import run_acts
from taccl.backend.program import Program
from taccl.backend.show import Timeline, describe_program, program_timeline
from taccl.backend.simulate import Simulation, simulate_program
from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.simulate.simulated import Simulated
from taccl.backend.unfolded import FactLines, Unfolded
from taccl.errors import VerificationError
from taccl.model.collective import Collective, Placement
from taccl.model.executor import ProtocolCosts
from taccl.model.network import LogicalTopology


@dataclass(frozen=True, eq=False)
class Flat(Unfolded):
    """A program of actions; for showing and simulating, each end of a message is a thread block."""

    document: ActionsDocument
    program: Program

    @staticmethod
    def of(actions: ActionsProgram) -> Flat:
        """A program that was read without a fault, or was just made."""
        return Flat.of_document(ActionsDocument(actions, (), ""))

    @staticmethod
    def of_document(document: ActionsDocument) -> Flat:
        """A file."""
        actions = document.whole()
        program = in_blocks(actions)
        return Flat(
            collective=actions.collective,
            coll_key="collective",
            num_ranks=len(actions.ranks),
            chunks=program.chunks_per_loop,
            min_bytes=actions.min_bytes,
            max_bytes=actions.max_bytes,
            protocol="none",
            steps=actions.num_actions,
            most_blocks=max((len(rank.thread_blocks) for rank in program.ranks), default=0),
            document=document,
            program=program,
        )

    @property
    def made_for_bytes(self) -> int:
        """All elements of that call."""
        return self.document.program.call_elements * self.document.program.element_bytes

    @property
    def is_unequal(self) -> bool:
        """The file says it."""
        return len(set(self.document.program.chunk_elements)) > 1

    @property
    def unbounded(self) -> str | None:
        """A bound is for chunks of one size."""
        return "its chunks are of unequal sizes" if self.is_unequal else None

    @property
    def computed(self) -> Collective:
        """The collective, its chunks where the file says that they lie."""
        actions = self.document.program
        owner = np.zeros(len(actions.sums), dtype=np.int64)
        placements = []
        for column in ("output", "input"):
            rows = [
                (chunk, rank, position)
                for rank, of_rank in enumerate(actions.ranks)
                for position, chunk in enumerate(getattr(of_rank, column))
                if chunk >= 0
            ]
            chunk, rank, position = np.array(rows, dtype=np.int64).reshape(-1, 3).T
            owner[chunk] = rank
            placements.append(Placement(chunk, rank, position))
        outputs, inputs = placements
        return Collective(
            name=actions.collective,
            num_ranks=self.num_ranks,
            chunks_per_rank=1,
            chunks_per_size=actions.call_elements,
            inputs=inputs,
            outputs=outputs,
            reduces=np.array(actions.sums),
            owner=owner,
            in_place_shift=np.zeros(self.num_ranks, dtype=np.int64),
            root=actions.root,
        )

    def check(self, collective: Collective | None, root: int | None) -> None:
        """Refuse what does not pass verification."""
        self.verify(collective, root).raise_for_findings()

    def verify(self, collective: Collective | None, root: int | None) -> Verification:
        """By what the file says of its chunks, or a collective that is given."""
        return verify_actions(self.document, collective=collective, root=root)

    def one_call(self, collective: Collective | None, root: int | None) -> OneCall:
        """Of its actions, in elements; or in chunks, where all are of one size."""
        return call_of_actions(self.document, collective, root)

    def root(self) -> int | None:
        """The file says it."""
        return self.document.program.root

    def run(self, requested: RunRequested) -> Iterator[Execution]:
        """Once, out of place, in a random order."""
        collector = Collector()
        check_structure(self.document.program, collector)
        if collector.fatal:
            findings = [str(finding) for finding in collector.findings()]
            raise VerificationError("the file cannot be run", findings=findings, path=self.document.path)
        if requested.collective is not None or requested.root is not None:
            self.check(requested.collective, requested.root)
        return run_actions(self.document.program, requested)

    def simulate(self, network: LogicalTopology, chunk_mb: float, settings: SimulationSettings) -> Simulated:
        """By the network's links alone: what executes actions is not known."""
        return simulate_program(
            self.program,
            replace(network, executor=None),
            chunk_mb,
            slots=settings.slots,
            arbitration=settings.arbitration,
            copy_us_per_mb=settings.copy_us_per_mb,
        )

    def wire(self, costs: ProtocolCosts | None) -> float:
        """There is no protocol."""
        return 1.0

    def describe(
        self, rank: int | None = None, simulated: Simulated | None = None, facts: FactLines = ()
    ) -> Iterator[str]:
        """For each rank its thread blocks and their steps."""
        return describe_program(self.program, rank, _of_steps(simulated), facts)

    def timeline(
        self, simulated: Simulated | None = None, facts: FactLines = (), notes: Iterable[str] = ()
    ) -> Timeline:
        """A lane for each end of a message."""
        return program_timeline(self.program, _of_steps(simulated), facts, notes)


def _of_steps(simulated: Simulated | None) -> Simulation | None:
    if simulated is None or isinstance(simulated, Simulation):
        return simulated
    raise VerificationError("the simulation is not one of this file")


def call_of_actions(document: ActionsDocument, collective: Collective | None, root: int | None) -> OneCall:
    """What the actions do in a call, in cells of one size.

    Raises
    ------
    VerificationError : the file is not right, or has too many elements of its common measure.
    """
    verify_actions(document, collective=collective, root=root).raise_for_findings()
    program = document.program
    cells = cells_of(program, even=True)
    if cells is None:
        raise VerificationError(
            "its chunks, or what its actions take of them, are of unequal sizes, and have too many of the "
            "elements that measure all",
            path=document.path,
            hint="round the sizes up to multiples of 4KB",
        )
    machine = unfold(program, cells)
    return OneCall(machine, run_acts(machine.acts).sequence[0], expected(program, cells))
