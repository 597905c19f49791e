"""`taccl probe`: what it prints and writes, and what it refuses before any work is done."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]


def test_it_lists_the_programs_and_says_how_to_write_them(taccl: Taccl) -> None:
    done = taccl("probe", "--topology", "switch:4", "--protocol", "LL")
    assert done.exit_code == 0, done.output
    assert "ring_ll_8.xml" in done.stdout
    assert "-o FOLDER writes them" in done.stdout
    assert not list(Path().iterdir())


def test_it_writes_a_folder(taccl: Taccl) -> None:
    done = taccl("probe", "--topology", "switch:4", "--protocol", "ll", "-o", "probe")
    assert done.exit_code == 0, done.output
    assert {"README.md", "run.sh", "ring_ll_1.xml"} <= {path.name for path in Path("probe").iterdir()}


def test_as_json_it_says_which_sizes_and_commands(taccl: Taccl) -> None:
    said = json.loads(taccl("probe", "--topology", "switch:4", "--json").stdout)
    assert said["schema"] == "taccl.probe/1"
    assert (said["ranks"], said["least_bytes"], said["factor"]) == (4, 16384, 4)
    assert any("fit --runs" in command for command in said["commands"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--topology", "nowhere"), "nowhere"),
        (("--topology", "switch:4", "-o", "full"), "not empty"),
        (("--topology", "switch:4", "-o", "no/where"), "does not exist"),
        (("--topology", "switch:4", "--nodes", "3"), "node"),
    ],
)
def test_what_is_wrong_is_a_line_and_exit_code_2(taccl: Taccl, words: tuple[str, ...], message: str) -> None:
    Path("full").mkdir()
    Path("full", "x").write_text("x")
    done = taccl("probe", *words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output
