import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from browser import needs_browser, open_page
from programs import ring_allreduce as ring_program
from small_schedules import direct_allgather, program_of, ring_allgather

from taccl.backend.show import program_timeline, schedule_timeline, to_html
from taccl.backend.simulate import simulate_program
from taccl.model.schedule import SavedSchedule


def data_of(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.fixture(scope="module")
def schedule():
    return ring_allgather(4, pieces=2)


@pytest.fixture(scope="module")
def page(schedule) -> str:
    return to_html(schedule_timeline(SavedSchedule(schedule, 8.0, "a reason")))


def test_the_page_asks_for_nothing_else(page: str) -> None:
    assert not re.search(r"https?://|@import|url\(|\bsrc=|<link", page)
    assert "default-src 'none'" in page


def test_the_data_cannot_end_the_script_that_it_stands_in() -> None:
    hostile = "</script><img id='evil' src='x' onerror='alert(1)'><!-- @DATA@ @SCRIPT@ \u2028"
    page = to_html(program_timeline(ring_program(2, name=hostile)))
    assert data_of(page)["title"] == hostile
    assert page.count("</script>") == 2
    assert "<img" not in page


def test_the_data_are_the_columns(page: str, schedule) -> None:
    data = data_of(page)
    assert len(data["bars"]["lane"]) == len(schedule)
    assert max(data["bars"]["end"]) == schedule.makespan_us
    assert ["lower bound", "8.00 us for this chunk count  (a reason)"] in data["facts"]


@needs_browser
def test_a_browser_shows_as_many_bars_as_there_are_transfers(page: str, schedule, tmp_path: Path) -> None:
    opened = open_page(page, tmp_path)
    body, timeline = opened.element("body"), opened.element("canvas", "timeline")
    assert body.get("data-ready") == "true"
    assert "data-errors" not in body
    assert opened.console == ()
    assert int(timeline["data-bars"]) == int(timeline["data-transfers"]) == len(schedule) == 24
    assert int(timeline["data-lanes"]) == 4
    for shown in ("lower bound", "8.00 us", "gap", "time", "9.00 us"):
        assert shown in opened.dom


@needs_browser
def test_keys_and_wheel_zoom_and_0_shows_everything(page: str, tmp_path: Path) -> None:
    script = """
    const width = () => taccl.view.t1 - taccl.view.t0;
    const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true }));
    const timeline = document.getElementById("timeline");
    const seen = [width()];
    press("+");
    seen.push(width());
    timeline.focus();
    const left = taccl.view.t0;
    press("ArrowRight");
    const moved = taccl.view.t0 - left;
    const wheel = { deltaY: -100, clientX: 700, clientY: 300, cancelable: true };
    timeline.dispatchEvent(new WheelEvent("wheel", wheel));
    seen.push(width());
    press("-");
    seen.push(width());
    press("0");
    seen.push(width());
    document.body.dataset.result = JSON.stringify({ seen, moved, from: taccl.view.t0 });
    """
    opened = open_page(page, tmp_path, script)
    assert "data-errors" not in opened.element("body")
    result = opened.result()
    whole, pressed, wheeled, out, reset = result["seen"]
    assert whole == reset == 9.0
    assert wheeled < pressed < whole
    assert wheeled < out
    assert result["moved"] > 0
    assert result["from"] == 0


@needs_browser
def test_hovering_over_a_bar_says_what_it_is(page: str, tmp_path: Path) -> None:
    script = """
    const canvas = document.getElementById("timeline");
    const box = canvas.getBoundingClientRect();
    canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + 200, clientY: box.top + 26 }));
    document.body.dataset.result = JSON.stringify(document.getElementById("tip").innerText);
    """
    opened = open_page(page, tmp_path, script)
    reported = opened.result()
    for words in ("chunk 0 (piece 0 of rank 0's part)", "rank 0 to rank 1", "1 MB", "0 us", "3 us"):
        assert words in reported


@needs_browser
def test_a_simulated_program_and_one_without_times_open_without_errors(tmp_path: Path) -> None:
    schedule = direct_allgather(3)
    program = program_of(schedule)
    simulation = simulate_program(program, schedule.problem.topology, 1.0)
    for number, timeline in enumerate((program_timeline(program, simulation), program_timeline(program))):
        folder = tmp_path / str(number)
        folder.mkdir()
        opened = open_page(to_html(timeline), folder)
        assert "data-errors" not in opened.element("body")
        assert opened.console == ()
        shown = opened.element("canvas", "timeline")
        assert int(shown["data-bars"]) == len(timeline.bars)
        assert int(shown["data-transfers"]) == len(schedule)
        assert ("No times are known" in opened.dom.split("<script")[0]) == (number == 1)


@needs_browser
def test_nothing_to_move_and_hostile_names_are_shown_too(tmp_path: Path) -> None:
    empty = schedule_timeline(SavedSchedule(ring_allgather(2).take([])))
    hostile = replace(empty, title="</title><script>document.body.dataset.errors = 1</script>")
    opened = open_page(to_html(hostile), tmp_path)
    assert "data-errors" not in opened.element("body")
    assert opened.element("canvas", "timeline")["data-bars"] == "0"


@needs_browser
def test_an_error_in_a_page_would_be_seen(page: str, tmp_path: Path) -> None:
    opened = open_page(page, tmp_path, "noSuchFunction();")
    assert "noSuchFunction" in opened.element("body")["data-errors"]
    assert any("noSuchFunction" in line for line in opened.console)
