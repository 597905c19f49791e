"""A timeline as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

Format: "Trace Event Format" (JSON object form). A process is a rank, a thread is a thread block or a
link; times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from taccl.backend.show.timeline import KINDS, TRANSFER, Timeline
from taccl.collectives import IntArray

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
    whole: np.ndarray
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


def _arrows(timeline: Timeline, threads: _Threads) -> Iterable[Event]:
    bars = timeline.bars
    rank = timeline.lane_rank[bars.lane]
    number = 0
    for bar in np.flatnonzero(bars.kind == TRANSFER).tolist():
        ends = (int(rank[bar]), int(threads.sender[bar])), (int(bars.peer[bar]), int(threads.receiver[bar]))
        yield from _arrow(number, *ends, float(bars.start[bar]), float(bars.end[bar]))
        number += 1
    for sent, received in zip(*(column.tolist() for column in timeline.arrows), strict=True):
        ends = (
            (int(rank[sent]), int(threads.sender[sent])),
            (int(rank[received]), int(threads.sender[received])),
        )
        yield from _arrow(number, *ends, float(bars.start[sent]), float(bars.end[received]))
        number += 1


def _arrow(
    number: int, sender: tuple[int, int], receiver: tuple[int, int], start: float, end: float
) -> Iterator[Event]:
    """From the start of the send to the end of the receive; `bp: e` ties it to the slice there."""
    same = {"name": "transfer", "cat": "transfer", "id": number}
    yield {"ph": "s", **same, "pid": sender[0], "tid": sender[1], "ts": start}
    yield {"ph": "f", "bp": "e", **same, "pid": receiver[0], "tid": receiver[1], "ts": end}
