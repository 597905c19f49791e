"""Who sends to whom: connections, and the k-th send matched with the k-th receive on each.

A connection is (channel, source rank, destination rank). It carries no tags: order alone decides
which receive gets what. Exactly one thread block may send on it and exactly one may receive.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taccl.backend.machine.report import Collector, Finding
from taccl.backend.verify.msccl_xml.columns import Columns
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.model.collective import BoolArray, IntArray

Key = tuple[int, int, int]  # channel, source rank, destination rank


@dataclass(frozen=True, eq=False)
class Connections:
    """Matched steps.

    Parameters
    ----------
    keys : (channel, source rank, destination rank) of each connection.
    sender, receiver : shape (num_connections,); the block row at each end.
    sends_on, receives_on : shape (num_executed,); the connection of a step's send and of its
        receive, -1 for none.
    source : shape (num_executed,); the step whose send this one receives, -1 for none.
    """

    keys: tuple[Key, ...]
    sender: IntArray
    receiver: IntArray
    sends_on: IntArray
    receives_on: IntArray
    source: IntArray

    def name(self, connection: int) -> str:
        channel, source, target = self.keys[connection]
        return f"channel {channel} from rank {source} to rank {target}"


def connect(executed: ExecutedSteps, collector: Collector) -> Connections:
    """Match sends with receives; every fault found is fatal, since the data would go astray."""
    columns = executed.columns
    senders = _ends(columns, columns.block_send, sending=True)
    receivers = _ends(columns, columns.block_recv, sending=False)
    _one_block_at_each_end(columns, senders, receivers, collector)
    keys = tuple(sorted(key for key in senders if key in receivers))
    sends_on, source = np.full(len(executed), -1), np.full(len(executed), -1)
    receives_on = np.full(len(executed), -1)
    connections = Connections(
        keys=keys,
        sender=np.array([senders[key][0] for key in keys], dtype=np.int64),
        receiver=np.array([receivers[key][0] for key in keys], dtype=np.int64),
        sends_on=sends_on,
        receives_on=receives_on,
        source=source,
    )
    sends, receives = executed.sends, executed.receives
    for connection, key in enumerate(keys):
        sent = _of_block(executed, senders[key][0], sends)
        received = _of_block(executed, receivers[key][0], receives)
        sends_on[sent], receives_on[received] = connection, connection
        _same_length_and_counts(executed, connections, connection, sent, received, collector)
        matched = min(len(sent), len(received))
        source[received[:matched]] = sent[:matched]
    return connections


def _ends(columns: Columns, peer: IntArray, sending: bool) -> dict[Key, list[int]]:
    """Blocks by the connection that they declare an end of."""
    ends: dict[Key, list[int]] = {}
    for block in np.flatnonzero(peer >= 0):
        channel, rank = int(columns.block_channel[block]), int(columns.block_rank[block])
        key = (channel, rank, int(peer[block])) if sending else (channel, int(peer[block]), rank)
        ends.setdefault(key, []).append(int(block))
    return ends


def _of_block(executed: ExecutedSteps, block: int, wanted: BoolArray) -> IntArray:
    first, end = executed.first_of_block[block], executed.first_of_block[block + 1]
    found: IntArray = first + np.flatnonzero(wanted[first:end])
    return found


def _one_block_at_each_end(
    columns: Columns, senders: dict[Key, list[int]], receivers: dict[Key, list[int]], collector: Collector
) -> None:
    for ends, others, verbs in (
        (senders, receivers, ("send to", "sends to", "receives from")),
        (receivers, senders, ("receive from", "receives from", "sends to")),
    ):
        for key, blocks in ends.items():
            channel, source, target = key
            rank, peer = (source, target) if ends is senders else (target, source)
            if len(blocks) > 1:
                ids = " and ".join(str(columns.block_id[block]) for block in blocks)
                message = (
                    f"thread blocks {ids} of rank {rank} both {verbs[0]} rank {peer} on channel {channel}; "
                    "each counts its slots for itself, so data get mixed up"
                )
                hint = "give one of them another channel, at both ends"
                finding = Finding("concurrency", "error", "shared-connection", message, hint=hint)
                collector.add(finding.at(columns.location(blocks[1])), fatal=True)
            if key not in others:
                message = (
                    f"{columns.name_of_block(blocks[0])}: {verbs[1]} rank {peer} on channel {channel}, but "
                    f"no thread block of rank {peer} {verbs[2]} rank {rank} on that channel"
                )
                hint = "add the other end, or set the peer to -1"
                finding = Finding("concurrency", "error", "unmatched-connection", message, hint=hint)
                collector.add(finding.at(columns.location(blocks[0])), fatal=True)


def _same_length_and_counts(
    executed: ExecutedSteps,
    connections: Connections,
    connection: int,
    sent: IntArray,
    received: IntArray,
    collector: Collector,
) -> None:
    columns, steps = executed.columns, executed.step

    def add(row: int, rule: str, message: str, hint: str) -> None:
        finding = columns.at_step(int(steps[row]), "concurrency", "error", rule, message, hint)
        collector.add(finding, fatal=True)

    if len(sent) != len(received):
        is_send = len(sent) > len(received)
        longer, shorter = (sent, received) if is_send else (received, sent)
        verb, other = ("send", "receive") if is_send else ("receive", "send")
        message = (
            f"this {verb} on {connections.name(connection)} has no other end: there are {len(sent)} sends "
            f"and {len(received)} receives"
        )
        add(longer[len(shorter)], "unmatched-transfer", message, f"remove it, or add the missing {other}")
    matched = min(len(sent), len(received))
    gone, come = columns.count[steps[sent[:matched]]], columns.count[steps[received[:matched]]]
    for k in np.flatnonzero(gone != come)[:1]:
        message = f"receives {come[k]} chunks where {executed.name(int(sent[k]))} sends {gone[k]}"
        add(received[k], "count-mismatch", message, "give both the same cnt")
