"""A timeline as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Format: "Trace Event Format" (JSON object form). A process is a rank, a thread is a thread block or a
link; times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from taccl.backend.show.timeline import KINDS, TRANSFER, Timeline
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray

Event = dict[str, object]


def to_trace(timeline: Timeline) -> str:
    """The JSON text. A bar that is a whole transfer becomes a slice at either end, joined by an arrow.

    Where no times are known, a step takes a microsecond.
    """
    threads = _Threads.of(timeline)
    events = [*threads.names(timeline), *_slices(timeline, threads), *_arrows(timeline, threads)]
    about = {"title": timeline.title, **dict(timeline.facts)}
    if timeline.notes:
        about["note"] = " ".join(timeline.notes)
    head = json.dumps({"displayTimeUnit": "ns", "otherData": about})
    body = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    return f'{head[:-1]}, "traceEvents": [\n{body}\n]}}\n'


@dataclass(frozen=True, eq=False)
class _Threads:
    """Thread numbers: a thread per lane and track, and for whole transfers one at the receiving rank too.

    Slices of one thread must not overlap by part, hence the tracks.
    """

    sender: IntArray
    receiver: IntArray
    whole: BoolArray
    lane: IntArray
    track: IntArray

    @staticmethod
    def of(timeline: Timeline) -> _Threads:
        bars = timeline.bars
        width = int(bars.track.max(initial=0)) + 1
        _, first, thread = np.unique(bars.lane * width + bars.track, return_index=True, return_inverse=True)
        whole = bars.kind == TRANSFER
        return _Threads(
            2 * thread, np.where(whole, 2 * thread + 1, -1), whole[first], bars.lane[first], bars.track[first]
        )

    def names(self, timeline: Timeline) -> Iterator[Event]:
        for rank in range(timeline.num_ranks):
            yield _name("process_name", rank, 0, f"rank {rank} (node {timeline.node_of[rank]})")
            yield {
                "ph": "M",
                "name": "process_sort_index",
                "pid": rank,
                "tid": 0,
                "args": {"sort_index": rank},
            }
        peer = dict(zip(self.sender.tolist(), timeline.bars.peer.tolist(), strict=True))
        for number, (lane, track) in enumerate(zip(self.lane.tolist(), self.track.tolist(), strict=True)):
            rank, name = int(timeline.lane_rank[lane]), timeline.lane_name[lane]
            more = f" ({track + 1})" if track else ""
            if self.whole[number]:
                yield _name("thread_name", rank, 2 * number, f"send {name}{more}")
                yield _name("thread_name", peer[2 * number], 2 * number + 1, f"receive {name}{more}")
            else:
                yield _name("thread_name", rank, 2 * number, f"{name}{more}")


def _name(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def _slices(timeline: Timeline, threads: _Threads) -> Iterator[Event]:
    bars = timeline.bars
    rank = timeline.lane_rank[bars.lane].tolist()
    columns = zip(
        rank,
        threads.sender.tolist(),
        threads.receiver.tolist(),
        bars.start.tolist(),
        bars.end.tolist(),
        bars.kind.tolist(),
        bars.label.tolist(),
        bars.bytes.tolist(),
        bars.peer.tolist(),
        bars.number.tolist(),
        bars.critical.tolist(),
        strict=True,
    )
    for pid, tid, other, start, end, kind, label, size, peer, number, critical in columns:
        event: Event = {
            "ph": "X",
            "name": timeline.labels[label] or KINDS[kind],
            "cat": "send" if kind == TRANSFER else KINDS[kind],
            "pid": pid,
            "tid": tid,
            "ts": start,
            "dur": end - start,
            "args": {"number": number, "bytes": size, "peer": peer, "critical": critical},
        }
        yield event
        if kind == TRANSFER:
            args = {"number": number, "bytes": size, "peer": pid, "critical": critical}
            yield event | {"cat": "receive", "pid": peer, "tid": other, "args": args}


def _arrows(timeline: Timeline, threads: _Threads) -> Iterator[Event]:
    """From the middle of a send to the middle of its receive: a viewer ties an end to the slice around it."""
    bars = timeline.bars
    rank, middle = timeline.lane_rank[bars.lane], (bars.start + bars.end) / 2
    whole = np.flatnonzero(bars.kind == TRANSFER)
    sent, received = timeline.arrows
    tails = zip(*_columns(whole, rank, threads.sender, middle), strict=True)
    heads = zip(*_columns(whole, bars.peer, threads.receiver, middle), strict=True)
    more_tails = zip(*_columns(sent, rank, threads.sender, middle), strict=True)
    more_heads = zip(*_columns(received, rank, threads.sender, middle), strict=True)
    pairs = zip(chain(tails, more_tails), chain(heads, more_heads), strict=True)
    for number, (tail, head) in enumerate(pairs):
        for phase, (process, thread, moment) in (({"ph": "s"}, tail), ({"ph": "f", "bp": "e"}, head)):
            place = {"pid": process, "tid": thread, "ts": moment}
            yield {**phase, "name": "transfer", "cat": "transfer", "id": number, **place}


def _columns(rows: IntArray, *columns: IntArray | FloatArray) -> list[list[float]]:
    return [column[rows].tolist() for column in columns]
