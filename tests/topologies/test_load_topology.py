from pathlib import Path

import pytest

from taccl.errors import FileError, TopologyError
from taccl.topologies import load_profile, load_topology

MACHINE = "name: mine\ngpus: 2\nlinks: [{pairs: [0-1], alpha_us: 1, beta_us_per_mb: 2}]\n"


def test_a_name_of_the_catalogue_is_built():
    assert load_topology("ndv2").num_nodes == 2
    assert load_topology("ndv2", nodes=3).num_nodes == 3
    assert load_topology("torus:2x2").num_ranks == 4


@pytest.mark.parametrize("name", ["m.yaml", "m.yml", "machine"])
def test_a_file_is_read_whatever_its_name(tmp_path, monkeypatch, name):
    (tmp_path / name).write_text(MACHINE)
    monkeypatch.chdir(tmp_path)
    assert load_topology(name).name == "mine"
    assert load_topology(tmp_path / name).name == "mine"
    assert load_topology(str(tmp_path / name)).name == "mine"


def test_a_stray_file_does_not_hide_a_machine_of_the_catalogue(tmp_path, monkeypatch):
    (tmp_path / "ndv2").write_text(MACHINE)
    monkeypatch.chdir(tmp_path)
    assert load_topology("ndv2").name == "ndv2"
    assert load_topology("./ndv2").name == "mine"


def test_a_file_that_is_not_there_is_a_file_error():
    with pytest.raises(FileError, match="no such file"):
        load_topology("none.yaml")


def test_a_directory_is_a_file_error(tmp_path):
    with pytest.raises(FileError, match="directory"):
        load_topology(tmp_path)


def test_a_directory_is_told_as_such_also_without_a_slash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("machines").mkdir()
    with pytest.raises(FileError, match="this is a directory"):
        load_topology("machines")


def test_an_unknown_name_brings_the_nearest():
    with pytest.raises(TopologyError) as caught:
        load_topology("dgx3")
    assert caught.value.hint == "'dgx2'"


def test_a_profile_can_be_given_read_or_not(tmp_path):
    path = tmp_path / "mine-1MB.json"
    path.write_text(
        '{"name": "mine", "gpus_per_node": 2, "alpha": 4, "node_betas_list": [5], '
        '"remote_alpha": 6, "remote_beta": 7}'
    )
    machine = tmp_path / "m.yaml"
    machine.write_text(MACHINE)
    for profile in (path, str(path), load_profile(path)):
        topology = load_topology(machine, profile=profile)
        assert (topology.links[0].alpha_us, topology.links[0].beta_us_per_mb) == (4, 5)
