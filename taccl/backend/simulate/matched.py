"""A program that can run on a network: its sends matched with receives, and the link of each connection."""

from __future__ import annotations

import numpy as np

from taccl.backend.machine.acts import Acts
from taccl.backend.machine.deadlock import find_cycle
from taccl.backend.machine.report import Collector
from taccl.backend.machine.run import Run, run_acts
from taccl.backend.program import Program
from taccl.backend.verify.msccl_xml.columns import Columns
from taccl.backend.verify.msccl_xml.connections import Connections, connect
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.unfold import StepNames, unfold_acts
from taccl.errors import TopologyError, VerificationError
from taccl.model.collective import IntArray
from taccl.model.network import LogicalTopology

FINDINGS = 5


def matched(program: Program, topology: LogicalTopology) -> tuple[ExecutedSteps, Connections]:
    """What the runtimes make of a program, and its connections.

    Raises
    ------
    VerificationError : steps without another end or without chunks.
    TopologyError : another number of ranks.
    """
    if program.num_ranks != topology.num_members:
        raise TopologyError(
            f"the program is for {program.num_ranks} ranks, but {topology.name} has {topology.num_members}",
            hint="another --nodes, --topology or --sketch",
        )
    executed = ExecutedSteps.of(Columns.of(program))
    collector = Collector()
    connections = connect(executed, collector)
    findings = [str(finding) for finding in collector.findings()] if collector.fatal else []
    if not findings:
        for moves, connection, words in (
            (executed.sends, connections.sends_on, "send to"),
            (executed.receives, connections.receives_on, "receive from"),
        ):
            lost = np.flatnonzero(moves & (connection < 0))
            findings += [f"{executed.name(int(row))}: its thread block has nobody to {words}" for row in lost]
    counts = executed.columns.count[executed.step]
    findings += [
        f"{executed.name(int(row))}: cnt is {counts[row]}; a step moves at least one chunk"
        for row in np.flatnonzero(counts < 1)
    ]
    if findings:
        raise VerificationError(
            "the program cannot run, so it has no time",
            findings=findings[:FINDINGS],
            hint="taccl verify says all that is wrong",
        )
    return executed, connections


def links_of(executed: ExecutedSteps, connections: Connections, topology: LogicalTopology) -> IntArray:
    """The link of each connection, shape (num_connections,); -1 for those without any send.

    Raises
    ------
    TopologyError : a send between ranks that no link joins.
    """
    used = np.zeros(len(connections.keys), dtype=np.bool_)
    used[connections.sends_on[connections.sends_on >= 0]] = True
    links = np.full(len(connections.keys), -1, dtype=np.int64)
    for connection in np.flatnonzero(used).tolist():
        _, src, dst = connections.keys[connection]
        link = topology.link_index.get((src, dst))
        if link is None:
            first = int(np.flatnonzero(connections.sends_on == connection)[0])
            step = int(executed.step[first])
            raise TopologyError(
                f"{executed.name(first)} sends from rank {src} to rank {dst}, "
                f"but {topology.name} has no link from {src} to {dst}",
                line=int(executed.columns.line[step]) or None,
                hint="the topology or sketch that the file was made for; without a sketch, all links of the "
                "machine are there",
            )
        links[connection] = link
    return links


def run_steps(
    executed: ExecutedSteps, connections: Connections, slots: int, chunks_per_piece: int
) -> tuple[Acts, Run]:
    """Run the steps where a connection holds this many pieces of this many chunks."""
    acts = unfold_acts(executed, connections)
    return acts, run_acts(acts, capacity=slots, chunks_per_piece=chunks_per_piece)


def ranges_of(key: IntArray, value: IntArray, num_keys: int) -> tuple[IntArray, IntArray]:
    """The values of each key, rising and each once: where those of a key begin (and the end), and all."""
    width = int(value.max(initial=0)) + 1
    sorted_key, values = np.divmod(np.unique(key * width + value), width)
    return np.searchsorted(sorted_key, np.arange(num_keys + 1)), values


def hang(
    executed: ExecutedSteps, connections: Connections, slots: int, chunks_per_piece: int
) -> VerificationError:
    """The error for a program that hangs where a connection holds this many pieces of this many chunks."""
    acts, run = run_steps(executed, connections, slots, chunks_per_piece)
    names = StepNames(executed, connections, acts)
    return VerificationError(
        f"with {slots} slots per connection, of {chunks_per_piece} chunks of this size each, "
        "the program hangs, so it has no time",
        findings=[
            f"{names.act(stuck.act)} {names.wait(stuck)}"
            for stuck in (find_cycle(acts, None, run.stuck)[:FINDINGS] if run.stuck else ())
        ],
        hint="a smaller size; taccl verify says where and why it hangs",
    )
