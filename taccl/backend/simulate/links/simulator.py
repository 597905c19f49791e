"""Event simulation of a program: thread blocks, waits, connections, ports.

- A thread block runs its steps in order; a step waits for what it depends on.
- A send starts when its connection has room for it (or, if it is larger than that, when its receiver is
  there to take it) and all ports of its link are free. It keeps each of these for as long as `occupancy`
  and its rate say, its thread block for as long as the slowest, and its receiver has the data at its end.
- A receive is done at the end of what it takes, and then gives the room back.
- A fused step receives, then sends, each as above: the cost model knows no cut-through between steps.
- A port goes to the most urgent send, the one with the longest way behind it to the end of the program;
  of equals, to the one that was ready first, then to the lower rank and thread block. A send that another
  port keeps waiting does not reserve this one. Instances that share a port are equals, so they take
  turns.
- Local steps and nops take no time, unless copies are given a cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from taccl.backend.machine.acts import Kind
from taccl.backend.program import Program, Protocol
from taccl.backend.simulate.links.costs import OVERHEAD, PortCosts, costs_of
from taccl.backend.simulate.links.events import Steps, run_events
from taccl.backend.simulate.links.simulation import Simulation
from taccl.backend.simulate.matched import hang, matched, ranges_of, run_steps
from taccl.backend.simulate.settings import Arbitration
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.errors import TacclError
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.support.gc_paused import gc_paused
from taccl.support.jit import Loop

#: Times that agree to this many decimals (of a microsecond) are equal.
DECIMALS = 6


@gc_paused()
def simulate_program(
    program: Program,
    topology: LogicalTopology,
    chunk_mb: float,
    *,
    protocol: Protocol | None = None,
    slots: int | None = None,
    arbitration: Arbitration = "urgent",
    copy_us_per_mb: float = 0.0,
) -> Simulation:
    """Run a program once under the cost model.

    Parameters
    ----------
    chunk_mb : MB of one chunk of the program.
    protocol : run it as if the file requested this one, and let its flags take their share of every
        link's bandwidth. By default the protocol of the file, with no such share: so the time is that
        of the cost model, which schedules are made for.
    slots : pieces that a connection holds; by default what the protocol has.
    arbitration : whom a port serves first, the most `urgent` send or the `first-come`. A file cannot say
        in which order sends of several ranks share a port, so a schedule's order may be lost.
    copy_us_per_mb : what local copies and additions take. The cost model says nothing.

    Raises
    ------
    VerificationError : steps without another end or without chunks, or a hang (with the cycle).
    TopologyError : a send between ranks that no link joins, or another number of ranks.
    """
    if not chunk_mb > 0 or not copy_us_per_mb >= 0 or (slots is not None and slots < 1):
        raise TacclError("chunks must be larger than 0 MB, copies take 0 us/MB or more, slots be 1 or more")
    executed, connections = matched(program, topology)
    costs = costs_of(
        executed,
        connections,
        topology,
        chunk_mb,
        program.protocol if protocol is None else protocol,
        1.0 if protocol is None else OVERHEAD[protocol],
        slots,
        copy_us_per_mb,
    )
    order = _execute(executed, connections, costs)
    urgency = urgency_us(executed, connections, costs, order)
    if arbitration == "first-come":
        urgency = np.zeros(len(executed))
    simulation = _run(executed, connections, topology, costs, urgency, chunk_mb)
    return simulation if protocol is None else replace(simulation, counts_flags=True)


def _execute(executed: ExecutedSteps, connections: Connections, costs: PortCosts) -> IntArray:
    """Steps in an order in which they can be done; an error if there is none."""
    acts, run = run_steps(executed, connections, costs.slots, costs.chunks_per_piece)
    if run.ends:
        rows = run.sequence[0]
        order: IntArray = acts.operation[rows[acts.kind[rows] == Kind.MOVE]].astype(np.int64)
        return order
    raise hang(executed, connections, costs.slots, costs.chunks_per_piece)


def _run(
    executed: ExecutedSteps,
    connections: Connections,
    topology: LogicalTopology,
    costs: PortCosts,
    urgency_us: FloatArray,
    chunk_mb: float,
) -> Simulation:
    """All events, as columns over the executed steps."""
    source, link = connections.source, costs.link
    columns = run_events(
        len(executed),
        steps=_steps(executed, connections, topology, costs, urgency_us),
        slots=costs.slots,
        num_connections=len(connections.keys),
        num_ports=topology.num_ports,
    )
    ready_us, start_us, end_us, done_us, port_busy_us = (np.array(column, dtype=float) for column in columns)
    blocks, rows = executed.columns, executed.step
    return Simulation(
        program=blocks.program,
        topology=topology,
        chunk_mb=chunk_mb,
        time_us=max(float(end_us.max(initial=0.0)), float(done_us.max(initial=0.0))),
        rank=blocks.block_rank[executed.block],
        thread_block=blocks.block_id[executed.block],
        step=blocks.position[rows],
        link=np.where((link < 0) & (source >= 0), link[source], link),
        ready_us=ready_us,
        start_us=start_us,
        end_us=end_us,
        done_us=done_us,
        source=source,
        port_busy_us=port_busy_us,
    )


def _steps(
    executed: ExecutedSteps,
    connections: Connections,
    topology: LogicalTopology,
    costs: PortCosts,
    urgency_us: FloatArray,
) -> Steps:
    """What the event loop reads."""
    number, source, link = len(executed), connections.source, costs.link
    starts, awaited = executed.flat_waits
    first_waiter, waiters = ranges_of(awaited, np.repeat(np.arange(number), np.diff(starts)), number)
    sends = np.flatnonzero(link >= 0)
    send, pair = topology.pairs_of(link[sends])
    many_ports = np.zeros(number, dtype=np.int64)
    many_ports[sends] = np.diff(topology.first_pair)[link[sends]]
    end_port = np.cumsum(many_ports)
    return Steps(
        first_of_block=executed.first_of_block,
        block=executed.block,
        source=source,
        target=_takers(source),
        receives_on=connections.receives_on,
        sends_on=connections.sends_on,
        busy_us=costs.busy_us,
        latency_us=costs.latency_us,
        local_us=costs.local_us,
        pieces=costs.pieces,
        urgency_us=urgency_us,
        num_waits=np.bincount(waiters, minlength=number),
        first_waiter=first_waiter,
        waiters=waiters,
        first_port=end_port - many_ports,
        end_port=end_port,
        ports=topology.incidence[1][pair],
        ports_us=costs.busy_us[sends[send]] if costs.ports_us is None else costs.ports_us,
    )


def _takers(source: IntArray) -> IntArray:
    """The receive that takes each send, or -1."""
    received = np.flatnonzero(source >= 0)
    taker = np.full(len(source), -1, dtype=np.int64)
    taker[source[received]] = received
    return taker


def urgency_us(
    executed: ExecutedSteps, connections: Connections, costs: PortCosts, order: IntArray
) -> FloatArray:
    """For each step, microseconds from its start to the end of what must follow it.

    What must follow are the next step of its thread block, the steps that wait for it, and the receive
    of what it sends. Room in connections is not looked at.

    Parameters
    ----------
    order : all steps, each after all that it must follow.
    """
    starts, awaited = executed.flat_waits
    way_us = _longest_chains(
        len(executed),
        order=order,
        block=executed.block,
        source=connections.source,
        starts=starts,
        awaited=awaited,
        busy_us=costs.busy_us,
        latency_us=costs.latency_us,
        local_us=costs.local_us,
    )
    return np.round(np.array(way_us, dtype=np.float64), DECIMALS)


def _chains(
    order: Sequence[int],
    block: Sequence[int],
    source: Sequence[int],
    starts: Sequence[int],
    awaited: Sequence[int],
    busy_us: Sequence[float],
    latency_us: Sequence[float],
    local_us: Sequence[float],
) -> list[float]:
    after = [0.0] * len(block)  # from when the thread block is done with it
    on_arrival = [0.0] * len(block)  # from when its receiver has it
    chains_us = [0.0] * len(block)
    for place in range(len(order) - 1, -1, -1):
        row = order[place]
        way = busy_us[row] + local_us[row] + max(after[row], latency_us[row] + on_arrival[row])
        chains_us[row] = way
        if row and block[row - 1] == block[row]:
            after[row - 1] = max(after[row - 1], way)
        for wait in range(starts[row], starts[row + 1]):
            after[awaited[wait]] = max(after[awaited[wait]], way)
        if source[row] >= 0:
            on_arrival[source[row]] = max(on_arrival[source[row]], way)
    return chains_us


_longest_chains = Loop(_chains)
