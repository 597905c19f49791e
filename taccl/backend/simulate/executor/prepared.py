"""A program on a network as columns for the event loop, made once, and its time under any costs.

The model and the evidence for it: docs/cost-model.md, "The executor".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain

import numpy as np

from taccl.backend.program import Op, Program
from taccl.backend.simulate.executor.columns import CallColumns, Filled, StepColumns
from taccl.backend.simulate.matched import links_of, matched, ranges_of
from taccl.backend.step_rows import OPS
from taccl.backend.verify.msccl_xml.connections import Connections
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.limits import MAX_COUNT
from taccl.errors import TacclError, TopologyError
from taccl.model.collective import IntArray
from taccl.model.executor import Executor, ProtocolCosts
from taccl.model.network import FloatArray, LogicalTopology
from taccl.model.units import MB

#: Rounds that are executed; a longer call goes on as the last half of these did.
ROUNDS = 128
#: Of a large program fewer, but not fewer than the second: this many steps are executed in all.
_STEPS, _FEWEST_ROUNDS = 2**22, 16


@dataclass(frozen=True, eq=False)
class ExecutorRun:
    """What one execution took.

    Parameters
    ----------
    time_us : from the call to the end of the last thread block; infinite for a program that hangs.
    rounds : how often the program runs through its steps, each time for a piece of every chunk.
    chunks_per_piece : chunks that the steps move at once.
    executed_rounds : how many of these were executed; the rest was taken to go on like their last half.
    stuck : thread blocks that did not come to their end.
    step_start_us, step_end_us : shape (num_executed,); when each step began first, and ended last, of what
        was executed, counted from the end of the launch.
    port_bytes : shape (num_ports,); bytes of data through each port, of what was executed.
    """

    time_us: float
    rounds: int
    chunks_per_piece: int
    executed_rounds: int
    stuck: int
    step_start_us: FloatArray
    step_end_us: FloatArray
    port_bytes: FloatArray


@dataclass(frozen=True, eq=False)
class Prepared:
    """A program on a network, ready to be executed under many costs.

    Its columns do not hang on sizes, costs or protocols, so fitting makes them once for each program.
    """

    program: Program
    topology: LogicalTopology
    executed: ExecutedSteps
    connections: Connections
    columns: StepColumns

    @staticmethod
    def of(program: Program, topology: LogicalTopology) -> Prepared:
        """The columns of a program.

        Raises
        ------
        VerificationError : steps without another end or without chunks.
        TopologyError : a send between ranks that no link joins, or another number of ranks.
        """
        executed, connections = matched(program, topology)
        op = executed.columns.op[executed.step]
        sources = executed.sources_merged
        number, (starts, awaited) = len(executed), executed.flat_waits
        never = np.array([row for row, _ in executed.never], dtype=np.int64)
        row = np.append(np.repeat(np.arange(number), np.diff(starts)), never)
        awaited = np.append(awaited, np.full(len(never), number))  # a step that is never done
        link_first = topology.first_pair
        port = topology.incidence[1]
        columns = (
            executed.first_of_block,
            np.append(_KIND[op], 0),
            np.append(executed.columns.count[executed.step], 1),
            np.append(connections.receives_on, -1),
            np.append(connections.sends_on, -1),
            np.append(sources, 1),
            *ranges_of(row, awaited, number),
            *ranges_of(awaited, executed.block[row], number + 1),
            connections.sender,
            connections.receiver,
            links_of(executed, connections, topology),
            link_first,
            port,
            *_ranges([list(dict.fromkeys(links)) for links in topology.port_links]),
        )
        return Prepared(
            program,
            topology,
            executed,
            connections,
            StepColumns(*(np.ascontiguousarray(column, dtype=np.int64) for column in columns)),
        )

    def run(
        self,
        executor: Executor,
        protocol: str,
        size_bytes: float,
        topology: LogicalTopology | None = None,
        rounds: int | None = None,
    ) -> ExecutorRun:
        """Execute the program once.

        Parameters
        ----------
        executor, protocol : what executing costs, and the protocol that the call is run with.
        size_bytes : the buffer of the call that `chunks_per_loop` chunks make up (nccl-tests' `size`).
        topology : another network with the same links and ports, whose alphas and betas count.
        rounds : this many are executed at most, and the rest goes on as the last half of these. None: 128, or
            fewer (but 16) of a program with more than 32,768 steps.

        Raises
        ------
        TopologyError : the executor does not know the protocol, or a network of another shape.
        TacclError : a size that is none.
        """
        from taccl.backend.simulate.executor.events import run  # compiling takes a while

        network = self.topology if topology is None else topology
        if network.num_pairs != self.topology.num_pairs or network.num_links != self.topology.num_links:
            raise TopologyError("the network has other links than the one that the program was prepared for")
        if not 0 < size_bytes < math.inf:
            raise TacclError(f"a call has more than 0 bytes, not {size_bytes}")
        costs = executor.costs_of(protocol)
        chunk = size_bytes / self.program.chunks_per_loop
        whole = chunk / costs.piece_bytes
        total = max(1, math.ceil(whole))
        if rounds is None:
            rounds = max(_FEWEST_ROUNDS, min(ROUNDS, _STEPS // max(1, len(self.executed))))
        done = min(total, max(2, rounds))
        call = _call(executor, costs, network, chunk, done)
        num_steps = len(self.executed)
        filled = Filled.empty(done, num_steps, network.num_ports)
        stuck = run(self.columns, call, filled)
        last_us = float(filled.round_end[-1]) if num_steps else 0.0
        if done < total:
            half = done // 2
            last_us += (whole - done) * (last_us - float(filled.round_end[half - 1])) / (done - half)
        return ExecutorRun(
            math.inf if stuck else costs.call_us(last_us),
            total,
            call.chunks_per_piece,
            done,
            stuck,
            filled.step_start[:num_steps],
            filled.step_end[:num_steps],
            filled.port_bytes,
        )

    def predict_us(
        self, executor: Executor, protocol: str, size_bytes: float, topology: LogicalTopology | None = None
    ) -> float:
        """How long a call takes, microseconds; infinite for one that hangs. Raises as `run` does."""
        return self.run(executor, protocol, size_bytes, topology).time_us


def _call(
    executor: Executor, costs: ProtocolCosts, network: LogicalTopology, chunk_bytes: float, rounds: int
) -> CallColumns:
    """What a call costs whose chunks have this many bytes, in this many rounds.

    Times are made floats: for each that is a whole number the loop would be compiled again, 15 seconds.
    """
    shape, sum_us_per_byte = costs.shape, 1e-3 / executor.reduce_gbps
    return CallColumns(
        alpha_us=np.asarray(network.alpha_us, dtype=np.float64),
        pair_us_per_byte=np.asarray(network.pair_betas * (shape.wire / MB), dtype=np.float64),
        rounds=rounds,
        chunk_bytes=float(chunk_bytes),
        piece_bytes=float(costs.piece_bytes),
        chunks_per_piece=max(1, min(MAX_COUNT, int(costs.piece_bytes / chunk_bytes))),
        slices=shape.slices,
        least_slice=float(shape.least_slice_bytes),
        slots=shape.slots,
        cut_through=shape.cut_through,
        hop_us=float(costs.hop_us),
        slice_us=float(costs.slice_us),
        empty_us=float(costs.empty_us),
        least_us=float(costs.least_us),
        block_us_per_byte=costs.block_us_per_byte,
        reduce_us=float(executor.reduce_us),
        reduce_us_per_byte=sum_us_per_byte,
        copy_us=float(executor.reduce_us if executor.copy_us is None else executor.copy_us),
        copy_us_per_byte=sum_us_per_byte if executor.copy_gbps is None else 1e-3 / executor.copy_gbps,
        room_us=float(executor.room_us),
        sharpness=math.inf if executor.link_sharpness is None else float(executor.link_sharpness),
    )


def predict_us(
    program: Program | Prepared,
    topology: LogicalTopology,
    executor: Executor,
    protocol: str,
    size_bytes: float,
) -> float:
    """How long a call of `size_bytes` takes, microseconds; infinite for one that hangs.

    Raises
    ------
    VerificationError : steps without another end or without chunks.
    TopologyError : a send between ranks that no link joins, or a protocol that the executor does not know.
    """
    prepared = program if isinstance(program, Prepared) else Prepared.of(program, topology)
    return prepared.predict_us(executor, protocol, size_bytes, topology)


def _kind(op: Op) -> int:
    if op.sends or op.receives:
        return 2 if op.sends and op.receives else 0 if op.sends else 1
    return 3 if op is Op.REDUCE else 4


#: What each operation is to the event loop, in the order of `OPS`.
_KIND: IntArray = np.array([_kind(op) for op in OPS], dtype=np.int64)


def _ranges(lists: list[list[int]]) -> tuple[IntArray, IntArray]:
    """Where each list begins (and the end), and all of them one after another."""
    first = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return first, np.array(list(chain.from_iterable(lists)), dtype=np.int64)
