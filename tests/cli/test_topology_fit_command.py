"""`taccl topology fit`: the table, the machine that it writes, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Taccl = Callable[..., Result]

DATA = Path(__file__).parents[1] / "data" / "measurements"
PAIR = (
    "name: pair\ngpus: 4\nswitches: 1\n"
    "links:\n  - {from: gpus, to: switches, alpha_us: 1, bandwidth_gbps: 25}\n"
)


def test_each_number_is_shown_with_its_interval_range_points_and_misses(taccl: Taccl) -> None:
    done = taccl("topology", "fit", DATA / "osu-latency.txt")
    assert done.exit_code == 0
    assert "3.29 .. 3.34" in done.stdout
    assert "128KB .. 4MB" in done.stdout
    assert "worst 2.7%" in done.stdout
    assert "15.21 GB/s" in done.stdout


def test_the_machine_is_written_with_the_measured_numbers(taccl: Taccl) -> None:
    Path("pair.yaml").write_text(PAIR)
    done = taccl("topology", "fit", DATA / "p2p-v100-4.txt", "--topology", "pair.yaml", "-o", "fitted.yaml")
    assert done.exit_code == 0
    assert "wrote fitted.yaml" in done.stdout
    assert "bandwidth_gbps: 48.48" in Path("fitted.yaml").read_text()
    assert taccl("topology", "show", "fitted.yaml").exit_code == 0


def test_the_machine_on_standard_output_is_all_that_is_there(taccl: Taccl) -> None:
    Path("pair.yaml").write_text(PAIR)
    done = taccl("topology", "fit", DATA / "p2p-v100-4.txt", "--topology", "pair.yaml", "-o", "-")
    assert done.stdout.startswith("name: pair\n")
    assert "GPU to GPU" in done.stderr


def test_warnings_are_in_json_and_otherwise_on_standard_error(taccl: Taccl) -> None:
    Path("pair.yaml").write_text(PAIR)
    words = ("topology", "fit", DATA / "osu-latency.txt", "--topology", "pair.yaml")
    assert "warning: " in taccl(*words).stderr
    assert json.loads(taccl(*words, "--json").stdout)["warnings"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name one or more outputs"),
        (("no.txt",), "no.txt: there is no such file"),
        (("pair.yaml",), "pair.yaml:1: no known benchmark printed this"),
        ((DATA / "osu-latency.txt", "-o", "x.yaml"), "-o writes the machine of --topology"),
        ((DATA / "osu-latency.txt", "--at", "big"), "not a size"),
        ((DATA / "osu-latency.txt", "--topology", "ndv3"), "no machine called"),
        (
            (DATA / "osu-latency.txt", "--topology", "pair.yaml", "-o", "pair.yaml"),
            "both an output and an input",
        ),
    ],
)
def test_what_is_wrong_is_told_in_a_line(taccl: Taccl, words: tuple[object, ...], said: str) -> None:
    Path("pair.yaml").write_text(PAIR)
    done = taccl("topology", "fit", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not Path("x.yaml").exists()


def test_a_machine_may_be_a_name_as_everywhere(taccl: Taccl) -> None:
    done = taccl("topology", "fit", DATA / "p2p-v100-4.txt", "--topology", "full:4", "-o", "fitted.yaml")
    assert done.exit_code == 0, done.stderr
    shown = json.loads(taccl("topology", "show", "fitted.yaml", "--json").stdout)
    assert shown["links"][0]["bandwidth_gbps"] == pytest.approx(48.48, abs=0.01)


def test_nodes_and_a_profile_are_of_a_machine(taccl: Taccl) -> None:
    done = taccl("topology", "fit", DATA / "p2p-v100-4.txt", "--nodes", "2")
    assert done.exit_code == 2
    assert "--topology" in done.stderr
