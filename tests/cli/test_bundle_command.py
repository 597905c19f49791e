import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]

RING = ("bundle", "--topology", "ring:4", "--sizes", "4KB..16KB", "--effort", 300, "--no-cache", "-q")


def test_it_writes_a_folder_and_lists_its_windows(taccl: Taccl, tmp_path: Path) -> None:
    done = taccl(*RING, "-o", "new", "--json")
    assert done.exit_code == 0, done.stderr
    files = json.loads(done.stdout)["files"]
    assert [files[0]["min_bytes"], files[-1]["max_bytes"]] == [4096, 16384]
    assert all((tmp_path / "new" / file["path"]).exists() for file in files)
    assert "wrote new" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "full"), "not empty"),
        ((), "needs --topology, and -o"),
        (("-o", "new", "--target", "json"), "finds files for json"),
        (("-o", "new", "--sizes", "4..1"), "ends before it begins"),
    ],
)
def test_a_wrong_request_is_one_error_and_leaves_no_folder(
    taccl: Taccl, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    done = taccl(*RING, *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (tmp_path / "new").exists()


def test_a_check_without_a_bundle_is_one_error(taccl: Taccl, tmp_path: Path) -> None:
    (tmp_path / "results.txt").write_text("")
    done = taccl("bundle", "check", "none", "results.txt")
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr


def test_wrong_values_end_a_check_with_code_4(taccl: Taccl, tmp_path: Path) -> None:
    assert taccl(*RING, "-o", "new").exit_code == 0
    (tmp_path / "results.txt").write_text(
        "# all_gather_perf\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)\n"
        "        4096           256     float    none      -1    10.00    0.41    0.31      3\n"
    )
    done = taccl("bundle", "check", "new", "results.txt")
    assert done.exit_code == 4
    assert "WRONG: " in done.stderr


def test_notes_of_the_exploration_are_printed(taccl: Taccl) -> None:
    done = taccl(*RING[:4], "2,5001", *RING[5:], "-o", "new")
    assert done.exit_code == 0, done.stderr
    assert "note: too small for allgather on ring:4: 2" in done.stdout
    assert "sizes are rounded down to multiples of 4 bytes, 5001" in done.stdout


def test_an_interrupted_bundle_says_so(taccl: Taccl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*searched: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("taccl.cli.explore_progress._say_search", interrupt)
    done = taccl(*RING[:-1], "--collective", "allgather,allreduce", "-o", "new", "--json")
    assert done.exit_code == 0, done.stderr
    assert "note: the exploration was interrupted" in done.stderr
    assert json.loads(done.stdout)["status"] == "interrupted"
    assert json.loads((tmp_path / "new" / "manifest.json").read_text())["status"] == "interrupted"
    assert "interrupted" in (tmp_path / "new" / "README.md").read_text()
    (tmp_path / "results.txt").write_text(
        "# taccl bundle: runtime executor\n# all_gather_perf\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
        "        4096           256     float    none      -1    10.00    0.41    0.31      0\n"
    )
    done = taccl("bundle", "check", "new", "results.txt")
    assert "note: the exploration of this bundle was interrupted" in done.stdout
