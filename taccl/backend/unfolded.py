"""What a file unfolds into: all that showing, simulating, running and predicting it needs.

A `Target` whose files can be executed says how one unfolds; who shows, simulates, runs or predicts it knows
no format. There are `two_sided` (sends and receives) and `one_sided` (plans, whose blocks write into memory
of their peers). Another format unfolds into one of these, or into a class of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from taccl.model.collective import Collective
from taccl.model.executor import ProtocolCosts, RuntimeName
from taccl.model.network import LogicalTopology

if TYPE_CHECKING:
    from taccl.backend.execute.outcome import Execution
    from taccl.backend.execute.requested import RunRequested
    from taccl.backend.machine.one_call import OneCall
    from taccl.backend.machine.report import Verification
    from taccl.backend.program import Program
    from taccl.backend.show.timeline import Timeline
    from taccl.backend.simulate.settings import SimulationSettings
    from taccl.backend.simulate.simulated import Simulated

#: The size of such a call is that of all parts together, of which each rank holds one.
_SIZED_BY_ALL = ("gather", "scatter")

#: Lines of a summary: label and value.
FactLines = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Relays:
    """Thread blocks that pass pieces on, at the executor's costs of a block.

    Parameters
    ----------
    blocks : of each rank, the thread blocks that have a peer.
    fused : whether some step receives and sends at once.
    """

    blocks: tuple[int, ...]
    fused: bool


@dataclass(frozen=True, eq=False)
class Unfolded(ABC):
    """The program of a file.

    Parameters
    ----------
    collective, num_ranks : as the file says.
    coll_key : what its format calls the collective.
    chunks : that a call is cut into, what nccl-tests calls its size; of gather and scatter, each rank's part.
    min_bytes, max_bytes : sizes of the calls that it serves; 0: no largest.
    protocol : by which its bytes are moved.
    steps : steps or operations, of all ranks.
    most_blocks : thread blocks of the rank that has most.
    """

    collective: str
    coll_key: str
    num_ranks: int
    chunks: int
    min_bytes: int
    max_bytes: int
    protocol: str
    steps: int
    most_blocks: int

    @property
    def relays(self) -> Relays | None:
        """None: bytes go from memory to memory in ranges of any length, and pieces cost nothing."""
        return None

    @property
    def executed_by(self) -> RuntimeName | None:
        """Whose costs of executing hold for it, where a machine has defaults; None: nobody's."""
        return None

    @property
    def chunks_of_size(self) -> int:
        """Chunks in what nccl-tests calls the size of a call."""
        return self.chunks * (self.num_ranks if self.collective in _SIZED_BY_ALL else 1)

    @property
    def two_sided(self) -> Program | None:
        """The program of sends and receives that it is, which can run over MPI; None: it is one-sided."""
        return None

    @property
    def made_for_bytes(self) -> int | None:
        """The size of the call that it was made for; None: the file does not say it."""
        return None

    @property
    def computed(self) -> Collective | None:
        """The collective as data, where the file says where its chunks lie; None: its name says it."""
        return None

    @property
    def is_unequal(self) -> bool:
        """Whether its chunks are of unequal sizes, so that what it counts are elements of chunks."""
        return False

    @property
    def unbounded(self) -> str | None:
        """Why no bound of sends over links holds for it; None: bounds hold."""
        return None

    @abstractmethod
    def check(self, collective: Collective | None, root: int | None) -> None:
        """Refuse what no runtime would execute, so that it has no time.

        Raises
        ------
        VerificationError : with the reasons.
        """

    @abstractmethod
    def verify(self, collective: Collective | None, root: int | None) -> Verification:
        """Whether it computes its collective; `collective` where the file does not say so."""

    @abstractmethod
    def one_call(self, collective: Collective | None, root: int | None) -> OneCall:
        """What happens in a call, for who makes something else of it.

        Raises
        ------
        VerificationError : it is not right, or nobody knows what it should compute.
        """

    @abstractmethod
    def root(self) -> int | None:
        """The root of a rooted collective, which files have no word for: the one that fits."""

    @abstractmethod
    def run(self, requested: RunRequested) -> Iterator[Execution]:
        """Run it on arrays: an outcome for each way of calling it.

        Raises
        ------
        TacclError : it cannot be run, or the call does not fit it.
        """

    @abstractmethod
    def simulate(self, network: LogicalTopology, chunk_mb: float, settings: SimulationSettings) -> Simulated:
        """One call on a network: by its executor where it has one, unless by links alone.

        Parameters
        ----------
        chunk_mb : MB of one of its chunks.

        Raises
        ------
        TopologyError : no link joins two ranks, or the executor does not know the protocol.
        VerificationError : it hangs, or cannot run.
        TacclError : a setting means nothing for it.
        """

    @abstractmethod
    def wire(self, costs: ProtocolCosts | None) -> float:
        """Bytes on the wire for each byte of data between ranks, at least."""

    @abstractmethod
    def describe(
        self, rank: int | None = None, simulated: Simulated | None = None, facts: FactLines = ()
    ) -> Iterator[str]:
        """It as lines for people; with a simulation by links, also when its steps ran.

        Raises
        ------
        TacclError : there is no such rank.
        """

    @abstractmethod
    def timeline(
        self,
        simulated: Simulated | None = None,
        facts: FactLines = (),
        notes: Iterable[str] = (),
    ) -> Timeline:
        """Its timeline; without a simulation, in units of one step.

        Raises
        ------
        VerificationError : it hangs, or its numbers mean nothing.
        """
