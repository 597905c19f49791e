import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from taccl.cli.main import main
from taccl.errors import TopologyError
from taccl.topologies import CONFIDENCE, build_topology, catalogue, load_topology, ndv2, parse_topology

DOCS = Path(__file__).parents[2] / "docs"
FRONT, YAML, CATALOGUE = (
    (DOCS / page).read_text(encoding="utf-8")
    for page in ("topologies.md", "machines/yaml.md", "machines/catalogue.md")
)


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)


MACHINES = blocks(YAML, "yaml")


def test_the_page_has_machines():
    assert len(MACHINES) >= 3


@pytest.mark.parametrize("text", MACHINES)
def test_each_machine_of_the_page_is_connected(text):
    topology = parse_topology(text)
    ranks = range(topology.num_ranks)
    assert all(any(topology.host_path(a, b) for b in ranks) for a in ranks)


def test_the_first_machine_of_the_page_is_the_ndv2_of_the_catalogue():
    assert set(parse_topology(MACHINES[0]).links) == set(ndv2(2).links)


@pytest.mark.parametrize("code", [*blocks(FRONT, "python"), *blocks(YAML, "python")])
def test_each_piece_of_python_of_the_pages_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in MACHINES:
        if name := re.match(r"# (\S+\.yaml)\n", text):
            Path(name[1]).write_text(text)
    names = {}
    exec(compile(code, "docs", "exec"), names)
    assert "machine" in names


def test_every_machine_of_the_catalogue_is_listed_and_none_besides():
    tables = CATALOGUE[CATALOGUE.index("## Machines") : CATALOGUE.index("## Speeds")]
    listed = re.findall(r"`([^`]+)`", " ".join(re.findall(r"^\| (`.*?) \|", tables, re.MULTILINE)))
    assert {entry.name for entry in catalogue()} <= set(listed)
    for name in listed:
        assert build_topology(name).name == name


def test_the_error_that_the_page_shows_is_the_error_that_is_raised(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("my.yaml").write_text(
        "name: m\nnodes: 1\nnode:\n  gpus: 2\n  links:\n    - pairs: [0-1]\n      alfa_us: 1\n"
    )
    with pytest.raises(TopologyError) as caught:
        load_topology("my.yaml")
    shown = YAML[YAML.index("    my.yaml:7") :].splitlines()[:2]
    assert str(caught.value).splitlines() == [line.removeprefix("    ") for line in shown]


def test_the_page_and_the_help_say_what_stands_behind_a_machine_in_the_same_words():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", CATALOGUE.partition("## ")[0], re.MULTILINE))
    assert rows == CONFIDENCE
    reported = " ".join(CliRunner().invoke(main, ["topology", "list", "--help"]).output.split())
    assert all(f"{word} {meaning}" in reported for word, meaning in CONFIDENCE.items())


def test_the_page_says_what_each_word_means_by_which_a_number_is_known():
    section = CATALOGUE[CATALOGUE.index("## How a number is known") : CATALOGUE.index("## Fat trees")]
    words = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)))
    assert {figure.how for entry in catalogue() for figure in entry.figures} <= set(words)
