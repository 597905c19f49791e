"""Measured numbers in a machine: which of its numbers they take the place of, and which they leave."""

import json
from pathlib import Path

import pytest

from taccl.calibration.link_fit import MeasuredFit, fit_measured
from taccl.errors import FileError, MeasurementError, TopologyError, UnitError
from taccl.model.units import MB
from taccl.topologies import load_topology
from taccl.topologies.yaml_file import parse_topology

DATA = Path(__file__).parents[1] / "data" / "measurements"

#: 4 GPUs on a switch, 2 NICs; the GPUs' routes to the NICs are slower than what is measured between nodes.
NODES = """\
name: nodes
nodes: 2
node:
  gpus: 4
  switches: [nvswitch]
  nics: 2
  links:
    - {from: gpus, to: nvswitch, alpha_us: 0.4, bandwidth_gbps: 20}
    - {from: gpus, to: nics, match: even, alpha_us: 0.1, bandwidth_gbps: 12}
fabric: {alpha_us: 3, bandwidth_gbps: 25}
"""
#: 4 GPUs with two kinds of links: 0-1 and 2-3 are twice as fast.
MESH = """\
name: mesh
gpus: 4
links:
  - {pairs: [0-1, 2-3], alpha_us: 0.7, beta_us_per_mb: 20}
  - {pairs: [0-2, 0-3, 1-2, 1-3], alpha_us: 0.7, beta_us_per_mb: 40}
"""


def gbps_of(text: str, src: str, dst: str) -> float:
    machine = parse_topology(text)
    (link,) = (link for link in machine.links if link.src.endswith(src) and link.dst.endswith(dst))
    return MB / (link.beta_us_per_mb * 1e3)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    path = tmp_path / "nodes.yaml"
    path.write_text(NODES)
    return path


def p2p(tmp_path: Path, *rows: tuple[float, ...]) -> Path:
    """A matrix of p2pBandwidthLatencyTest."""
    lines = ["Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)"]
    lines.append("   D\\D " + " ".join(str(at) for at in range(len(rows))))
    lines += [f"     {at} " + " ".join(map(str, row)) for at, row in enumerate(rows)]
    path = tmp_path / "p2p.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def text_of(fitted: MeasuredFit) -> str:
    assert fitted.machine_text is not None
    return fitted.machine_text


def test_a_matrix_of_pairs_sets_what_limits_their_way(machine: Path) -> None:
    fitted = fit_measured([DATA / "p2p-v100-4.txt"], topology=machine)
    assert [change.key for change in fitted.changes] == ["node.links[0].bandwidth_gbps"]
    assert fitted.changes[0].before == 20
    assert fitted.changes[0].after == pytest.approx(48.48)
    assert "p2p-v100-4.txt:36" in text_of(fitted)


def test_latency_and_bandwidth_between_nodes_set_the_fabric(machine: Path) -> None:
    files = [DATA / "osu-latency.txt", DATA / "osu-1-pair.txt"]
    fitted = fit_measured(files, topology=machine, between="nodes")
    after = {change.key: change.after for change in fitted.changes}
    assert after["fabric.alpha_us"] == pytest.approx(3.295 - 2 * 0.1, abs=1e-6)
    assert after["fabric.bandwidth_gbps"] == pytest.approx(15.3, rel=0.01)
    assert after["node.links[1].bandwidth_gbps"] == after["fabric.bandwidth_gbps"]
    assert "node.links[0].bandwidth_gbps" not in after
    way = parse_topology(text_of(fitted)).path(0, 4)
    assert way is not None
    assert way.alpha_us == pytest.approx(3.295)


def test_the_file_of_the_machine_is_not_touched(machine: Path) -> None:
    fit_measured([DATA / "p2p-v100-4.txt"], topology=machine)
    assert machine.read_text() == NODES


def test_a_latency_inside_a_node_is_shared_out_over_the_way(machine: Path) -> None:
    fitted = fit_measured([DATA / "osu-latency.txt"], topology=machine, between="gpus")
    way = parse_topology(text_of(fitted)).path(0, 1)
    assert way is not None
    assert way.alpha_us == pytest.approx(3.295, abs=1e-4)


def test_each_class_of_links_gets_the_median_of_its_own_pairs(tmp_path: Path) -> None:
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    rows = [tuple(40.0 if a // 2 == b // 2 else 22.0 for b in range(4)) for a in range(4)]
    fitted = fit_measured([p2p(tmp_path, *rows)], topology=path)
    assert gbps_of(text_of(fitted), "gpu0", "gpu1") == pytest.approx(40, rel=1e-4)
    assert gbps_of(text_of(fitted), "gpu1", "gpu2") == pytest.approx(22, rel=1e-4)


def test_one_sweep_does_not_tell_which_of_two_classes_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    fitted = fit_measured([DATA / "osu-1-pair.txt"], topology=path, between="gpus")
    assert text_of(fitted) == MESH
    assert any("2 classes of links" in warning for warning in fitted.warnings)


def test_a_degraded_link_is_named_and_the_machine_has_it_like_the_others(
    machine: Path, tmp_path: Path
) -> None:
    rows = [[50.0] * 4 for _ in range(4)]
    rows[1][2] = rows[2][1] = 20.0
    fitted = fit_measured([p2p(tmp_path, *map(tuple, rows))], topology=machine)
    assert sum("GPU 1 -> GPU 2 moves 20 GB/s" in warning for warning in fitted.warnings) >= 1
    assert gbps_of(text_of(fitted), "node0.gpu1", "node0.nvswitch") == pytest.approx(50)


def test_pairs_without_a_way_in_the_machine_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH.replace("0-2, 0-3, 1-2, 1-3", "0-2"))
    fitted = fit_measured([DATA / "p2p-v100-4.txt"], topology=path)
    (warning,) = fitted.warnings
    assert warning.endswith("no way between GPUs 0-3, 1-2, 1-3, 2-1, 3-0, 3-1; they are left out")


def test_parallel_links_become_faster_together(tmp_path: Path) -> None:
    path = tmp_path / "pair.yaml"
    entry = "  - {{pairs: [0-1], alpha_us: 1, bandwidth_gbps: {}}}\n"
    path.write_text("name: pair\ngpus: 2\nlinks:\n" + entry.format(30) + entry.format(10))
    fitted = fit_measured([p2p(tmp_path, (1, 80.0), (80.0, 1))], topology=path)
    assert [change.after for change in fitted.changes] == [60, 20]


def test_a_bandwidth_is_no_latency(machine: Path) -> None:
    fitted = fit_measured([DATA / "osu-1-pair.txt"], topology=machine, between="nodes")
    assert {change.key for change in fitted.changes} == {
        "fabric.bandwidth_gbps",
        "node.links[1].bandwidth_gbps",
    }


def test_whom_a_sweep_joins_is_not_guessed(machine: Path) -> None:
    fitted = fit_measured([DATA / "osu-latency.txt"], topology=machine)
    assert text_of(fitted) == NODES
    assert any("--between gpus or --between nodes" in warning for warning in fitted.warnings)


def test_a_collective_leaves_the_machine_alone(machine: Path) -> None:
    fitted = fit_measured([DATA / "nccl-allreduce-v100-4.txt"], topology=machine)
    assert text_of(fitted) == NODES
    assert any("stays as it is" in warning for warning in fitted.warnings)


def test_several_pairs_that_share_a_port_are_held_against_the_machine(machine: Path) -> None:
    text = NODES.replace("nics: 2", "nics: 4")
    machine.write_text(text)
    files = [DATA / "osu-1-pair.txt", DATA / "osu-4-pairs.txt"]
    fitted = fit_measured(files, topology=machine, between="nodes")
    assert any("all pairs together move 39.02 GB/s" in warning for warning in fitted.warnings)


def test_the_number_of_ports_is_held_against_the_number_of_nics(machine: Path, tmp_path: Path) -> None:
    files = []
    for pairs, gbps in ((1, 10.2), (4, 20.5)):
        rows = "".join(f"{2**at} {gbps * 1e3}\n" for at in range(16, 22))
        title = "# OSU MPI Multiple Bandwidth / Message Rate Test v7.2\n"
        files.append(tmp_path / f"{pairs}.txt")
        files[-1].write_text(f"{title}# [ pairs: {pairs} ] [ window size: 64 ]\n# Size  MB/s\n{rows}")
    assert not fit_measured(files, topology=machine, between="nodes").warnings
    machine.write_text(NODES.replace("nics: 2", "nics: 4"))
    (warning,) = fit_measured(files, topology=machine, between="nodes").warnings
    assert "2 independent port(s)" in warning
    assert "4 NIC(s)" in warning


def test_more_gpus_than_the_machine_has_are_an_error(machine: Path) -> None:
    machine.write_text(NODES.replace("gpus: 4", "gpus: 2"))
    with pytest.raises(TopologyError, match="GPU 3 was measured, but a node of this machine has only 2 GPUs"):
        fit_measured([DATA / "p2p-v100-4.txt"], topology=machine)


def test_a_fabric_is_needed_for_what_is_between_nodes(tmp_path: Path) -> None:
    path = tmp_path / "mesh.yaml"
    path.write_text(MESH)
    fitted = fit_measured([DATA / "osu-latency.txt"], topology=path, between="nodes")
    assert any("the machine has no fabric" in warning for warning in fitted.warnings)


def test_sizes_around_the_one_that_will_be_sent_can_be_asked_for(machine: Path) -> None:
    fitted = fit_measured([DATA / "osu-latency.txt"], topology=machine, between="nodes", at="512KB")
    alpha = next(each for each in fitted.found.quantities if each.name == "alpha_us")
    assert alpha.sizes_bytes == (2**16, 2**22)
    assert alpha.value == pytest.approx(6.3, abs=0.2)


def test_files_of_one_test_are_repeats_and_a_contradiction_is_told(tmp_path: Path) -> None:
    slow = tmp_path / "slow.txt"
    slow.write_text((DATA / "osu-latency.txt").read_text().replace("280.76", "980.76"))
    fitted = fit_measured([DATA / "osu-latency.txt", slow], between="nodes")
    assert len([each for each in fitted.found.quantities if each.name == "alpha_us"]) == 1
    (warning,) = fitted.warnings
    assert "osu-latency.txt:27" in warning
    assert "slow.txt:27" in warning


def test_runs_of_one_matrix_are_its_medians(tmp_path: Path) -> None:
    files = []
    for at, gbps in enumerate((40.0, 50.0, 20.0)):
        files.append(tmp_path / f"run{at}.txt")
        p2p(tmp_path, (1, gbps), (gbps, 1)).rename(files[-1])
    (beta,) = (each for each in fit_measured(files).found.quantities if each.name == "beta_us_per_mb")
    assert beta.gbps == pytest.approx(40)
    assert beta.source.endswith("median of 3 runs")


def test_a_machine_with_measured_numbers_is_one_for_every_command(machine: Path, tmp_path: Path) -> None:
    fitted = fit_measured([DATA / "p2p-v100-4.txt"], topology=machine)
    again = tmp_path / "fitted.yaml"
    again.write_text(text_of(fitted))
    assert load_topology(again).num_ranks == 8
    before = fit_measured([DATA / "p2p-v100-4.txt"], topology=again).changes[0].before
    assert before == pytest.approx(48.48)


def test_the_json_is_json() -> None:
    reported = fit_measured([DATA / "p2p-v100-4.txt"]).to_dict()
    assert json.loads(json.dumps(reported, allow_nan=False)) == reported


def test_what_cannot_be_is_refused(machine: Path, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="nothing to fit"):
        fit_measured([])
    with pytest.raises(FileError, match="no such file"):
        fit_measured([tmp_path / "no.txt"])
    with pytest.raises(FileError, match="no\\.yaml"):
        fit_measured([DATA / "osu-latency.txt"], topology=tmp_path / "no.yaml")
    with pytest.raises(TopologyError, match="cannot be written as a file"):
        fit_measured([DATA / "osu-latency.txt"], topology="ndv2-teccl", nodes=2)
    with pytest.raises(TopologyError, match="no machine called"):
        fit_measured([DATA / "osu-latency.txt"], topology="ndv3")
    with pytest.raises(UnitError):
        fit_measured([DATA / "osu-latency.txt"], at="much")


@pytest.mark.parametrize("nodes", [None, 3])
def test_a_machine_of_the_catalogue_gets_a_file_with_the_numbers(nodes: int | None) -> None:
    fitted = fit_measured([DATA / "osu-latency.txt"], topology="dgx2", nodes=nodes, between="nodes")
    (alpha,) = (change for change in fitted.changes if change.key == "fabric.alpha_us")
    assert fitted.machine_text is not None
    written = parse_topology(fitted.machine_text)
    assert written.num_nodes == (nodes or 2)
    path, before = (machine.path(0, 16) for machine in (written, load_topology("dgx2", nodes=2)))
    assert path.alpha_us == pytest.approx(before.alpha_us + alpha.after - alpha.before)
    assert "of dgx2" in fitted.machine_text.splitlines()[0]


def test_a_shape_and_a_file_with_other_nodes_get_a_file_too(machine: Path) -> None:
    ring = fit_measured([DATA / "p2p-v100-4.txt"], topology="ring:4").machine_text
    assert gbps_of(ring or "", "gpu0", "gpu1") == pytest.approx(48.48, rel=1e-3)
    reported = fit_measured([DATA / "p2p-v100-4.txt"], topology=machine, nodes=5).machine_text
    assert parse_topology(reported or "").num_nodes == 5


def test_a_profile_gives_the_numbers_before_the_fit() -> None:
    profile = DATA.parent / "taccl" / "topo" / "topo-ndv2-32KB.json"
    fitted = fit_measured(
        [DATA / "osu-latency.txt"], topology="ndv2", profile=profile, at="1MB", between="nodes"
    )
    profiled = load_topology("ndv2", profile=profile)
    assert parse_topology(fitted.machine_text or "").path(0, 1) == profiled.path(0, 1)
    assert profile.name in (fitted.machine_text or "").splitlines()[0]
