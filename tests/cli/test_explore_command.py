import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]

RING = ("explore", "--topology", "ring:4", "--sizes", "4KB..16KB", "--effort", 400)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of its own."""
    monkeypatch.setenv("TACCL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_each_size_is_a_line_with_its_time_bound_and_library(taccl: Taccl) -> None:
    done = taccl(*RING)
    assert done.exit_code == 0, done.stderr
    title, header, *rows = (line for line in done.stdout.splitlines() if not line.startswith("note: "))
    assert rows.pop().startswith("front of allgather on ring:4: allgather-1 ")
    assert title.endswith("times are of links alone: no launch, no per-step cost")
    assert header.split()[:3] == ["collective", "size", "time"]
    assert [row.split()[1] for row in rows] == ["4KB", "8KB", "16KB"]
    assert done.stderr.splitlines()[0].startswith("  1  allgather on ring:4, ")


def test_what_was_found_is_listed_used_again_and_cleared(taccl: Taccl, cache: Path) -> None:
    first = json.loads(taccl(*RING, "--json", "-q").stdout)
    kept = json.loads(taccl("cache", "list", "--json").stdout)
    assert kept["folder"] == str(cache)
    assert len(kept["answers"]) == len(first["cells"]) > 0
    again = json.loads(taccl(*RING, "--json", "-q").stdout)
    assert again["best"] == first["best"]
    assert all(cell["known"] for cell in again["cells"])
    assert taccl("cache", "clear").stdout == f"removed {len(first['cells'])} answers from {cache}\n"
    assert json.loads(taccl("cache", "list", "--json").stdout)["answers"] == []


def test_the_table_goes_to_a_csv_file(taccl: Taccl, tmp_path: Path, cache: Path) -> None:
    done = taccl(*RING, "--csv", "best.csv", "-q", "--no-cache")
    assert done.exit_code == 0, done.stderr
    assert "wrote best.csv" in done.stderr
    lines = (tmp_path / "best.csv").read_text().splitlines()
    assert lines[0].startswith("collective,topology,size_bytes,time_us,lower_bound_us")
    assert len(lines) == 4
    assert not cache.exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sizes", "4KB..1KB"), "ends before it begins"),
        (("--collective", "allgather,all"), "all"),
        (("--effort", 0), "effort"),
        (("--sketch", "none-such"), "none-such"),
        (("--csv", "-", "--json"), "both want standard output"),
        (("--csv", "no/such/folder.csv"), "does not exist"),
    ],
)
def test_a_wrong_request_is_one_error(taccl: Taccl, words: tuple[object, ...], message: str) -> None:
    done = taccl(*RING, *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_pages_and_pictures_are_written(taccl: Taccl, tmp_path: Path) -> None:
    done = taccl(*RING, "--html", "page.html", "--svg", "best.svg", "--png", "best.png", "-q")
    assert done.exit_code == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("wrote ")] == [
        f"wrote {name}" for name in ("page.html", "best.svg", "best.png")
    ]
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert "<svg" in (tmp_path / "best.svg").read_text()
    assert (tmp_path / "best.png").read_bytes()[:4] == b"\x89PNG"
