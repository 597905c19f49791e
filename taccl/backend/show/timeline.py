"""What the page and the trace draw: bars in lanes, wherever they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology

#: What a bar stands for. A `transfer` is both ends at once; `send` and `receive` are one end each. Who
#: reads fetches by himself, who waits does nothing else; `compute` is what a collective waits for, or what
#: waits for it.
KINDS = ("transfer", "send", "receive", "receive and send", "copy", "reduce", "read", "wait", "compute")
TRANSFER, SEND, RECEIVE, RELAY, COPY, REDUCE, READ, WAIT, COMPUTE = range(len(KINDS))

Unit = Literal["us", "step"]


@dataclass(frozen=True, eq=False)
class Bars:
    """One row per bar; arrays of equal length.

    Parameters
    ----------
    lane : index into the lanes of the timeline.
    start, end : in the unit of the timeline.
    track : which of the parallel tracks of its lane a bar is on; bars of one track do not overlap,
        those of one contiguous send apart.
    slot, slots : its place among the chunks of one contiguous send, and how many these are.
    source : the rank whose part it moves; -1 where that is not known.
    label : index into the labels of the timeline, which say what it moves.
    bytes : how much it moves; 0 where no size is known.
    link : of the topology of the timeline; -1 for none.
    peer : the rank at the other end; -1 for none.
    kind : index into `KINDS`.
    number : what the bar is called in its lane: the chunk of a transfer, the step of a thread block.
    critical : whether it is on the critical path.
    """

    lane: IntArray
    start: FloatArray
    end: FloatArray
    track: IntArray
    slot: IntArray
    slots: IntArray
    source: IntArray
    label: IntArray
    bytes: FloatArray
    link: IntArray
    peer: IntArray
    kind: IntArray
    number: IntArray
    critical: BoolArray

    def __len__(self) -> int:
        return len(self.lane)


@dataclass(frozen=True, eq=False)
class Timeline:
    """Everything that a page or a trace shows.

    Parameters
    ----------
    title : one line.
    facts : (label, value) in the order in which they are shown; among them time, bound and gap.
    notes : sentences that the reader must not miss.
    unit : of all times: microseconds, or steps where no times are known.
    span : where the time axis ends; 0 if nothing moves.
    transfers : chunks sent from rank to rank; of a plan, how often something went over a link.
    node_of : shape (num_ranks,).
    lane_rank, lane_name : the lanes in order, those of a rank together.
    bars : the bars; rows by lane and start.
    labels : see `Bars.label`.
    arrows : two columns of bars, from a send to the receive that takes it, or to the wait that it ends.
        Empty where one bar is both.
    topology : what `Bars.link` refers to; None if it is not known.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    unit: Unit
    span: float
    transfers: int
    node_of: IntArray
    lane_rank: IntArray
    lane_name: tuple[str, ...]
    bars: Bars
    labels: tuple[str, ...]
    arrows: tuple[IntArray, IntArray]
    topology: LogicalTopology | None

    @property
    def num_ranks(self) -> int:
        """Ranks 0 .. num_ranks - 1."""
        return len(self.node_of)


def labelled_bars(words: Sequence[str], *, lane: IntArray, **columns: Any) -> tuple[Bars, tuple[str, ...]]:
    """Bars that are no parts of contiguous sends, on the tracks of their lanes; and the labels of them all.

    Parameters
    ----------
    words : what each says. lane, columns : the other columns of `Bars`, but tracks, slots and labels.
    """
    number = {word: place for place, word in enumerate(dict.fromkeys(words))}
    bars = Bars(
        lane=lane,
        track=tracks(lane, columns["start"], columns["end"]),
        slot=np.zeros(len(lane), dtype=np.int64),
        slots=np.ones(len(lane), dtype=np.int64),
        label=np.array([number[word] for word in words], dtype=np.int64),
        **columns,
    )
    return bars, tuple(number)


def tracks(lane: IntArray, start: FloatArray, end: FloatArray) -> IntArray:
    """For each interval the lowest track of its lane that is free at its start.

    Intervals that overlap by less than a billionth of the whole do not count as overlapping.
    """
    slack = 1e-9 * float(end.max(initial=0.0))
    track = np.zeros(len(lane), dtype=np.int64)
    free: list[float] = []
    current = -1
    order = np.lexsort((end, start, lane))
    columns = (order.tolist(), lane[order].tolist(), start[order].tolist(), end[order].tolist())
    for row, on, begin, finish in zip(*columns, strict=True):
        if on != current:
            free, current = [], on
        place = next((k for k, until in enumerate(free) if until <= begin + slack), len(free))
        if place == len(free):
            free.append(finish)
        else:
            free[place] = finish
        track[row] = place
    return track
