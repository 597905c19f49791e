"""What `Schedule` draws and hands to pandas, read back from the axes and the frame."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from matplotlib import pyplot
from matplotlib.axes import Axes
from strategies_schedule import machine, schedules
from studies import examples

from taccl.errors import TacclError
from taccl.model.collectives import allreduce, make_collective
from taccl.model.problem import Problem
from taccl.model.schedule import Schedule, Send, schedule_from_json, schedule_from_sends
from taccl.testing import assert_same_schedule

RANDOM = settings(max_examples=examples(13), deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True, scope="module")
def no_window() -> None:
    matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def no_figure_is_left() -> Iterator[None]:
    yield
    pyplot.close("all")


def chain(occupancy: str = "serial") -> Schedule:
    """A MB of rank 0 in two chunks, together to rank 1 in 3 us and one by one to rank 2 in 2 us each."""
    topology = machine(
        3, [(0, 1), (1, 2)], ports=((0,), (1, 2)), port_names=("a", "b", "c"), occupancy=occupancy
    )
    problem = Problem(topology, make_collective("broadcast", 3, 2), chunk_mb=0.5)
    return schedule_from_sends(problem, [Send((1,), 1, 3.0), Send((0, 1), 0, 0.0), Send((0,), 1, 5.0)])


def pair_exchanging_inputs() -> Schedule:
    """Two ranks send each other their contributions to both chunks, and each adds for itself: 5 us."""
    problem = Problem(machine(2, [(0, 1), (1, 0)]), allreduce(2), 1.0)
    sends = [Send((0, 1), link, 0.0, sums=(1 << link,) * 2) for link in (0, 1)]
    return schedule_from_sends(problem, sends)


def drawn(ax: Axes) -> list[tuple[str, float, float]]:
    """The lane, start and end of every bar, top lane first."""
    ticks = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    names = {round(tick): label.get_text() for tick, label in ticks}
    found = []
    for collection in ax.collections:
        for path in collection.get_paths():
            (low, bottom), (high, top) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            found.append((round((bottom + top) / 2), float(low), float(high)))
    return [(names[lane], start, end) for lane, start, end in sorted(found)]


def legend(ax: Axes) -> list[str]:
    shown = ax.get_legend()
    return [] if shown is None else [text.get_text() for text in shown.get_texts()]


def test_a_lane_for_each_link_has_its_sends_from_start_to_end() -> None:
    ax = chain().plot()
    assert drawn(ax) == [("0 -> 1", 0.0, 3.0), ("1 -> 2", 3.0, 5.0), ("1 -> 2", 5.0, 7.0)]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (us)", "link")
    assert ax.yaxis_inverted()


@pytest.mark.parametrize(("occupancy", "busy"), [("serial", (3.0, 2.0)), ("pipelined", (2.0, 1.0))])
def test_a_lane_for_each_port_has_a_bar_for_as_long_as_it_is_busy(
    occupancy: str, busy: tuple[float, float]
) -> None:
    two, one = busy
    later = [(3.0, 3.0 + one), (5.0, 5.0 + one)]
    assert drawn(chain(occupancy).plot(by="port")) == [
        ("a", 0.0, two),
        *(("b", *each) for each in later),
        *(("c", *each) for each in later),
    ]


@RANDOM
@given(schedules())
def test_bars_are_together_as_long_as_links_and_ports_are_busy(schedule: Schedule) -> None:
    for by, busy in (("link", schedule.link_busy_us), ("port", schedule.port_busy_us)):
        ax = schedule.plot(by)
        widths: dict[str, float] = {}
        for lane, start, end in drawn(ax):
            widths[lane] = widths.get(lane, 0.0) + end - start
        assert sorted(widths.values()) == pytest.approx(
            sorted(busy[_used(schedule, by)].tolist()), abs=1e-9, rel=1e-9
        )
        pyplot.close("all")


def _used(schedule: Schedule, by: str) -> np.ndarray:
    """The links, or the ports, that something travels over, perhaps in no time."""
    links = np.unique(schedule.link)
    if by == "link":
        return links
    ports = schedule.problem.topology.ports
    return np.array(sorted({port for link in links.tolist() for port in ports[link]}), dtype=np.int64)


def test_colours_are_those_of_the_ranks_whose_parts_travel() -> None:
    assert legend(chain().plot()) == ["rank 0's part"]
    mixed = pair_exchanging_inputs().plot()
    assert legend(mixed) == ["several ranks' parts", "partial sum"]


def test_partial_sums_are_hatched_and_copies_are_not() -> None:
    (copies,) = chain().plot().collections
    (sums,) = pair_exchanging_inputs().plot().collections
    assert (copies.get_hatch(), sums.get_hatch()) == (None, "////")


def test_a_bound_is_a_line_and_stands_in_the_title_with_the_gap() -> None:
    plain, bounded = chain().plot(), chain().plot(lower_bound_us=6.3)
    assert plain.get_title() == "broadcast on test, 1MB: 7.00 us"
    assert bounded.get_title() == "broadcast on test, 1MB: 7.00 us, bound 6.30 us, gap 10.00%"
    assert len(plain.lines) == 0
    assert [line.get_xdata()[0] for line in bounded.lines] == [6.3]
    assert "lower bound" in legend(bounded)


def test_axes_that_are_given_are_drawn_on() -> None:
    ax = pyplot.subplots()[1]
    assert chain().plot(ax=ax) is ax
    assert len(pyplot.get_fignums()) == 1


def test_a_schedule_of_no_sends_is_an_empty_timeline() -> None:
    ax = schedule_from_sends(chain().problem, []).plot("port", lower_bound_us=0.0)
    assert drawn(ax) == []
    assert ax.get_title().endswith("0.00 us, bound 0.00 us, gap 0.00%")


def test_many_lanes_are_not_all_named() -> None:
    ranks = 80
    ring = machine(ranks, [(rank, (rank + 1) % ranks) for rank in range(ranks)])
    problem = Problem(ring, make_collective("allgather", ranks), 1.0)
    sends = [Send((rank,), rank, 0.0) for rank in range(ranks)]
    ax = schedule_from_sends(problem, sends).plot()
    assert [label.get_text() for label in ax.get_yticklabels()][:3] == ["0 -> 1", "2 -> 3", "4 -> 5"]
    assert legend(ax) == []


def test_other_lanes_are_refused() -> None:
    with pytest.raises(TacclError, match="link or each port, not 'rank'"):
        chain().plot("rank")


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(TacclError, match="plot needs matplotlib") as caught:
        chain().plot()
    assert caught.value.hint == "pip install 'taccl[plot]'"


def test_without_pandas_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TacclError, match="to_pandas needs pandas") as caught:
        chain().to_pandas()
    assert caught.value.hint == "pip install pandas"


def test_a_frame_has_a_row_for_each_transfer_with_both_ranks() -> None:
    frame = chain().to_pandas()
    assert list(frame.columns) == ["chunk", "src", "dst", "link", "start_us", "end_us", "reduce", "group"]
    assert frame.groupby(["src", "dst"])["end_us"].max().to_dict() == {(0, 1): 3.0, (1, 2): 7.0}
    assert frame["reduce"].dtype == bool
    assert len(schedule_from_sends(chain().problem, []).to_pandas()) == 0


def test_a_frame_says_which_contributions_travel_where_the_schedule_does() -> None:
    schedule = pair_exchanging_inputs()
    assert schedule.to_pandas()["contributions"].tolist() == [(0,), (0,), (1,), (1,)]
    copied = replace(schedule, reduce=~schedule.reduce, sums=replace(schedule.sums, of_row=np.full(4, -1)))
    assert copied.to_pandas()["contributions"].tolist() == [None] * 4


@RANDOM
@given(schedules())
def test_a_dictionary_is_what_a_schedules_file_holds(schedule: Schedule) -> None:
    values = json.loads(json.dumps(schedule.to_dict(), allow_nan=False))
    assert_same_schedule(schedule_from_json(json.dumps(values)).schedule, schedule)
