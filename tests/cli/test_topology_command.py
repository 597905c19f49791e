import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Taccl = Callable[..., Result]


def test_list_names_the_machines(taccl: Taccl) -> None:
    done = taccl("topology", "list")
    assert done.exit_code == 0
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"dgx2", "ndv2"} <= set(names)


def test_list_as_json_says_the_same(taccl: Taccl) -> None:
    listed = json.loads(taccl("topology", "list", "--json").stdout)["topologies"]
    assert {"dgx2", "ndv2"} <= {entry["name"] for entry in listed}
    assert all(entry["summary"] and entry["default_nodes"] >= 1 for entry in listed)


def test_show_counts_links_by_their_cost(taccl: Taccl) -> None:
    done = taccl("topology", "show", "ndv2", "--nodes", "1", "--json")
    machine = json.loads(done.stdout)
    assert (machine["ranks"], machine["nodes"]) == (8, 1)
    nvlinks = {
        link["beta_us_per_mb"]: link["count"]
        for link in machine["links"]
        if link["from"] == link["to"] == "gpu"
    }
    assert nvlinks == {23.0: 16, 46.0: 16}


def test_show_prints_alpha_and_beta_with_their_units(taccl: Taccl) -> None:
    done = taccl("topology", "show", "dgx2", "--nodes", "1")
    assert done.exit_code == 0
    assert "alpha_us" in done.stdout
    assert "beta_us_per_mb" in done.stdout
    assert "GB/s" in done.stdout


def test_show_reads_a_machine_from_yaml(taccl: Taccl) -> None:
    Path("m.yaml").write_text(
        "name: pair\ngpus: 2\nlinks:\n  - {pairs: [0-1], alpha_us: 0.5, bandwidth_gbps: 25}\n"
    )
    machine = json.loads(taccl("topology", "show", "m.yaml", "--json").stdout)
    assert (machine["name"], machine["ranks"]) == ("pair", 2)
    assert machine["links"][0]["bandwidth_gbps"] == 25.0


def test_show_copes_with_a_machine_without_links(taccl: Taccl) -> None:
    Path("m.yaml").write_text("name: alone\ngpus: 1\nlinks: []\n")
    assert taccl("topology", "show", "m.yaml").exit_code == 0


def test_an_unknown_machine_exits_2(taccl: Taccl) -> None:
    done = taccl("topology", "show", "dgx3")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
