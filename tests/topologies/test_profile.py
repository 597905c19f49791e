import json
from pathlib import Path

import pytest

from taccl.errors import FileError, TopologyError
from taccl.model.units import KB, MB
from taccl.topologies import build_topology, load_profile, load_topology, with_profile

TOPO = Path(__file__).parents[1] / "data" / "taccl" / "topo"


@pytest.mark.parametrize(
    ("file", "chunk_bytes", "betas", "remote_beta"),
    [
        ("topo-dgx2-1KB.json", KB, (10.24,), 104.96),
        ("topo-dgx2-1MB.json", MB, (8.0,), 105.0),
        ("topo-ndv2-1KB.json", KB, (22.9376, 46.08), 104.96),
        ("topo-ndv2-32KB.json", 32 * KB, (22.976, 46.016), 104.96),
        ("topo-ndv2-1MB.json", MB, (23.0, 46.0), 105.0),
    ],
)
def test_taccls_profiles_are_unscaled_to_microseconds_and_microseconds_per_mb(
    file, chunk_bytes, betas, remote_beta
):
    profile = load_profile(TOPO / file)
    assert profile.chunk_bytes == chunk_bytes
    assert profile.gpus_per_node == (16 if "dgx2" in file else 8)
    assert (profile.alpha_us, profile.remote_alpha_us) == (0.3, 2.6)
    assert profile.betas_us_per_mb == betas
    assert profile.remote_beta_us_per_mb == remote_beta


@pytest.mark.parametrize("name", ["dgx2", "ndv2"])
def test_the_1mb_profile_of_a_machine_changes_only_its_chunk_size(name):
    topology = build_topology(name)
    profiled = with_profile(topology, load_profile(TOPO / f"topo-{name}-1MB.json"))
    assert profiled.links == topology.links
    assert profiled.chunk_bytes == MB


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_a_profile_replaces_the_cost_of_every_path(nodes):
    topology = load_topology("ndv2", nodes, profile=TOPO / "topo-ndv2-32KB.json")
    assert topology.path(0, 1).beta_us_per_mb == 22.976
    assert topology.path(0, 2).beta_us_per_mb == 46.016
    if nodes > 1:
        assert topology.path(1, 8).beta_us_per_mb == 104.96
        assert topology.path(1, 8).alpha_us == 2.6
        assert topology.host_path(5, 13).alpha_us == 2.6


def test_a_switch_shares_the_alpha_between_the_links_to_and_from_it():
    topology = load_topology("dgx2", profile=TOPO / "topo-dgx2-1KB.json")
    path = topology.path(0, 5)
    assert (path.alpha_us, path.beta_us_per_mb) == (0.3, 10.24)
    assert [topology.links[link].alpha_us for link in path.links] == [0.15, 0.15]


def test_a_profile_for_other_nodes_is_refused():
    with pytest.raises(TopologyError, match="16 GPUs per node"):
        load_topology("ndv2", profile=TOPO / "topo-dgx2-1MB.json")


def test_a_profile_with_other_classes_of_links_is_refused():
    with pytest.raises(TopologyError, match=r"2 beta.s. .* 1 different"):
        load_topology("switch:8", profile=TOPO / "topo-ndv2-1MB.json")


def edited(tmp_path, file_name="p-1MB.json", **changes):
    content = json.loads((TOPO / "topo-ndv2-1MB.json").read_text()) | changes
    path = tmp_path / file_name
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}, indent=1))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "NDv2_2KB"}, "scale of costs for chunks of 2KB is not known"),
        ({"alpha": None}, "lacks the key 'alpha'"),
        ({"alfa": 1}, "unknown key 'alfa'"),
        ({"alpha": -1}, "must be 0 or more"),
        ({"remote_beta": 0}, "must be positive"),
        ({"node_betas_list": [23, "x"]}, r"node_betas_list\[1\] must be a number"),
        ({"node_betas_list": []}, "empty"),
        ({"gpus_per_node": 7.5}, "whole number"),
    ],
)
def test_a_faulty_profile_is_refused_with_its_line(tmp_path, changes, message):
    with pytest.raises(TopologyError, match=message) as caught:
        load_profile(edited(tmp_path, **changes))
    assert caught.value.line is not None


def test_the_chunk_size_is_also_told_by_the_name_of_the_file(tmp_path):
    assert load_profile(edited(tmp_path, "measured-1KB.json", name="mine")).chunk_bytes == KB


def test_a_profile_that_tells_no_chunk_size_is_refused(tmp_path):
    with pytest.raises(TopologyError, match="chunk size"):
        load_profile(edited(tmp_path, "measured.json", name="mine"))


def test_a_profile_that_is_not_there_is_a_file_error(tmp_path):
    with pytest.raises(FileError):
        load_profile(tmp_path / "none-1MB.json")
