"""The timeline of a schedule: a lane per link that is used, a bar per transfer of one chunk."""

from __future__ import annotations

import math

import numpy as np

from taccl import units
from taccl.backend.show.critical import critical_sends
from taccl.backend.show.timeline import TRANSFER, Bars, Timeline, tracks
from taccl.collectives import IntArray
from taccl.schedule import SavedSchedule, Schedule

#: Up to so many chunks each is described in words.
_MAX_LABELS = 200_000


def schedule_timeline(saved: SavedSchedule) -> Timeline:
    """Rows of bars by lane and start; lanes by source and destination."""
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
    return Timeline(
        title=f"{schedule.problem.collective.name} on {topology.name}",
        facts=(*schedule_facts(saved), ("critical path", _about(path, schedule))),
        notes=(),
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
            source=schedule.problem.collective.home[rows.chunk],
            label=label,
            bytes=np.full(len(rows), schedule.problem.chunk_mb * units.MB),
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


def schedule_facts(saved: SavedSchedule) -> tuple[tuple[str, str], ...]:
    """(label, value) lines: what it computes where, its time, bound and gap, and bandwidths."""
    schedule = saved.schedule
    problem = schedule.problem
    topology, collective = problem.topology, problem.collective
    nodes = f"{topology.num_nodes} node" + ("" if topology.num_nodes == 1 else "s")
    root = "" if collective.root is None else f", root {collective.root}"
    size, chunk = problem.size_bytes, round(problem.chunk_mb * units.MB)
    return (
        ("collective", f"{collective.name}, {problem.num_ranks} ranks{root}"),
        ("topology", f"{topology.name}, {nodes}, {topology.occupancy}"),
        ("size", f"{units.format_size(size)}, in chunks of {units.format_size(chunk)}"),
        *time_facts(schedule.makespan_us, saved.lower_bound_us, saved.bound_source),
        ("algbw", bandwidth_words(schedule.algbw_gbps)),
        ("busbw", bandwidth_words(schedule.busbw_gbps)),
        ("transfers", f"{len(schedule)} in {len(schedule.sends)} sends"),
    )


def time_facts(time_us: float, bound_us: float, bound_source: str) -> tuple[tuple[str, str], ...]:
    """Time, lower bound and gap, which go together; a bound of 0 means that nothing is proven."""
    source = f"  ({bound_source})" if bound_source else ""
    gap = max(0.0, (time_us - bound_us) / time_us) if time_us > 0 else 0.0
    return (
        ("time", f"{time_us:.2f} us"),
        ("lower bound", f"{bound_us:.2f} us{source}" if bound_us > 0 else "none proven"),
        ("gap", f"{100 * gap:.2f}%" if bound_us > 0 or time_us <= 0 else "unknown"),
    )


def bandwidth_words(gbps: float) -> str:
    """GB/s; infinite where nothing has to move."""
    return f"{gbps:.2f} GB/s" if math.isfinite(gbps) else "nothing has to move"


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
