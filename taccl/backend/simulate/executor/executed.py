"""One call of a program as the executor of a network runs it."""

from __future__ import annotations

from taccl.backend.program import Program, Protocol
from taccl.backend.simulate.executor.prepared import Prepared
from taccl.backend.simulate.matched import hang
from taccl.backend.simulate.simulated import Simulated
from taccl.errors import VerificationError
from taccl.model.executor import Executor
from taccl.model.network import LogicalTopology
from taccl.model.units import MB
from taccl.support.jit import is_at_hand


def simulate_executed(
    program: Program,
    network: LogicalTopology,
    executor: Executor,
    chunk_mb: float,
    protocol: Protocol,
    rounds: int | None = None,
) -> Simulated:
    """Run a program on a network as its executor says.

    Parameters
    ----------
    chunk_mb : MB of one chunk of the program.
    protocol : which one the call is run with.
    rounds : this many are executed at most; see `Prepared.run`.

    Raises
    ------
    TopologyError : the executor does not know the protocol, or no link joins two ranks.
    VerificationError : the program cannot run, or hangs at this size.
    """
    costs = executor.costs_of(protocol.value)
    blocks = [len(rank.thread_blocks) for rank in program.ranks]
    check_blocks(blocks, executor, "program", "instances or channels")
    prepared = Prepared.of(program, network)
    run = prepared.run(executor, protocol.value, chunk_mb * MB * program.chunks_per_loop, rounds=rounds)
    if run.stuck:
        slots = costs.shape.slots // costs.shape.slices
        raise hang(prepared.executed, prepared.connections, slots, run.chunks_per_piece)
    is_extrapolated = run.executed_rounds < run.rounds
    return Simulated(network, chunk_mb, run.time_us, costs.launch_us, run.rounds, is_extrapolated)


def is_compiled() -> bool:
    """Whether the loop that executes programs is machine code already."""
    from taccl.backend.simulate.executor.events import run_events  # numba takes a while

    return is_at_hand(run_events)


def check_blocks(blocks: list[int], executor: Executor, what: str, fewer: str) -> None:
    """All thread blocks of a GPU wait for each other, so they have to run at once.

    Parameters
    ----------
    blocks : of each rank.
    what, fewer : what they belong to, and fewer of what helps, for the message.

    Raises
    ------
    VerificationError : a GPU of the machine runs fewer at once.
    """
    available = executor.thread_blocks
    for rank, number in enumerate(blocks):
        if available is not None and number > available:
            raise VerificationError(
                f"rank {rank} has {number} thread blocks, but a GPU of the machine runs {available} at once: "
                f"the {what} would hang, so it has no time",
                hint=f"fewer {fewer}",
            )
