"""A timeline of sends, drawn with matplotlib: a lane for each link, or each port, that is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from taccl.errors import TacclError
from taccl.model import units
from taccl.model.collective import BoolArray, IntArray
from taccl.model.network import FloatArray, LogicalTopology
from taccl.support.notebook import new_axes

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from taccl.model.schedule.columns import Transfers

Lanes = Literal["link", "port"]

#: A send of several ranks' parts.
SEVERAL = -1

_DARK = "0.25"
_HEIGHT = 0.8
#: Where ports are not busy for alpha, the sends of one link overlap.
_OPACITY = 0.85
#: With more lanes than this not every one is labelled, and with more ranks there is no legend of colours.
_MOST_NAMES, _MOST_IN_LEGEND = 64, 16


@dataclass(frozen=True, eq=False)
class Bars:
    """One row per send; arrays of equal length.

    Parameters
    ----------
    link : of the topology.
    start_us, end_us : when it starts, and when the receiver has it.
    size_mb : how much it moves, which says how long it keeps its ports busy.
    source : the rank that it is coloured by, such as that whose part it carries; or `SEVERAL`.
    adds : whether it carries a partial sum.
    """

    link: IntArray
    start_us: FloatArray
    end_us: FloatArray
    size_mb: FloatArray
    source: IntArray
    adds: BoolArray

    def __len__(self) -> int:
        return len(self.link)

    @staticmethod
    def of(schedule: Transfers) -> Bars:
        """The sends of a schedule."""
        sends, problem = schedule.sends, schedule.problem
        owner = problem.collective.owner[schedule.chunk]
        source = owner[sends.first_row]
        mixed = np.bincount(sends.of_row, owner != source[sends.of_row], len(sends)) > 0
        return Bars(
            link=sends.link,
            start_us=sends.start_us,
            end_us=sends.end_us,
            size_mb=sends.size_mb,
            source=np.where(mixed, SEVERAL, source),
            adds=sends.reduce,
        )


def plot_schedule(schedule: Transfers, by: Lanes, ax: Axes | None, lower_bound_us: float | None) -> Axes:
    """The timeline of a schedule: see `Schedule.plot`."""
    problem = schedule.problem
    what = f"{problem.collective.name} on {problem.topology.name}, {units.format_size(problem.size_bytes)}"
    return plot_bars(problem.topology, Bars.of(schedule), by, ax, what, lower_bound_us)


def plot_bars(
    topology: LogicalTopology,
    bars: Bars,
    by: Lanes,
    ax: Axes | None,
    what: str,
    lower_bound_us: float | None = None,
    of_rank: str = "rank {rank}'s part",
) -> Axes:
    """Draw a bar for each send, in the colour of its rank; partial sums are hatched.

    Parameters
    ----------
    by : `link`: a lane for each link, bars from start to end; `port`: one for each port, bars for as long as
        the port is busy.
    ax : where to draw; None makes a figure.
    what : the title, to which the time is added, and the bound and the gap where there is one.
    lower_bound_us : all of it takes at least so long, however it is done; drawn as a line.
    of_rank : what the colour of a rank stands for.

    Raises
    ------
    TacclError : no such lanes, or matplotlib is not installed.
    """
    if by not in get_args(Lanes):
        raise TacclError(f"a timeline has a lane for each link or each port, not {by!r}", hint="by='port'")
    lane, bar, end_us, names = _by_link(topology, bars) if by == "link" else _by_port(topology, bars)
    ax = new_axes(len(names)) if ax is None else ax
    from matplotlib.collections import PolyCollection

    colours = _colours(topology.num_ranks)
    for adds in (False, True):
        rows = np.flatnonzero(bars.adds[bar] == adds)
        if len(rows):
            corners = _corners(lane[rows], bars.start_us[bar[rows]], end_us[rows])
            faces = colours[bars.source[bar[rows]]]
            shown = PolyCollection(list(corners), facecolors=faces, edgecolors="white", linewidths=0.4)
            if adds:
                shown.set_hatch("////")
            shown.set_alpha(_OPACITY)
            ax.add_collection(shown)
    time_us = float(bars.end_us.max(initial=0.0))
    _label(ax, by, names, time_us)
    ax.set_title(_title(what, time_us, lower_bound_us))
    if lower_bound_us is not None:
        ax.axvline(lower_bound_us, color="black", linestyle="--", linewidth=1.0)
    handles = list(_legend(bars, colours, lower_bound_us, of_rank))
    if handles:
        ax.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small")
    return ax


#: What is drawn: the lane of each rectangle, its bar, where it ends, and the names of the lanes.
_Drawn = tuple[IntArray, IntArray, FloatArray, list[str]]


def _by_link(topology: LogicalTopology, bars: Bars) -> _Drawn:
    """Links by source and destination, each bar from start to end."""
    used = np.unique(bars.link)
    used = used[np.lexsort((topology.dst[used], topology.src[used]))]
    lane_of = np.zeros(topology.num_links, dtype=np.int64)
    lane_of[used] = np.arange(len(used))
    names = [topology.describe_link(link) for link in used.tolist()]
    return lane_of[bars.link], np.arange(len(bars)), bars.end_us, names


def _by_port(topology: LogicalTopology, bars: Bars) -> _Drawn:
    """Ports by number, each bar once for each port of its link, for as long as that is busy."""
    bar, pair = topology.pairs_of(bars.link)
    used, lane = np.unique(topology.incidence[1][pair], return_inverse=True)
    end_us = bars.start_us[bar] + topology.port_busy_us(pair, bars.size_mb[bar])
    return lane, bar, end_us, [topology.port_names[each] for each in used.tolist()]


def _corners(lane: IntArray, start_us: FloatArray, end_us: FloatArray) -> FloatArray:
    """The rectangles of bars, shape (num_bars, 4, 2)."""
    low, high = lane - _HEIGHT / 2, lane + _HEIGHT / 2
    x = np.stack([start_us, end_us, end_us, start_us], axis=1)
    y = np.stack([low, low, high, high], axis=1)
    return np.stack([x, y], axis=2)


def _colours(num_ranks: int) -> FloatArray:
    """A colour for each rank, and the last for several: shape (num_ranks + 1, 4)."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba

    if num_ranks <= 10:
        ranks = colormaps["tab10"](np.arange(num_ranks))
    else:
        ranks = colormaps["turbo"](np.linspace(0.05, 0.95, num_ranks))
    return np.vstack([np.reshape(ranks, (num_ranks, 4)), to_rgba(_DARK)])


def _label(ax: Axes, by: Lanes, names: Sequence[str], time_us: float) -> None:
    step = -(-len(names) // _MOST_NAMES) if names else 1
    ax.set_yticks(range(0, len(names), step), names[::step])
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)
    ax.set_xlim(0.0, 1.02 * time_us or 1.0)
    ax.set_xlabel("time (us)")
    ax.set_ylabel("link" if by == "link" else "port")


def _title(what: str, time_us: float, lower_bound_us: float | None) -> str:
    if lower_bound_us is None:
        return f"{what}: {time_us:.2f} us"
    gap = max(0.0, 1 - lower_bound_us / time_us) if time_us > 0 else 0.0
    return f"{what}: {time_us:.2f} us, bound {lower_bound_us:.2f} us, gap {100 * gap:.2f}%"


def _legend(bars: Bars, colours: FloatArray, lower_bound_us: float | None, of_rank: str) -> Iterator[Artist]:
    """What the colours, the hatching and the line stand for."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    sources = np.unique(bars.source[bars.source != SEVERAL]).tolist()
    if len(sources) <= _MOST_IN_LEGEND:
        for rank in sources:
            yield Patch(facecolor=tuple(colours[rank]), label=of_rank.format(rank=rank))
    if (bars.source == SEVERAL).any():
        yield Patch(facecolor=_DARK, label="several ranks' parts")
    if bars.adds.any():
        yield Patch(facecolor="white", edgecolor="black", hatch="////", label="partial sum")
    if lower_bound_us is not None:
        yield Line2D([], [], color="black", linestyle="--", label="lower bound")
