"""Real files of clusters, each against what it is known to tell."""

from pathlib import Path

import pytest

from taccl.topologies import parse_topology
from taccl.topologies.importers.clusters.imported import import_cluster, read_cluster
from taccl.topologies.importers.clusters.plan import plan
from taccl.topologies.importers.clusters.section import section
from taccl.topologies.importers.clusters.tiers import Tiers

FILES = Path(__file__).parents[3] / "data" / "clusters"
GB200 = FILES / "gb200-cluster.ibnetdiscover.txt"

#: File -> format, hosts, switches of each tier, hosts of each block, whether blocks are domains of NVLinks.
VERDICTS = {
    "edr.ibnetdiscover-p.txt": ("ibnetdiscover-p", 3, {"leaf": 2, "spine": 1}, [], None),
    "hdr-faked.ibnetdiscover.txt": ("ibnetdiscover", 10, {"leaf": 5, "spine": 2, "core": 1}, [], None),
    "netq-computeNodes.json": ("netq", 2, {}, [2], True),
    "slurm-topology-block.conf": ("slurm-block", 96, {}, [8] * 12, False),
    "slurm-topology-tree.conf": ("slurm-tree", 96, {"leaf": 12, "spine": 6, "core": 1}, [], None),
    "slurm-topology.yaml": ("slurm-tree", 4, {"leaf": 2, "spine": 1}, [], None),
    "topograph-nvl72-model.yaml": ("topograph", 72, {"leaf": 4, "spine": 2, "core": 1}, [18] * 4, True),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_a_file_tells_what_it_is_known_to_tell(name):
    form, hosts, switches, blocks, is_nvlink = VERDICTS[name]
    cluster = read_cluster(FILES / name)
    assert (cluster.format, len(cluster.hosts), Tiers(cluster).counts()) == (form, hosts, switches)
    assert [len(block.hosts) for block in cluster.blocks] == blocks
    assert {block.is_nvlink for block in cluster.blocks} == (set() if is_nvlink is None else {is_nvlink})
    assert not cluster.warnings


@pytest.mark.parametrize("name", VERDICTS)
def test_the_text_of_a_file_is_the_network_of_a_machine(name):
    cluster = read_cluster(FILES / name)
    planned = plan(cluster)
    node = (
        "node: {gpus: 1, nics: 1, switches: [nvswitch], links: ["
        "{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 50}, "
        "{from: gpus, to: nvswitch, alpha_us: 0.3, bandwidth_gbps: 400}]}\n"
    )
    machine = parse_topology(f"name: m\n{node}{section(cluster, planned).text}")
    assert machine.num_nodes == len(planned.hosts) == len(cluster.hosts)


def test_leaves_of_a_tree_are_levels():
    found = import_cluster(FILES / "slurm-topology-tree.conf")
    assert [(level.name, [len(group) for group in level.groups]) for level in found.plan.levels] == [
        ("leaf", [8] * 12),
        ("spine", [16] * 6),
        ("core", [96]),
    ]


def test_unconnected_ports_count_for_nothing():
    cluster = read_cluster(FILES / "edr.ibnetdiscover-p.txt")
    assert [(trunk.a, trunk.b, trunk.count, trunk.gbps) for trunk in cluster.trunks] == [
        ("ib-i1l1s01", "ib-i1l2s01", 1, 12.5)
    ]
    assert {port.nic for port in cluster.ports} == {"HCA-1"}


def test_leaves_that_no_switch_joins_are_told_and_stay_apart():
    found = import_cluster(FILES / "edr.ibnetdiscover-p.txt")
    assert any("no switch of the file joins" in warning for warning in found.section.warnings)
    node = "node: {gpus: 1, nics: 1, links: [{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 50}]}\n"
    machine = parse_topology(f"name: m\n{node}{found.yaml}")
    assert machine.path(0, 1) is not None
    assert machine.path(0, 2) is None


def test_of_several_topologies_the_default_is_taken_and_another_can_be_named():
    assert import_cluster(FILES / "slurm-topology.yaml").plan.hosts == (
        "node01",
        "node02",
        "node03",
        "node04",
    )
    blocks = import_cluster(FILES / "slurm-topology.yaml", choice="topo2").plan
    assert [len(group) for group in blocks.levels[0].groups] == [4, 4, 4, 4]


def test_an_nvl72_is_a_domain_of_eighteen_trays_and_a_tree():
    found = import_cluster(FILES / "topograph-nvl72-model.yaml")
    assert [len(domain) for domain in found.plan.domains] == [18] * 4
    assert [level.name for level in found.plan.levels] == ["leaf", "spine", "core"]


def test_blocks_of_a_scheduler_are_no_nvlinks_unless_the_user_says_so():
    path = FILES / "slurm-topology-block.conf"
    assert "domain" not in import_cluster(path).yaml
    said = import_cluster(path, blocks_are_nvlink=True)
    assert [len(domain) for domain in said.plan.domains] == [8] * 12
    assert said.plan.levels == ()


def test_a_cluster_of_gb200_trays_has_leaves_spines_and_cards_without_hosts():
    cluster = read_cluster(GB200)
    tiers = Tiers(cluster)
    assert tiers.counts() == {"leaf": 31, "spine": 9}
    assert len(cluster.unnamed) == 69
    assert ("aggregation nodes (SHARP), left out", "40") in [note[:2] for note in cluster.notes]
    assert len(cluster.ports) + len(cluster.unnamed) + 40 == 582
    assert {port.gbps for port in cluster.ports} == {50.0}


def test_trays_of_two_racks_have_four_rails():
    found = import_cluster(GB200, hosts="a08-p1-dgx-04-c[01-04],b05-p1-dgx-05-c[01-04]")
    leaf, spine = found.plan.levels
    assert leaf.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert leaf.rails == ((0,), (1,), (2,), (3,))
    assert [each.number for each in leaf.uplinks] == [18, 16, 18, 16, 16, 18, 18, 18]
    assert spine.uplinks is None


def test_crossed_cables_are_told_with_the_host():
    found = import_cluster(GB200)
    (said,) = [warning for warning in found.section.warnings if "neighbours" in warning]
    assert "b08-p1-dgx-08-c01 HCA-5" in said
    assert ":127:" in said
