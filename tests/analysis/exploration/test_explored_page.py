"""The page of an exploration: its data are those of the table, and a click on a point opens its timeline."""

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser import Driven, driven, needs_driver

from taccl import Explored, explore, load_topology
from taccl.analysis.exploration.page.page import busy_us_per_mb, changed

WIDE, NARROW = 1400, 400


@pytest.fixture(scope="module")
def table() -> Explored:
    return explore("allgather,allreduce", topology="mesh:2x2", sizes="16KB..1MB", effort=300, cache=False)


@pytest.fixture(scope="module")
def page(table: Explored) -> str:
    return table.to_html()


@pytest.fixture(scope="module")
def data(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def unpacked(text: str) -> list:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_the_page_asks_for_nothing_else(page: str) -> None:
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|\bsrc=|<link", page)
    assert "default-src 'none'" in page
    assert page.count("</script>") == 2


def test_its_figures_are_those_of_the_table(table: Explored, data: dict) -> None:
    shown = [
        dict(zip(question["best"], row, strict=True))
        for question in data["questions"]
        for row in zip(*question["best"].values(), strict=True)
    ]
    assert shown == list(table.best)
    searches = [len(question["searches"]["size_bytes"]) for question in data["questions"]]
    assert sum(searches) == len(table.cells)


def test_what_libraries_take_is_never_less_than_the_fastest_known(data: dict) -> None:
    for question in data["questions"]:
        least = [min(us for us in times if us is not None) for times in _at_sizes(question["library"])]
        assert least == pytest.approx(question["best"]["baseline_us"])


def _at_sizes(library: list) -> Iterator[tuple]:
    return zip(*(each["us"] for each in library), strict=True)


def test_each_point_has_a_timeline_that_ends_at_its_time(table: Explored, data: dict) -> None:
    for row in table.best:
        kept = dict(unpacked(data["timelines"][row["schedule"]]))
        assert row["size_bytes"] in kept
        assert kept[row["size_bytes"]]["span"] == pytest.approx(row["time_us"])
    assert set(data["timelines"]) == {row["schedule"] for row in table.best} == set(data["busy"])


def test_only_what_differs_is_kept() -> None:
    first = {"a": {"x": [1, 2], "y": 3}, "b": "same"}
    assert changed(first, {"a": {"x": [1, 3], "y": 3}, "b": "same"}) == {"a": {"x": [1, 3]}}
    assert changed(None, first) == first


def test_a_link_is_busy_for_what_is_sent_over_it(table: Explored) -> None:
    machine = load_topology("mesh:2x2")
    for row in table.best:
        schedule = table.schedule(row["schedule"], row["size_bytes"]).schedule
        busy = busy_us_per_mb(machine, schedule)
        sent = schedule.problem.size_mb[schedule.chunk].sum()
        carried = busy / np.array([link.beta_us_per_mb for link in machine.links])
        # Every GPU of this machine reaches its neighbours over one link.
        assert carried.sum() * schedule.problem.size_bytes / 2**20 == pytest.approx(sent)
        assert (busy * schedule.problem.size_bytes / 2**20 <= schedule.makespan_us * (1 + 1e-9)).all()


def test_each_machine_is_drawn_once() -> None:
    table = explore(
        "allgather,alltoall", topology=["ring:4", "mesh:2x2"], sizes=["64KB"], effort=100, cache=False
    )
    found = re.search(r'id="data">(.*?)</script>', table.to_html(), re.DOTALL)
    assert found
    data = json.loads(found[1])
    assert [machine["name"] for machine in data["machines"]] == ["ring:4", "mesh:2x2"]
    shown = [data["machines"][question["machine"]]["name"] for question in data["questions"]]
    assert shown == [row["topology"] for row in table.best]


def test_times_of_files_are_told_next_to_those_of_links() -> None:
    table = explore(
        "allgather",
        topology="dgx-a100",
        nodes=1,
        sizes=["64KB"],
        target="msccl",
        executor=True,
        effort=100,
        cache=False,
    )
    (row,) = table.best
    found = re.search(r'id="data">(.*?)</script>', table.to_html(), re.DOTALL)
    assert found
    ((_, shown),) = unpacked(json.loads(found[1])["timelines"][row["schedule"]])
    assert shown["span"] < row["time_us"]
    assert shown["notes"] == [
        f"by the links' costs alone; its file is predicted to take {row['time_us']:.2f} us"
    ]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driven]:
    with driven(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def file(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "explored.html"
    path.write_text(page, encoding="utf-8")
    return path


def point(table: Explored, question: int, place: int) -> tuple[str, dict]:
    """The selector of a dot, and its row."""
    rows = [row for row in table.best if row["collective"] == ("allgather", "allreduce")[question]]
    return f"#question-{question} figure .dot[data-place='{place}']", rows[place]


@needs_driver
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_click_on_a_point_opens_its_timeline(
    table: Explored, browser: Driven, file: Path, width: int
) -> None:
    browser.open(file, width)
    dot, row = point(table, 1, 3)
    browser.click(dot)
    browser.wait("document.body.dataset.opened")
    assert browser.run("document.body.dataset.opened") == f"{row['schedule']} {row['size_bytes']}"
    schedule = table.schedule(row["schedule"], row["size_bytes"]).schedule
    assert browser.run("Number(document.getElementById('timeline').dataset.bars)") == len(schedule)
    assert browser.run("taccl.view.t1") == pytest.approx(row["time_us"])
    assert browser.run("document.querySelectorAll('.opened svg.machine .link').length") == 4
    assert browser.run("document.body.dataset.errors ?? null") is None


@needs_driver
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_is_no_wider_than_its_window(browser: Driven, file: Path, width: int) -> None:
    browser.open(file, width)
    browser.run("document.querySelector('details').open = true")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("document.querySelectorAll('svg.chart').length") == 9
    assert browser.run("document.body.dataset.errors ?? null") is None


@needs_driver
def test_keys_go_from_point_to_point_open_and_close(table: Explored, browser: Driven, file: Path) -> None:
    browser.open(file, WIDE)
    dot, _ = point(table, 0, 0)
    browser.run(f'document.querySelector("{dot}").focus()')
    browser.press(RIGHT)
    assert browser.run("document.activeElement.dataset.place") == "1"
    browser.press(ENTER)
    browser.wait("document.body.dataset.opened")
    _, row = point(table, 0, 1)
    assert browser.run("document.body.dataset.opened") == f"{row['schedule']} {row['size_bytes']}"
    browser.press(ESCAPE)
    assert browser.run("document.querySelector('.opened')") is None
    assert browser.run("document.activeElement.dataset.place") == "1"


@needs_driver
def test_pointing_at_a_chart_gives_its_figures(table: Explored, browser: Driven, file: Path) -> None:
    browser.open(file, WIDE)
    dot, row = point(table, 0, 2)
    known = f'document.querySelector("{dot}")'
    ways = (
        (lambda: browser.point(dot), lambda: browser.point("h1")),
        (lambda: browser.run(f"{known}.focus()"), lambda: browser.run(f"{known}.blur()")),
    )
    for come, leave in ways:
        come()
        assert browser.run("document.getElementById('tip').hidden") is False
        told = browser.run("document.getElementById('tip').innerText")
        assert "64KB" in told and row["schedule"] in told and row["baseline"] in told
        leave()
        assert browser.run("document.getElementById('tip').hidden") is True


@needs_driver
def test_another_point_takes_the_place_of_the_first(table: Explored, browser: Driven, file: Path) -> None:
    browser.open(file, WIDE)
    for place in (0, 4):
        browser.click(point(table, 0, place)[0])
        browser.wait(f"(document.body.dataset.opened ?? '').endsWith(' {2 ** (14 + place)}')")
    assert browser.run("document.querySelectorAll('.opened').length") == 1
    browser.run("document.getElementById('theme').click()")
    assert browser.run("document.body.dataset.errors ?? null") is None


#: Keys by their WebDriver codes.
RIGHT, ENTER, ESCAPE = "\ue014", "\ue007", "\ue00c"
