import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml
from click.testing import Result

Taccl = Callable[..., Result]

PUBLISHED = {
    *("dgx2-sk-1", "dgx2-sk-2", "dgx2-sk-3", "dgx2-n1-sk-1"),
    *("ndv2-sk-1", "ndv2-sk-2", "ndv2-sk-3", "ndv2-n1-sk-1"),
}


def test_list_names_the_published_sketches(taccl: Taccl) -> None:
    assert {line.split()[0] for line in taccl("sketch", "list").stdout.splitlines()[1:]} >= PUBLISHED
    listed = json.loads(taccl("sketch", "list", "--json").stdout)["sketches"]
    assert {sketch["name"] for sketch in listed} >= PUBLISHED


def test_what_show_prints_is_a_sketch_that_the_schema_accepts(taccl: Taccl) -> None:
    shown = taccl("sketch", "show", "dgx2-sk-1")
    schema = json.loads(taccl("sketch", "schema").stdout)
    jsonschema.Draft7Validator(schema).validate(_as_json(yaml.safe_load(shown.stdout)))


def _as_json(value: object) -> object:
    """The same with text as keys, as JSON has it."""
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_check_finds_that_each_published_sketch_does_every_collective_without_root(
    taccl: Taccl, name: str
) -> None:
    done = taccl("sketch", "check", name, "--json")
    assert done.exit_code == 0, done.stderr
    verdicts = {each["collective"]: each["ok"] for each in json.loads(done.stdout)["collectives"]}
    assert all(verdicts[each] for each in ("allgather", "alltoall", "reducescatter", "allreduce"))


def test_check_says_which_symmetries_a_root_breaks(taccl: Taccl) -> None:
    done = taccl("sketch", "check", "ndv2-sk-1")
    assert "allgather" in done.stdout
    assert "note: symmetry" in done.stdout


def test_check_exits_3_where_no_collective_can_be_done(taccl: Taccl) -> None:
    Path("m.yaml").write_text(
        "name: islands\ngpus: 3\nlinks: [{pairs: [0-1], alpha_us: 1, beta_us_per_mb: 1}]\n"
    )
    Path("s.yaml").write_text("topology: m.yaml\nsize: 3MB\nintranode: {strategy: none}\n")
    done = taccl("sketch", "check", "s.yaml")
    assert done.exit_code == 3
    assert "rank 2" in done.stdout


def test_init_writes_a_sketch_that_checks(taccl: Taccl) -> None:
    done = taccl("sketch", "init", "ndv2", "--nodes", "4", "-o", "mine.yaml")
    assert done.exit_code == 0
    assert taccl("sketch", "check", "mine.yaml").exit_code == 0
    assert taccl("sketch", "init", "ndv2", "--nodes", "4").stdout == Path("mine.yaml").read_text()


def test_init_overwrites_nothing(taccl: Taccl) -> None:
    Path("mine.yaml").write_text("old")
    done = taccl("sketch", "init", "ndv2", "-o", "mine.yaml")
    assert done.exit_code == 2
    assert Path("mine.yaml").read_text() == "old"


def test_a_wrong_sketch_exits_2_with_its_line(taccl: Taccl) -> None:
    Path("s.yaml").write_text("topology: ndv2\nnodess: 2\n")
    done = taccl("sketch", "check", "s.yaml")
    assert done.exit_code == 2
    assert "s.yaml:2" in done.stderr
