"""A program on a machine that says what executing costs: its time, and what no such program can beat.

It knows programs, one-sided plans, problems and bounds; it knows no files. The model is in
docs/cost-model.md, "The executor".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from taccl.backend.lower_plan.fits import message_chunks
from taccl.backend.plan import ExecutionPlan
from taccl.backend.program import Program, Protocol
from taccl.backend.simulate.executor import Prepared
from taccl.backend.simulate.matched import hang
from taccl.backend.simulate_plan import moves_only_packets, simulate_plan
from taccl.encoding.bounds import Proof, all_bounds, known_bounds, lower_bound
from taccl.encoding.bounds.cuts import Crossings, members
from taccl.encoding.bounds.latency import LATENCY
from taccl.encoding.bounds.stream import NOTHING
from taccl.encoding.instance import Instance
from taccl.errors import TopologyError, VerificationError
from taccl.model.executor import Executor, ProtocolCosts
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.tolerance import contradicts
from taccl.model.units import MB

#: Rounds that are executed where those of a usual execution contradict a bound.
_MOST_ROUNDS = 4096
#: On machines with more ranks, what each has to send and receive is not counted.
_MOST_RANKS = 256


@dataclass(frozen=True, eq=False)
class Execution:
    """One call of a program.

    Parameters
    ----------
    time_us : from the call to the end of its last thread block.
    chunk_mb : MB of one chunk of the program.
    launch_us : what of it passes before anything moves.
    rounds : how often the program runs through its steps, each time for a piece of every chunk.
    bound : no program of this collective with this many thread blocks is faster, with this protocol.
    raised_us : by how much `time_us` was raised to the bound, where the time of rounds that were not executed
        is extrapolated. It should be rounding: more than that means that the bound is wrong, or the time.
    """

    time_us: float
    chunk_mb: float
    launch_us: float
    rounds: int
    bound: Proof
    raised_us: float = 0.0


def execute(
    program: Program, problem: Problem, cut: int, protocol: Protocol, wires: Proof | None = None
) -> Execution:
    """Run a program on the problem's network, as its executor says.

    Parameters
    ----------
    problem : what the program answers; its network has an executor.
    cut : the problem's chunks in one of the program's.
    protocol : which one the call is run with.
    wires : the problem's `wires_bound`, where that is known.

    Raises
    ------
    TopologyError : the executor does not know the protocol, or no link joins two ranks.
    VerificationError : the program cannot run, or hangs at this size.
    """
    network = problem.topology
    executor = _executor_of(network)
    costs = executor.costs_of(protocol.value)
    _check_blocks(program, executor)
    prepared = Prepared.of(program, network)
    chunk_mb = problem.chunk_mb * cut
    size_bytes = chunk_mb * MB * program.chunks_per_loop
    run = prepared.run(executor, protocol.value, size_bytes)
    if run.stuck:
        slots = costs.shape.slots // costs.shape.slices
        raise hang(prepared.executed, prepared.connections, slots, run.chunks_per_piece)
    bound = executed_bound(problem, program, protocol.value, wires)
    if run.executed_rounds < run.rounds and contradicts(bound.value_us, run.time_us):
        # what was executed tells too little about the rest
        run = prepared.run(executor, protocol.value, size_bytes, rounds=min(run.rounds, _MOST_ROUNDS))
    raised_us = 0.0 if run.executed_rounds == run.rounds else max(0.0, bound.value_us - run.time_us)
    return Execution(run.time_us + raised_us, chunk_mb, costs.launch_us, run.rounds, bound, raised_us)


def execute_plan(plan: ExecutionPlan, problem: Problem, bound: Proof | None = None) -> Execution:
    """One call of a one-sided plan on the problem's network; by links alone where that has no executor.

    Parameters
    ----------
    problem : what the plan answers, with chunks as fine as its own, or coarser.
    bound : its `plan_bound`, where that is known: plans of one protocol have one.

    Raises
    ------
    TopologyError : the executor does not know the protocol, or no link joins two ranks.
    VerificationError : the plan hangs.
    """
    chunk_mb = problem.size_bytes / MB / message_chunks(plan)
    run = simulate_plan(plan, problem.topology, chunk_mb)
    return Execution(run.time_us, chunk_mb, run.launch_us or 0.0, 1, bound or plan_bound(problem, plan))


def executed_bound(problem: Problem, program: Program, protocol: str, wires: Proof | None = None) -> Proof:
    """The largest of what launch, wires, latencies and thread blocks take at least.

    It holds for every program of the collective with chunks as fine, this protocol, no more thread blocks on
    any rank, and steps fused only where this program has such.

    Parameters
    ----------
    wires : the problem's `wires_bound`, where that is known.

    Raises
    ------
    TopologyError : the executor does not know the protocol.
    """
    costs = _executor_of(problem.topology).costs_of(protocol)
    moved = _wires(problem, costs) if wires is None else wires
    return _launched(costs, [moved, _latency(problem, costs), *_blocks(problem, program, costs)])


def any_file_bound(problem: Problem, protocol: str, instances: int) -> Proof:
    """As `executed_bound`, of files with however many thread blocks: launch, wires and latencies.

    Parameters
    ----------
    instances : parallel copies of the program, at most; each takes its share of every chunk of the problem.

    Raises
    ------
    TopologyError : the executor does not know the protocol.
    """
    costs = _executor_of(problem.topology).costs_of(protocol)
    return _launched(costs, [_wires(problem, costs), _latency(problem, costs, instances)])


def plan_bound(problem: Problem, plan: ExecutionPlan, *, links_only: bool = False) -> Proof:
    """The larger of what wires and latencies take at least, after the launch where the machine says it.

    It holds for every plan of the collective, however finely it cuts chunks; of packets alone, if this plan
    moves nothing else between ranks.

    Raises
    ------
    TopologyError : the machine's executor does not know the protocol.
    """
    return _plan_bound(problem, plan.moves_packets, moves_only_packets(plan), links_only)


def packets_bound(problem: Problem) -> Proof:
    """The same of plans that move packets and nothing else, before there is one. Raises what that does."""
    return _plan_bound(problem, True, True)


def _plan_bound(problem: Problem, packets: bool, packets_only: bool, links_only: bool = False) -> Proof:
    executor = None if links_only else problem.topology.executor
    costs = None if executor is None else executor.costs_of("LL" if packets else "Simple")
    wires = _fluid_wires(problem, 2.0 if packets_only else 1.0)
    hops = _hops(problem, 0.0 if costs is None else costs.hop_us)
    if costs is not None:
        return _launched(costs, [wires, hops])
    return max((wires, hops), key=lambda proof: proof.value_us)


def _launched(costs: ProtocolCosts, proofs: list[Proof]) -> Proof:
    """The largest, after the launch."""
    best = max(proofs, key=lambda proof: proof.value_us)
    witness = f"{costs.launch_us:g} us of launch, then {best.witness}"
    return replace(best, value_us=best.value_us + costs.launch_us, witness=witness)


def _executor_of(network: LogicalTopology) -> Executor:
    if network.executor is None:
        raise TopologyError(
            f"{network.name} does not say what executing costs", hint="a section executor: in its file"
        )
    return network.executor


def _check_blocks(program: Program, executor: Executor) -> None:
    """All thread blocks of a GPU wait for each other, so they have to run at once."""
    available = executor.thread_blocks
    for rank in program.ranks:
        if available is not None and len(rank.thread_blocks) > available:
            raise VerificationError(
                f"rank {rank.rank} has {len(rank.thread_blocks)} thread blocks, but a GPU of the machine "
                f"runs {available} at once: the program would hang, so it has no time",
                hint="fewer instances or channels",
            )


def wires_bound(problem: Problem, protocol: str) -> Proof:
    """What all bytes on the wires take at least, with this protocol, however finely chunks are cut.

    Raises
    ------
    TopologyError : the executor does not know the protocol.
    """
    return _wires(problem, _executor_of(problem.topology).costs_of(protocol))


def _wires(problem: Problem, costs: ProtocolCosts) -> Proof:
    """Bytes through ports, however finely they are cut: pieces go through the program in rounds."""
    return _fluid_wires(problem, costs.shape.wire)


def _fluid_wires(problem: Problem, wire: float) -> Proof:
    """The same, with this many bytes on the wire for each of data."""
    network = problem.topology
    fluid = replace(
        network,
        alpha_us=np.zeros(network.num_links),
        beta_us_per_mb=network.beta_us_per_mb * wire,
        port_betas=None
        if network.port_betas is None
        else tuple(tuple(beta * wire for beta in betas) for betas in network.port_betas),
        occupancy="pipelined",
    )
    whatever_chunks = [bound for bound in known_bounds() if bound.holds_for_any_chunks]
    every = all_bounds(replace(problem, topology=fluid, symmetry=()), bounds=whatever_chunks)
    return next((proof for proof in every if proof.holds_for_any_chunks), NOTHING)


def _latency(problem: Problem, costs: ProtocolCosts, instances: int = 1) -> Proof:
    """The farthest way: each hop is prepared and seen; an instance's bytes of a chunk pass the last one."""
    network, chunk_mb = problem.topology, problem.chunk_mb / instances
    proof = _hops(problem, costs.hop_us + costs.slice_us)
    if not proof.value_us:
        return proof
    block_us = chunk_mb * MB * costs.block_us_per_byte
    wire_us = chunk_mb * float(network.beta_us_per_mb.min(initial=math.inf)) * costs.shape.wire
    return replace(proof, value_us=proof.value_us + max(block_us + costs.slice_us, wire_us))


def _hops(problem: Problem, each_us: float) -> Proof:
    """The farthest way, if bytes took no time and each hop so much next to its alpha."""
    network = problem.topology
    hops = replace(
        network,
        alpha_us=network.alpha_us + each_us,
        beta_us_per_mb=np.zeros(network.num_links),
        port_betas=None,
    )
    return lower_bound(replace(problem, topology=hops, symmetry=()), bounds=[LATENCY])


def _blocks(problem: Problem, program: Program, costs: ProtocolCosts) -> Iterator[Proof]:
    """Bytes that thread blocks have to send and receive: each moves this many at once, one way."""
    ranks = problem.num_ranks
    if ranks > _MOST_RANKS:
        return
    instance = Instance(problem)
    crossings = instance.once(Crossings)
    blocks = np.array([sum(b.send >= 0 or b.recv >= 0 for b in rank.thread_blocks) for rank in program.ranks])
    fused = any(
        step.op.sends and step.op.receives
        for rank in program.ranks
        for block in rank.thread_blocks
        for step in block.steps
    )
    received, work = np.zeros(ranks), np.zeros(ranks)
    for rank in range(ranks):
        inside = members(ranks, (rank,))
        received[rank] = len(crossings.must_enter(inside))
        sent = len(crossings.must_enter(~inside))
        work[rank] = max(received[rank], sent) if fused else received[rank] + sent
    us_per_chunk = problem.chunk_mb * MB * costs.block_us_per_byte
    for which, chunks, many in (
        *((f"rank {rank}", float(work[rank]), int(blocks[rank])) for rank in range(ranks)),
        ("all ranks", float(received.sum()) * (1 if fused else 2), int(blocks.sum())),
    ):
        moved = f"{chunks * problem.chunk_mb:.4g} MB"
        yield Proof(
            value_us=chunks * us_per_chunk / many if many else 0.0,
            witness=f"{many} thread blocks of {which} move {moved} at {costs.block_gbps:g} GB/s each",
            kind="thread-blocks",
            remedy="more thread blocks: instances or channels",
        )
