"""The timeline of a schedule: a lane per link that is used, a bar per transfer of one chunk.

Where chunks are made late, worked on or used, each rank has a lane for that before those of its links.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from taccl.backend.show.critical import critical_sends
from taccl.backend.show.facts import schedule_facts
from taccl.backend.show.timeline import COMPUTE, TRANSFER, Bars, Timeline, labelled_bars, tracks
from taccl.model import units
from taccl.model.collective import IntArray
from taccl.model.schedule import SavedSchedule, Schedule
from taccl.model.schedule.computing import WORDS, computing_of

#: Up to this many chunks each is described in words.
_MAX_LABELS = 200_000


def schedule_timeline(saved: SavedSchedule, notes: tuple[str, ...] = ()) -> Timeline:
    """Rows of bars by lane and start; lanes by source and destination.

    The bound of `saved` is shown as proven, so the caller stands for it.
    """
    schedule = saved.schedule.sorted()
    topology, sends = schedule.problem.topology, schedule.sends
    used = np.unique(schedule.link)
    used = used[np.lexsort((topology.dst[used], topology.src[used]))]
    lane_of = np.full(topology.num_links, -1, dtype=np.int64)
    lane_of[used] = np.arange(len(used))
    track = tracks(lane_of[sends.link], sends.start_us, sends.end_us)
    critical = np.zeros(len(sends), dtype=np.bool_)
    path = critical_sends(schedule)
    critical[path] = True
    order = np.lexsort((schedule.chunk, schedule.start_us, lane_of[schedule.link]))
    rows, of_send = schedule.take(order), sends.of_row[order]
    label, labels = _labels(schedule, rows.chunk)
    links = Timeline(
        title=f"{schedule.problem.collective.name} on {topology.name}",
        facts=(*schedule_facts(saved), ("critical path", _about(path, schedule))),
        notes=notes,
        unit="us",
        span=schedule.makespan_us,
        transfers=len(schedule),
        node_of=topology.node_of,
        lane_rank=topology.src[used],
        lane_name=tuple(f"{topology.src[link]} → {topology.dst[link]}" for link in used),
        bars=Bars(
            lane=lane_of[rows.link],
            start=rows.start_us,
            end=rows.end_us,
            track=track[of_send],
            slot=_slots(of_send, sends.count),
            slots=sends.count[of_send],
            source=schedule.problem.collective.owner[rows.chunk],
            label=label,
            bytes=schedule.problem.size_mb[rows.chunk] * units.MB,
            link=rows.link,
            peer=rows.dst,
            kind=np.full(len(rows), TRANSFER),
            number=rows.chunk,
            critical=critical[of_send],
        ),
        labels=labels,
        arrows=(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)),
        topology=topology,
    )
    return _with_computing(links, schedule)


def _with_computing(links: Timeline, schedule: Schedule) -> Timeline:
    """The timeline with what computing there is, one lane before the links of each rank."""
    computing, collective = computing_of(schedule), schedule.problem.collective
    if not len(computing):
        return links
    words = [
        f"{WORDS[what]} {collective.describe_chunk(chunk)}"
        for what, chunk in zip(computing.what.tolist(), computing.chunk.tolist(), strict=True)
    ]
    ranks, lane = np.unique(computing.rank, return_inverse=True)
    many, none = len(computing), np.full(len(computing), -1)
    bars, labels = labelled_bars(
        words,
        lane=lane,
        start=computing.start_us,
        end=computing.end_us,
        source=none,
        bytes=schedule.problem.size_mb[computing.chunk] * units.MB,
        link=none,
        peer=none,
        kind=np.full(many, COMPUTE),
        number=computing.chunk,
        critical=np.zeros(many, dtype=np.bool_),
    )
    shifted = replace(bars, label=bars.label + len(links.labels))
    lane_rank = np.concatenate([ranks, links.lane_rank])
    order = np.argsort(lane_rank, kind="stable")  # a rank's own lane stands first
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    names = (*("computing" for _ in ranks), *links.lane_name)
    later = replace(links.bars, lane=links.bars.lane + len(ranks))
    columns = {
        each.name: np.concatenate([getattr(part, each.name) for part in (shifted, later)])
        for each in fields(Bars)
    }
    columns["lane"] = place[columns["lane"]]
    rows = np.lexsort((columns["start"], columns["lane"]))
    return replace(
        links,
        lane_rank=lane_rank[order],
        lane_name=tuple(names[each] for each in order.tolist()),
        bars=Bars(**{name: column[rows] for name, column in columns.items()}),
        labels=(*links.labels, *labels),
    )


def _about(path: IntArray, schedule: Schedule) -> str:
    sends = schedule.sends
    moving = float((sends.end_us[path] - sends.start_us[path]).sum())
    share = 100 * moving / schedule.makespan_us if schedule.makespan_us else 0.0
    return f"{len(path)} sends, which take {share:.0f}% of the time"


def _labels(schedule: Schedule, chunk: IntArray) -> tuple[IntArray, tuple[str, ...]]:
    collective = schedule.problem.collective
    moved, label = np.unique(chunk, return_inverse=True)
    if len(moved) <= _MAX_LABELS:
        return label, tuple(collective.describe_chunk(int(each)) for each in moved)
    return label, tuple(f"chunk {each}" for each in moved)


def _slots(of_send: IntArray, count: IntArray) -> IntArray:
    """The position of each row among those of its send, in the order of the rows."""
    order = np.argsort(of_send, kind="stable")
    first = np.cumsum(count) - count
    slot = np.empty(len(of_send), dtype=np.int64)
    slot[order] = np.arange(len(of_send)) - first[of_send[order]]
    return slot
