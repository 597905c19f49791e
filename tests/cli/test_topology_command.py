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


def test_show_counts_the_ways_of_a_machine_with_many_by_those_of_one_node(taccl: Taccl) -> None:
    machine = json.loads(taccl("topology", "show", "fat-tree:40x13:2", "--json").stdout)
    assert [(each["pairs"], each["where"], each["links"]) for each in machine["paths"]] == [
        (13 * 40 * 39, "in a node", 2),
        (13 * 40 * 12 * 40, "between nodes", 4),
    ]


def test_an_unknown_machine_exits_2(taccl: Taccl) -> None:
    done = taccl("topology", "show", "dgx3")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")


def test_list_says_how_each_machine_is_known(taccl: Taccl) -> None:
    rows = {line.split()[0]: line.split()[2] for line in taccl("topology", "list").stdout.splitlines()}
    assert (rows["ndv2"], rows["mi250x"], rows["dgx-b200"]) == ("measured", "dump", "vendor")


def test_show_gives_each_number_of_the_catalogue_with_its_source(taccl: Taccl) -> None:
    machine = json.loads(taccl("topology", "show", "dgx-h100", "--json").stdout)
    assert machine["confidence"] == "vendor"
    whole = next(f for f in machine["figures"] if f["quantity"] == "a GPU to all others together")
    assert (whole["bandwidth_gbps"], whole["peak_gbps"]) == (370.8, 450)
    assert (whole["how"], whole["source"]) == ("inferred", "18 x 20.6")
    assert "18 x 20.6" in taccl("topology", "show", "dgx-h100").stdout


def test_show_claims_no_source_of_a_file_or_of_costs_from_a_profile(taccl: Taccl) -> None:
    Path("mi300x.yaml").write_text("name: mi300x\ngpus: 1\nlinks: []\n")
    shown = json.loads(taccl("topology", "show", "mi300x.yaml", "--json").stdout)
    assert (shown["confidence"], shown["source"], shown["figures"]) == (None, None, [])


EXECUTED = """\
name: executed
gpus: 2
links:
  - {pairs: [0-1], alpha_us: 1, bandwidth_gbps: 20}
executor:
  reduce_us: 4.9
  reduce_gbps: 22.9
  thread_blocks: 64
  protocols:
    Simple: {launch_us: 6.2, hop_us: 0.4, slice_us: 0.95, block_gbps: 20.8, piece: 2MB}
    LL: {launch_us: 4.7, hop_us: 0.4, slice_us: 0.22, block_gbps: 3.2, piece: 16KB, empty_slice_us: 0.1}
"""


def test_show_tells_what_executing_costs(taccl: Taccl) -> None:
    Path("executed.yaml").write_text(EXECUTED)
    rows = [line.split() for line in taccl("topology", "show", "executed.yaml").stdout.splitlines()]
    assert ["Simple", "LL"] in rows
    for row in (
        *(["launch_us", "6.2", "4.7"], ["block_gbps", "20.8", "3.2"], ["piece_bytes", "2097152", "16384"]),
        *(["empty_slice_us", "0.95", "0.1"], ["slots", "4", "8"], ["cut_through", "no", "yes"]),
        *(["reduce_us", "4.9"], ["copy_us", "-"], ["thread_blocks", "64"]),
    ):
        assert row in rows


def test_show_has_the_same_in_json_and_null_where_nothing_is_said(taccl: Taccl) -> None:
    Path("executed.yaml").write_text(EXECUTED)
    shown = json.loads(taccl("topology", "show", "executed.yaml", "--json").stdout)["executor"]
    assert [each["protocol"] for each in shown["protocols"]] == ["Simple", "LL"]
    assert shown["protocols"][1] | {"empty_slice_us": 0.1, "wire_bytes": 2.0} == shown["protocols"][1]
    assert (shown["reduce_gbps"], shown["copy_gbps"], shown["thread_blocks"]) == (22.9, None, 64)
    assert json.loads(taccl("topology", "show", "ring:3", "--json").stdout)["executor"] is None
    assert "EXECUTING" not in taccl("topology", "show", "ring:3").stdout


HALF = (
    "name: half\ngpus: 4\nlinks:\n  - {pairs: [0-1, 1-2, 2-3, 3-0, 0-2], alpha_us: 1, bandwidth_gbps: 20}\n"
    "  - {pairs: [1-3], alpha_us: 1, bandwidth_gbps: 10}\n"
)


def test_check_tells_what_is_odd_and_what_limits(taccl: Taccl) -> None:
    Path("half.yaml").write_text(HALF)
    done = taccl("topology", "check", "half.yaml", "--size", "1KB,64MB")
    assert done.exit_code == 0
    assert "half, 1 node, 4 GPUs: 1 anomaly found" in done.stdout
    assert "link gpu1 - gpu3 at 10 GB/s, 50% of the 20" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("1KB", "64MB"))]
    assert [row[1] for row in rows] == 2 * ["allgather", "reducescatter", "allreduce", "alltoall"]
    assert all(row[5] == ("latency" if row[0] == "1KB" else "bandwidth") for row in rows)


def test_check_exits_4_where_gpus_have_no_way_to_each_other(taccl: Taccl) -> None:
    Path("apart.yaml").write_text("name: apart\ngpus: 2\nlinks: []\n")
    done = taccl("topology", "check", "apart.yaml")
    assert done.exit_code == 4
    assert "no way: the GPUs fall into 2 parts" in done.stdout
    assert json.loads(taccl("topology", "check", "apart.yaml", "--json").stdout)["is_whole"] is False


def test_check_refuses_a_size_that_is_none(taccl: Taccl) -> None:
    done = taccl("topology", "check", "ring:4", "--size", "1KB,,")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")


def test_a_drawing_takes_the_place_of_the_text(taccl: Taccl, tmp_path: Path) -> None:
    done = taccl("topology", "show", "ndv2", "--html", "machine.html")
    assert (done.exit_code, done.stdout) == (0, "wrote machine.html\n")
    assert "<title>ndv2</title>" in (tmp_path / "machine.html").read_text()
    assert "both want standard output" in taccl("topology", "show", "ndv2", "--html", "-", "--json").stderr
