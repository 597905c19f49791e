"""What each step of a program costs on a topology, and the room that its connection needs.

The runtimes cut what they send into pieces and keep a fixed number of them in each connection; a piece
holds as many whole chunks as fit. A chunk larger than a piece goes through the whole program
piece by piece; here it moves as one, as the cost model says, and takes the room of one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.backend.program import Protocol
from taccl.backend.simulate.matched import links_of
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.limits import EXECUTOR, MAX_COUNT, SLOTS, group_bytes
from taccl.model.collective import IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.units import MB

#: Bytes on the wire per byte of data: LL sends a flag of 4 bytes with every 4, LL128 one of 8 with every 120.
OVERHEAD = {Protocol.SIMPLE: 1.0, Protocol.LL: 2.0, Protocol.LL128: 128 / 120}


@dataclass(frozen=True, eq=False)
class PortCosts:
    """Arrays over the steps of a program.

    Parameters
    ----------
    link : shape (num_executed,); over which a step sends, -1 if it does not.
    busy_us : for how long it keeps its thread block, and the slowest of its ports.
    ports_us : for how long each send keeps each port of its link, one after the other; None where that is
        `busy_us` for all.
    latency_us : from then until the receiver has what it sent.
    local_us : how long a local step takes.
    pieces : room that what it sends takes in its connection.
    slots, chunks_per_piece : room in a connection, and chunks that take the room of one.
    """

    link: IntArray
    busy_us: FloatArray
    ports_us: FloatArray | None
    latency_us: FloatArray
    local_us: FloatArray
    pieces: IntArray
    slots: int
    chunks_per_piece: int


def costs_of(
    executed: ExecutedSteps,
    connections: Connections,
    topology: LogicalTopology,
    chunk_mb: float,
    protocol: Protocol,
    overhead: float,
    slots: int | None,
    copy_us_per_mb: float,
) -> PortCosts:
    """Costs on a topology of every step of a program, all of whose sends are matched.

    Raises
    ------
    TopologyError : a send between ranks that no link joins.
    """
    columns = executed.columns
    on = connections.sends_on
    sends = on >= 0
    link = np.full(len(executed), -1, dtype=np.int64)
    link[sends] = links_of(executed, connections, topology)[on[sends]]
    count = columns.count[executed.step]
    size = count * chunk_mb * overhead
    busy, whole = np.zeros(len(executed)), np.zeros(len(executed))
    busy[sends] = topology.slowest_busy_us(link[sends], size[sends])
    whole[sends] = topology.duration_us(link[sends], size[sends])
    moves = sends | (connections.receives_on >= 0)
    merged = executed.sources_merged
    fits = group_bytes(columns.program, EXECUTOR, protocol) // max(1.0, chunk_mb * MB)
    per_piece = min(MAX_COUNT, max(1, int(fits)))
    return PortCosts(
        link=link,
        busy_us=busy,
        ports_us=_ports_us(topology, link, size),
        latency_us=np.maximum(0.0, whole - busy),
        local_us=np.where(moves, 0.0, count * merged * chunk_mb * copy_us_per_mb),
        pieces=-(-count // per_piece),
        slots=SLOTS[protocol] if slots is None else slots,
        chunks_per_piece=per_piece,
    )


def _ports_us(topology: LogicalTopology, link: IntArray, size_mb: FloatArray) -> FloatArray | None:
    """For how long each send keeps each port of its link, in the order of the ports."""
    if topology.port_betas is None:
        return None
    sends = np.flatnonzero(link >= 0)
    send, pair = topology.pairs_of(link[sends])
    return topology.port_busy_us(pair, size_mb[sends[send]])
