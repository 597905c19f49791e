"""A file as rounds of messages: how many, how large, and how long they take on a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taccl.api import make_problem
from taccl.backend.rounds.lowering import MOST_OPERATIONS, lower_to_rounds
from taccl.backend.rounds.rounds import Rounds
from taccl.backend.rounds.timing import TimedRounds, time_rounds
from taccl.backend.rounds.tuning import LAUNCH_US
from taccl.backend.targets.registry import unfold_file
from taccl.encoding.bounds import all_bounds
from taccl.errors import TacclError, UnitError
from taccl.model import units
from taccl.model.collectives import COLLECTIVES, parts_of_call
from taccl.model.network import LogicalTopology
from taccl.support.arguments import file_path, number
from taccl.support.files import read_bytes
from taccl.support.schemas import stamped
from taccl.synthesis.collective_file import load_collective
from taccl.synthesis.request import MachineKeywords, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class RoundsAtSize:
    """One call of `size_bytes`, as nccl-tests counts them, next to a bound for any number of chunks."""

    size_bytes: int
    timed: TimedRounds
    lower_bound_us: float
    bound_source: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "size_bytes": self.size_bytes,
            "time_us": self.timed.time_us,
            "launches_us": self.timed.launches_us,
            "lower_bound_us": self.lower_bound_us,
            "bound_source": self.bound_source,
        }


@dataclass(frozen=True, eq=False)
class LoweredFile:
    """What a file becomes.

    Parameters
    ----------
    path : of the file. launch_us : what posting a round takes. topology : the machine; None: none was named.
    """

    path: str
    rounds: Rounds
    launch_us: float
    topology: str | None
    sizes: tuple[RoundsAtSize, ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        number_of = [len(each.messages) for each in self.rounds.rounds]
        values = {
            "path": self.path,
            **self.rounds.to_dict(),
            "num_rounds": len(self.rounds.rounds),
            "fewest_rounds": self.rounds.fewest,
            "num_messages": sum(number_of),
            "most_operations": max((each.most_operations for each in self.rounds.rounds), default=0),
            "scratch_chunks": max((size[2] for size in self.rounds.sizes), default=0),
            "launch_us": self.launch_us,
            "topology": self.topology,
            "sizes": [each.to_dict() for each in self.sizes],
        }
        return stamped("taccl.lower/1", values)


def lower_file(
    path: str | Path,
    sizes: Sequence[str | int] = (),
    *,
    collective: str | Path | None = None,
    root: int | None = None,
    in_place: bool = False,
    pipelined: bool = False,
    most_operations: int = MOST_OPERATIONS,
    launch_us: float | None = None,
    **machine: Unpack[MachineKeywords],
) -> LoweredFile:
    """Make rounds of a file, and time them where a machine is named.

    Parameters
    ----------
    path : an MSCCL-XML file, a plan for MSCCL++ or a file of actions.
    sizes : of calls, as nccl-tests counts them; with a machine. collective : a file of a custom one.
    root : of a rooted collective; None: the one that fits.
    in_place, pipelined, most_operations : as in `lower_to_rounds`.
    launch_us : what posting a round takes; None: what the machine's executor says a call takes, else 17.
    machine : topology, nodes and so on, as in `taccl.Request`.

    Raises
    ------
    TacclError : the subclass says whether the file, its parts or the request is wrong.
    """
    path = file_path(path)
    unfolded = unfold_file(path, read_bytes(path), "lowered to rounds")
    if launch_us is not None:
        launch_us = number(launch_us, "what posting a round takes", UnitError, most=1e6, unit="us")
    try:
        given = None if collective is None else load_collective(collective, unfolded.num_ranks)
        call = unfolded.one_call(given, root)
        rounds = lower_to_rounds(
            call, in_place=in_place, pipelined=pipelined, most_operations=most_operations
        )
    except TacclError as error:
        error.path = error.path or str(path)
        raise
    if not any(machine.values()):
        if sizes:
            raise UnitError("a size says nothing without a machine", hint="--topology NAME, or --sketch")
        return LoweredFile(str(path), rounds, LAUNCH_US if launch_us is None else launch_us, None, ())
    return _timed(path, rounds, [*sizes] or ["1MB"], launch_us, machine)


def _timed(
    path: Path, rounds: Rounds, sizes: Sequence[str | int], launch_us: float | None, machine: MachineKeywords
) -> LoweredFile:
    if rounds.collective not in COLLECTIVES:
        raise TacclError(
            f"a time needs a collective with a name, and this is {rounds.collective!r}",
            hint="leave the machine out",
        )
    made, name = [], ""
    for size in sizes:
        request = replace(Request(rounds.collective, size=size, root=rounds.root), **machine)
        problem = make_problem(request).problem
        network = problem.topology
        if network.num_ranks - network.num_helpers != rounds.num_ranks:
            raise TacclError(
                f"the file is for {rounds.num_ranks} ranks, and {network.name} has "
                f"{network.num_ranks - network.num_helpers}",
                path=path,
                hint="name the machine that it was made for (--topology, --nodes)",
            )
        name = network.name
        if launch_us is None:
            launch_us = _launch_us(network)
        parts = rounds.chunks * parts_of_call(rounds.collective, rounds.num_ranks)
        timed = time_rounds(rounds, network, problem.size_bytes / units.MB / parts, launch_us)
        bound = next(each for each in all_bounds(problem, any_chunks=True) if each.holds_for_any_chunks)
        made.append(RoundsAtSize(problem.size_bytes, timed, bound.value_us, bound.witness))
    return LoweredFile(str(path), rounds, launch_us or 0.0, name, tuple(made))


def _launch_us(network: LogicalTopology) -> float:
    """What a call takes before anything moves, by the machine's executor."""
    if network.executor is None:
        return LAUNCH_US
    costs = network.executor.protocols
    return (costs["Simple"] if "Simple" in costs else next(iter(costs.values()))).launch_us
