"""A file on a machine that says what executing costs: its time, and what no such file can beat.

The model is in docs/cost-model.md, "The executor".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from taccl.backend.simulate.settings import SimulationSettings
from taccl.backend.simulate.simulated import Simulated
from taccl.backend.unfolded import Relays, Unfolded
from taccl.encoding.bounds import Proof, all_bounds, lower_bound, quick_bound
from taccl.encoding.bounds.cuts import Crossings, members
from taccl.encoding.bounds.latency import LATENCY
from taccl.encoding.bounds.stream import NOTHING
from taccl.encoding.core.timing import decisions_of, in_order
from taccl.encoding.instance import Instance
from taccl.errors import TopologyError
from taccl.model.executor import Executor, ProtocolCosts
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.model.schedule import SavedSchedule, Schedule
from taccl.model.tolerance import contradicts
from taccl.model.units import MB
from taccl.support.budget import Budget
from taccl.synthesis.search import relative_gap

#: Rounds that are executed where those of a usual execution contradict a bound.
_MOST_ROUNDS = 4096
#: On machines with more ranks, what each has to send and receive is not counted.
_MOST_RANKS = 256
#: Units of work for what bytes take through ports. A broadcast on 512 GPUs takes a core 1.5 s with them; with
#: ten seconds it takes 4 and proves the same.
_PROVING = 600


@dataclass(frozen=True, eq=False)
class PredictedCall:
    """One call of a program.

    Parameters
    ----------
    simulated : as the machine's executor runs it; of a one-sided plan also by links alone.
    time_us : from the call to the end of its last thread block.
    bound : no program of this collective with this many thread blocks is faster, with this protocol; as
        `trusted` where the executor's numbers are defaults.
    raised_us : by how much `time_us` was raised to the bound, where the time of rounds that were not executed
        is extrapolated. It should be rounding: more than that means that the bound is wrong, or the time.
    """

    simulated: Simulated
    time_us: float
    bound: Proof
    raised_us: float = 0.0

    @property
    def gap(self) -> float:
        """(time - bound) / time, a fraction."""
        return relative_gap(self.time_us, self.bound.value_us)

    def with_bound(self, proof: Proof) -> PredictedCall:
        """The same next to a bound of all such files that is larger."""
        return self if proof.value_us <= self.bound.value_us else replace(self, bound=proof)

    def to_dict(self) -> dict[str, object]:
        """The time next to its bound, for JSON."""
        return {
            "time_us": self.time_us,
            "lower_bound_us": self.bound.value_us,
            "bound_source": self.bound.witness,
            "gap": self.gap,
        }


def execute(
    file: Unfolded,
    problem: Problem,
    chunk_mb: float,
    settings: SimulationSettings,
    moved: Proof | None = None,
) -> PredictedCall:
    """One call on the problem's network, next to what no such file can beat.

    Parameters
    ----------
    problem : what the file answers, with chunks as fine as its own, or coarser.
    chunk_mb : MB of one chunk of the file.
    moved : the problem's `wires_bound`, where that is known.

    Raises
    ------
    TopologyError : the executor does not know the protocol, or no link joins two ranks.
    VerificationError : the program cannot run, or hangs at this size.
    """
    run = file.simulate(problem.topology, chunk_mb, settings)
    protocol = file.protocol if settings.protocol is None else settings.protocol.value
    moved = wires_bound(problem) if moved is None else moved
    bound = file_bound(problem, file, protocol, links_only=settings.links_only, moved=moved)
    if run.is_extrapolated and contradicts(bound.value_us, run.time_us):
        # what was executed tells too little about the rest
        rounds = _MOST_ROUNDS if run.rounds is None else min(run.rounds, _MOST_ROUNDS)
        run = file.simulate(problem.topology, chunk_mb, replace(settings, rounds=rounds))
    raised_us = max(0.0, bound.value_us - run.time_us) if run.is_extrapolated else 0.0
    executor = None if settings.links_only else problem.topology.executor
    kept = bound if executor is None else trusted(bound, problem, executor, protocol, moved)
    return PredictedCall(run, run.time_us + raised_us, kept, raised_us)


def trusted(
    bound: Proof, problem: Problem, executor: Executor, protocol: str, moved: Proof | None = None
) -> Proof:
    """What is left of a bound of files by an executor's costs where those are defaults of a GPU.

    A bound is no guess: of defaults the lower end of their interval counts, and never less than links alone,
    which need no defaults. Numbers that are a machine's own are taken at their word.

    Parameters
    ----------
    moved : the problem's `wires_bound`, where that is known.
    """
    if executor.origin is None:
        return bound
    error = executor.origin.error(problem.size_bytes)
    witness = f"at the lower end of +-{100 * error:.0f}%: {bound.witness}"
    low = replace(bound, value_us=trusted_value(bound.value_us, problem, executor), witness=witness)
    if low.value_us >= bound.value_us - executor.costs_of(protocol).launch_us:
        return low  # links alone take no more than all but the launch
    moved = wires_bound(problem) if moved is None else moved
    return max((low, moved, _hops(problem, 0.0)), key=lambda proof: proof.value_us)


def trusted_value(value_us: float, problem: Problem, executor: Executor) -> float:
    """Of a bound by an executor's costs what counts, microseconds: of defaults the lower end."""
    return value_us if executor.origin is None else value_us / (1 + executor.origin.error(problem.size_bytes))


def file_bound(
    problem: Problem,
    file: Unfolded,
    protocol: str,
    *,
    links_only: bool = False,
    moved: Proof | None = None,
) -> Proof:
    """The largest of what launch, wires, latencies and thread blocks take at least.

    It holds for every file of the collective with this protocol and chunks as fine, no more thread blocks on
    any rank, and steps fused only where this file has such; of one-sided plans, however fine their chunks.
    Without an executor, or by links alone, no launch counts.

    Parameters
    ----------
    moved : the problem's `wires_bound`, where that is known.

    Raises
    ------
    TopologyError : the executor does not know the protocol.
    """
    executor = None if links_only else problem.topology.executor
    costs = None if executor is None else executor.costs_of(protocol)
    proofs = [_carried(wires_bound(problem) if moved is None else moved, file.wire(costs))]
    relays = file.relays
    if relays is None or costs is None:
        proofs.append(_hops(problem, 0.0 if costs is None else costs.hop_us))
    else:
        proofs += [_latency(problem, costs), *_blocks(problem, relays, costs)]
    return _launched(costs, proofs)


def protocol_bound(problem: Problem, protocol: str, wire: float, moved: Proof | None = None) -> Proof:
    """The same before there is a file: of those whose bytes all take this many on the wire, however cut.

    Raises
    ------
    TopologyError : the executor does not know the protocol.
    """
    executor = problem.topology.executor
    costs = None if executor is None else executor.costs_of(protocol)
    carried = _carried(wires_bound(problem) if moved is None else moved, wire)
    return _launched(costs, [carried, _hops(problem, 0.0 if costs is None else costs.hop_us)])


def any_file_bound(problem: Problem, protocol: str, instances: int, moved: Proof) -> Proof:
    """As `file_bound`, of programs with however many thread blocks: launch, wires and latencies.

    Parameters
    ----------
    instances : parallel copies of the program, at most; each takes its share of every chunk of the problem.
    moved : the problem's `wires_bound`.

    Raises
    ------
    TopologyError : the executor does not know the protocol.
    """
    costs = _executor_of(problem.topology).costs_of(protocol)
    return _launched(costs, [_carried(moved, costs.shape.wire), _latency(problem, costs, instances)])


def _launched(costs: ProtocolCosts | None, proofs: list[Proof]) -> Proof:
    """The largest, after the launch where the machine says it."""
    best = max(proofs, key=lambda proof: proof.value_us)
    if costs is None:
        return best
    witness = f"{costs.launch_us:g} us of launch, then {best.witness}"
    return replace(best, value_us=best.value_us + costs.launch_us, witness=witness)


def _executor_of(network: LogicalTopology) -> Executor:
    if network.executor is None:
        raise TopologyError(
            f"{network.name} does not say what executing costs", hint="a section executor: in its file"
        )
    return network.executor


def wires_bound(problem: Problem, limit: Budget | None = None) -> Proof:
    """What bytes through ports take at least, however finely they are cut: pieces go through in rounds.

    It is for data alone; a protocol puts `wire` bytes on the wire for each byte of data, which scales it.

    Parameters
    ----------
    limit : after which no proof is begun; None: a fixed amount of work.
    """
    network = problem.topology
    fluid = replace(network, alpha_us=np.zeros(network.num_links), occupancy="pipelined")
    limit = Budget.of_work(_PROVING) if limit is None else limit
    every = all_bounds(replace(problem, topology=fluid, symmetry=()), limit, any_chunks=True)
    return next((proof for proof in every if proof.holds_for_any_chunks), NOTHING)


def _carried(moved: Proof, wire: float) -> Proof:
    """The bound where `wire` bytes go over the wire for each byte of data; no alphas are in it."""
    return replace(moved, value_us=moved.value_us * wire)


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


def _blocks(problem: Problem, relays: Relays, costs: ProtocolCosts) -> Iterator[Proof]:
    """Bytes that thread blocks have to send and receive: each moves this many at once, one way."""
    ranks = problem.num_ranks
    if ranks > _MOST_RANKS:
        return
    instance = Instance(problem)
    crossings = instance.once(Crossings)
    blocks, fused = np.array(relays.blocks), relays.fused
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


def by_links(schedule: Schedule, machine: LogicalTopology) -> SavedSchedule:
    """The same sends in the same order on a machine as it is, checked, with a bound for it.

    So a file of it can be used with the machine's file, like any other.
    """
    problem = replace(schedule.problem, topology=machine)
    timed = in_order(problem, decisions_of(schedule))
    timed.check()
    bound = quick_bound(problem)
    return SavedSchedule(timed, bound.value_us, bound.witness)
