"""What parts of a machine are worth."""

from taccl import load_topology
from taccl.analysis.failures import failures, parts_of, without_part

NODE = """
name: pair
nodes: 2
node:
  gpus: 2
  nics: 2
  switches: [sw]
  links:
    - {pairs: [gpu0-sw, gpu1-sw], alpha_us: 0.5, bandwidth_gbps: 50}
    - {pairs: [gpu0-nic0, gpu1-nic1], alpha_us: 0, bandwidth_gbps: 20}
fabric: {alpha_us: 2, bandwidth_gbps: 10}
"""


def test_parts_with_the_same_links_are_one_row():
    found = {part.name: len(part.alike) for part in parts_of(load_topology("ring:5"))}
    assert found == {"gpu0-gpu1": 4}


def test_links_nics_and_switches_are_parts_and_gpus_are_not(tmp_path):
    (tmp_path / "pair.yaml").write_text(NODE)
    found = {part.name: len(part.alike) for part in parts_of(load_topology(tmp_path / "pair.yaml"))}
    assert found == {
        **{"node0.gpu0-node0.sw": 3, "node0.gpu0-node0.nic0": 3, "fabric-node0.nic0": 3},
        **{"node0.sw": 1, "node0.nic0": 3, "fabric": 0},
    }


def test_without_a_part_its_links_are_gone_and_what_its_switch_did():
    machine = load_topology("dgx-h100", nodes=1)
    switch = next(
        part for part in parts_of(machine) if part.name.endswith("nvswitch") and "-" not in part.name
    )
    left = without_part(machine, switch)
    assert not any("nvswitch" in link.src + link.dst for link in left.links)
    assert all(device.kind != "helper" for device in left.devices)


def test_a_machine_is_slower_without_a_link_and_nothing_is_without_the_fabric(tmp_path):
    (tmp_path / "pair.yaml").write_text(NODE)
    found = failures(load_topology(tmp_path / "pair.yaml"), "allgather", "1MB", effort=50)
    rows = {row.part: row for row in found.parts}
    assert "no links that lead there" in rows["fabric"].why
    for row in found.parts:
        if row.time_us is not None:
            assert row.bound_us <= row.time_us
            assert row.mended_us is None or row.time_us <= row.mended_us + 1e-6
    assert rows["node0.nic0"].time_us > found.time_us
    assert found.to_dict()["parts"][0]["time_us"] is None  # the worst come first
