"""One call of a plan, event by event, and what came of it. The model is in docs/simulate.md.

A plan that hangs has no time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.backend.plan import ExecutionPlan
from taccl.backend.simulate.executor.executed import check_blocks
from taccl.backend.simulate.plan.block import SimulatedBlock
from taccl.backend.simulate.plan.record import Acts, Moves
from taccl.backend.simulate.plan.run import PlanRun
from taccl.backend.simulate.simulated import Timed
from taccl.errors import VerificationError
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.units import MB
from taccl.support.gc_paused import gc_paused

_SHOWN = 10


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PlanSimulation(Timed):
    """One row per operation, by rank, thread block and place in the block; arrays of equal length.

    Parameters
    ----------
    plan : what ran.
    time_us : from the call until the last block has ended and the last byte has come; see `Timed`.
    start_us, end_us : when its block came to an operation, and when it went on; a pipeline is one operation.
    port_bytes : shape (num_ports,); what went through each port of `topology`.
    acts, moves : all that happened in it, turn by turn of pipelines.
    last : the act whose bytes or whose end came last; -1 in an empty plan.
    """

    plan: ExecutionPlan
    port_bytes: FloatArray
    acts: Acts
    moves: Moves
    last: int

    def __repr__(self) -> str:
        return f"PlanSimulation({self.plan.name}, {len(self.rank)} operations, {self.time_us:.2f} us)"


@gc_paused()
def simulate_plan(
    plan: ExecutionPlan,
    topology: LogicalTopology,
    chunk_mb: float,
    *,
    proxy_us: float = 0.0,
    links_only: bool = False,
    copy_us_per_mb: float = 0.0,
) -> PlanSimulation:
    """Run one call of a plan on a network.

    Parameters
    ----------
    plan : one in which every number leads somewhere (`one_sided.check_executable`).
    chunk_mb : MB of a chunk of the plan.
    proxy_us : what the proxy of a rank takes for each push into a port channel, one after another.
    links_only : whether to leave out what the machine says of its executor.
    copy_us_per_mb : what a copy at home takes where the executor is not known.

    Raises
    ------
    TopologyError : no link joins two ranks, or the executor says nothing about the plan's protocol.
    VerificationError : it hangs.
    """
    executor = None if links_only else topology.executor
    protocol = "LL" if plan.moves_packets else "Simple"
    costs = None if executor is None else executor.costs_of(protocol)
    if executor is not None:
        check_blocks([len(rank.blocks) for rank in plan.ranks], executor, "plan", "thread blocks")
    run = PlanRun(plan, topology, chunk_mb * MB, costs, proxy_us, copy_us_per_mb / MB)
    blocks = [
        SimulatedBlock(run, rank, number)
        for rank, each in enumerate(plan.ranks)
        for number in range(len(each.blocks))
    ]
    for block in blocks:
        run.resume(block.run())
    run.clock.run()
    stuck = [block for block in blocks if not block.has_ended]
    if stuck:
        reported = [f"{block.where()} waits for ever" for block in stuck]
        more = [f"and {len(reported) - _SHOWN} more"] if len(reported) > _SHOWN else []
        raise VerificationError(
            "the plan hangs, so it has no time",
            findings=[*reported[:_SHOWN], *more],
            hint="taccl run tells what each waits for, taccl verify why",
        )
    rows = sorted((*block.key, *row) for block in blocks for row in block.rows)
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    launch_us = None if costs is None else costs.launch_us
    before_us = launch_us or 0.0
    return PlanSimulation(
        plan=plan,
        topology=topology,
        chunk_mb=chunk_mb,
        time_us=run.record.last_us if costs is None else costs.call_us(run.record.last_us),
        launch_us=launch_us,
        rank=np.array(columns[0], dtype=np.int64),
        thread_block=np.array(columns[1], dtype=np.int64),
        step=np.array(columns[2], dtype=np.int64),
        start_us=np.array(columns[3], dtype=np.float64) + before_us,
        end_us=np.array(columns[4], dtype=np.float64) + before_us,
        port_bytes=run.clock.port_bytes,
        acts=run.record.acts(before_us),
        moves=run.record.moves(before_us),
        last=run.record.last,
    )
