"""What readers of cluster files take, and what they refuse with a line."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_link_info import BLOCKS as LINK_BLOCKS
from test_link_info import LINES as LINK_LINES

from taccl.errors import FileError, TacclError, TopologyError
from taccl.topologies.importers.clusters.formats.infiniband import host_and_nic, speed_of
from taccl.topologies.importers.clusters.imported import FORMATS, parse_cluster, read_cluster
from taccl.topologies.importers.clusters.tiers import Tiers

FILES = Path(__file__).parents[3] / "data" / "clusters"

BLOCKS = """
switchguid=0xa1(a1)
Switch\t40 "S-00000000000000a1"\t\t# "leaf1" base port 0 lid 1 lmc 0
[1]\t"H-00000000000000b1"[1](b1) \t\t# "n1 mlx5_0" lid 3 4xHDR
[2]\t"H-00000000000000b2"[1](b2) \t\t# "n2 mlx5_0" lid 4 4xHDR
[39]\t"S-00000000000000a2"[1]\t\t# "spine" lid 2 4xHDR
[40]\t"S-00000000000000a2"[2]\t\t# "spine" lid 2 4xHDR

caguid=0xb1
Ca\t1 "H-00000000000000b1"\t\t# "n1 mlx5_0"
[1](b1) \t"S-00000000000000a1"[1]\t\t# lid 3 lmc 0 "leaf1" lid 1 4xHDR
"""
LINES = """
SW 1 1 0x00000000000000a1 4x HDR - CA 3 1 0x00000000000000b1 ( 'leaf1' - 'n1 mlx5_0' )
CA 3 1 0x00000000000000b1 4x HDR - SW 1 1 0x00000000000000a1 ( 'n1 mlx5_0' - 'leaf1' )
SW 1 2 0x00000000000000a1 4x HDR - CA 4 1 0x00000000000000b2 ( 'leaf1' - 'n2 mlx5_0' )
SW 1 39 0x00000000000000a1 4x HDR - SW 2 1 0x00000000000000a2 ( 'leaf1' - 'spine' )
SW 1 40 0x00000000000000a1 4x HDR - SW 2 2 0x00000000000000a2 ( 'leaf1' - 'spine' )
SW 1 41 0x00000000000000a1 4x ??? 'leaf1'
"""


@pytest.mark.parametrize(
    "text", [BLOCKS, LINES, BLOCKS.replace("\t", "  "), BLOCKS.upper().replace("MLX", "mlx")]
)
def test_both_layouts_tell_the_same_cables(text):
    cluster = parse_cluster(text)
    assert [port.gbps for port in cluster.ports] == [25.0, 25.0]
    assert len(cluster.hosts) == 2
    assert [(trunk.count, trunk.gbps) for trunk in cluster.trunks] == [(2, 25.0)]
    assert Tiers(cluster).counts() == {"leaf": 1, "spine": 1}
    assert not cluster.warnings


def test_a_damaged_line_is_left_out_with_a_warning():
    cluster = parse_cluster(BLOCKS.replace('"H-00000000000000b2"[1]', '"H-0000000'), "net.txt")
    assert cluster.hosts == ("n1",)
    assert cluster.warnings == ("net.txt:5: this line of a port cannot be read, and is left out",)


def test_ends_that_tell_different_speeds_are_told_with_both_lines():
    cluster = parse_cluster(BLOCKS.replace("lid 1 4xHDR", "lid 1 4xEDR"), "net.txt")
    assert cluster.ports[0].gbps == 12.5
    assert "net.txt:11: this cable has 12.5 GB/s, but 25 at net.txt:4" in cluster.warnings[0]


@pytest.mark.parametrize("text", [BLOCKS, LINES])
def test_lines_that_were_left_out_are_refused(text):
    at = text.index("\n", text.index("n2 "))
    with pytest.raises(TopologyError, match="lines were left out here") as error:
        parse_cluster(f"{text[:at]}\n ...\n{text[at + 1 :]}", "c")
    assert error.value.line == text.count("\n", 0, at) + 2


def test_one_name_for_two_cards_is_told():
    cluster = parse_cluster(BLOCKS.replace("n2 mlx5_0", "n1 mlx5_0"), "net.txt")
    assert "one name for two cards" in cluster.warnings[0]


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ("host mlx5_0", ("host", "mlx5_0")),
        ("host  HCA-1", ("host", "HCA-1")),
        ("MT4129 ConnectX7   Mellanox Technologies", None),
        ("ConnectX7 Mellanox", None),
        ("", None),
        ("host", ("host", "HCA")),
        ("MT25408", None),
    ],
)
def test_a_description_names_a_host_and_a_card_or_nothing(description, says):
    assert host_and_nic(description) == says


@pytest.mark.parametrize(
    ("text", "gbps"),
    [
        ("4xNDR", 50),
        ("4x NDR", 50),
        ("lid 3 12xhdr s=4", 75),
        ("4xXDR", 100),
        ("1x SDR", 0.25),
        ("4x ???", None),
    ],
)
def test_a_speed_is_lanes_times_the_word(text, gbps):
    assert speed_of(text) == gbps


CONF = """SwitchName=top Switches=leaf[1-2] LinkSpeed=100
SwitchName=leaf1 Nodes=n[1-2]
SwitchName=leaf2 Nodes=n[3,5-6]
"""


def test_slurms_lines_may_go_on_have_comments_and_any_case():
    text = "# a tree\n" + CONF.replace("SwitchName=top Switches", "switchname = top \\\n  SWITCHES").replace(
        "Nodes=n[1-2]", "Nodes=n[1-2]   # two"
    )
    cluster = parse_cluster(text)
    assert cluster.hosts == ("n1", "n2", "n3", "n5", "n6")
    assert Tiers(cluster).counts() == {"leaf": 2, "spine": 1}
    assert [note[:2] for note in cluster.notes] == [("LinkSpeed", "100")]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (CONF.replace("leaf[1-2] ", "leaf[1-3] "), 1, "no switch 'leaf3'"),
        (CONF + "SwitchName=leaf1 Nodes=n9\n", 4, "already on line 2"),
        (CONF + "SwitchName=other Switches=leaf1\n", 4, "below 'top' and 'other'"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", 1, "below itself"),
        ("SwitchName=a\n", 1, "needs a name, and nodes or switches"),
        ("SwitchName=a Nodes=n[1-\n", 1, "no list of names"),
        ("SwitchName=a Nodes=n[3-1]\n", 1, "no range"),
        ("SwitchName=a Nodes=n[1-99999999]\n", 1, "more than 65536 names"),
        ("SwitchName=a Nodes=n[1-2] n3\n", 1, "not Key=Value"),
        ("SwitchName=a Nodez=n1\n", 1, "not Key=Value"),
        ("BlockName=b\n", 1, "needs a name and nodes"),
        ("BlockName=b Nodes=n[1-2]\nBlockName=c Nodes=n[2-3]\n", 2, "in the block 'c' and in 'b'"),
        ("BlockName=b Nodes=n1\nSwitchName=a Nodes=n2\n", None, "switches and blocks"),
        ("SwitchName=a Switches=b\nSwitchName=b Nodes=,\n", 1, "no switch has nodes"),
        ("- topology: a\n  flat: true\n", 2, "says nothing of switches"),
        ("- topology: a\n", 1, "must have one of tree, block"),
        ("- topology: a\n  tree: {switches: [{switch: s, nodes: 'n[1-'}]}\n", 2, "no list of names"),
        ("- topology: a\n  block: {blocks: []}\n", 2, "has no block"),
        ("switches:\n  a: {switches: [b]}\n", 1, "no switch has nodes below it"),
        ("switches:\n- name: a\n  capacity_blocks: [c]\n", 2, "no capacity block 'c'"),
        ("blocks: []\n", 1, "no switches and no blocks"),
        ('[{"DomainUUID": "a"}]', 1, "lacks the key 'Name'"),
        (BLOCKS[: BLOCKS.index("[1]")], 1, "no cable leads from a host"),
        ("hello\n", 1, "no file of a cluster that is known here"),
        (" \n", 1, "this is empty"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_with_its_line(text, line, says):
    with pytest.raises(TopologyError, match=says) as fault:
        parse_cluster(text, "c.txt")
    assert fault.value.path == "c.txt"
    assert fault.value.line == line


def test_a_list_of_nodes_may_go_on_behind_a_comma():
    assert parse_cluster(CONF.replace("n[3,5-6]", "n3,\\\nn[5-6]")).hosts == ("n1", "n2", "n3", "n5", "n6")


SHOWN = """SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=leaf[1-2]
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[3-4]
"""


def test_what_scontrol_shows_has_all_nodes_at_the_top_too():
    cluster = parse_cluster(SHOWN)
    assert [port.switch for port in cluster.ports] == ["leaf1", "leaf1", "leaf2", "leaf2"]
    assert not cluster.warnings


def test_what_scontrol_shows_of_blocks():
    blocks = "".join(
        f"BlockName=b{k} BlockIndex={k} Nodes=n[{2 * k}-{2 * k + 1}] BlockSize=2\n" for k in (0, 1)
    )
    cluster = parse_cluster(blocks + "AggregatedBlock=b[0-1] BlockIndex=2 Nodes=n[0-3] BlockSize=4\n")
    assert [(block.name, block.hosts) for block in cluster.blocks] == [
        ("b0", ("n0", "n1")),
        ("b1", ("n2", "n3")),
    ]


def test_a_rack_of_topograph_without_an_entry_has_nothing_below_it():
    text = "switches:\n  top: {switches: [a, b]}\nblocks:\n- switch: a\n  nodes: ['n[1-2]']\n"
    cluster = parse_cluster(text, "m.yaml")
    assert list(cluster.switches) == ["top", "a", "b"]
    assert "no entry describes the switch b" in cluster.warnings[0]


OLD_LABELS = {"accelerator": "v1", "leaf": "l1", "spine": "s1"}
NEW_LABELS = {"accelerator": "accelerator.topograph.run/domain", "leaf": "fabric.topograph.run/tier-0"}
NEW_LABELS["spine"] = "fabric.topograph.run/tier-1"


def test_newer_labels_of_topograph_tell_what_the_older_tell():
    def nodes(names):
        labels = "".join(f"    {names[key]}: {value}\n" for key, value in OLD_LABELS.items())
        return f"kind: Node\nmetadata:\n  name: n1\n  labels:\n{labels}"

    older = parse_cluster(nodes({key: f"network.topology.nvidia.com/{key}" for key in OLD_LABELS}))
    assert parse_cluster(nodes(NEW_LABELS)) == older
    assert Tiers(older).counts() == {"leaf": 1, "spine": 1}
    assert older.blocks[0].is_nvlink


def test_a_host_below_two_leaves_counts_once_and_is_told():
    cluster = parse_cluster(CONF.replace("n[3,5-6]", "n[2-3]"), "t.conf")
    assert [port.switch for port in cluster.ports if port.host == "n2"] == ["leaf1"]
    assert "t.conf:3: host n2 is below leaf1 and leaf2" in cluster.warnings[0]


def test_a_leaf_right_below_the_top_stays_apart_from_deeper_ones():
    text = "SwitchName=top Switches=pod,leaf3\nSwitchName=pod Switches=leaf[1-2]\n" + "".join(
        f"SwitchName=leaf{k} Nodes=n{k}\n" for k in (1, 2, 3)
    )
    tiers = Tiers(parse_cluster(text))
    assert tiers.counts() == {"leaf": 3, "spine": 1, "core": 1}
    assert len(set(tiers.parts(2).values())) == 2


OLD_MODEL = """
switches:
- name: top
  switches: [a, b]
- name: a
  capacity_blocks: [c1]
- name: b
  capacity_blocks: [c2]
capacity_blocks:
- {name: c1, type: GB200, nvlink: nvl1, nodes: [n1, n2]}
- {name: c2, type: H100, nodes: ["n[3-4]"]}
"""


def test_a_model_of_an_older_topograph_is_read():
    cluster = parse_cluster(OLD_MODEL)
    assert Tiers(cluster).counts() == {"leaf": 2, "spine": 1}
    assert [(block.name, block.hosts, block.is_nvlink) for block in cluster.blocks] == [
        ("nvl1", ("n1", "n2"), True),
        ("c2", ("n3", "n4"), False),
    ]


LABELS = """
apiVersion: v1
kind: List
items:
- metadata: {{name: w1, labels: {{{p}leaf: l1, {p}spine: s1, {p}accelerator: d1}}}}
- metadata: {{name: w2, labels: {{{p}leaf: l1, {p}spine: s1, {p}accelerator: d1}}}}
- metadata: {{name: w3, labels: {{{p}leaf: l2, {p}spine: s1}}}}
- metadata: {{name: head}}
""".format(p="network.topology.nvidia.com/")


def test_labels_of_kubernetes_are_a_tree_and_domains():
    cluster = parse_cluster(LABELS)
    assert cluster.hosts == ("w1", "w2", "w3")
    assert Tiers(cluster).counts() == {"leaf": 2, "spine": 1}
    assert [(block.name, block.hosts, block.is_nvlink) for block in cluster.blocks] == [
        ("d1", ("w1", "w2"), True)
    ]


AWS = """{"Instances": [
 {"InstanceId": "i-1", "InstanceType": "p5.48xlarge", "NetworkNodes": ["nn-a", "nn-b", "nn-c"]},
 {"InstanceId": "i-2", "InstanceType": "p5.48xlarge", "NetworkNodes": ["nn-a", "nn-b", "nn-c"]},
 {"InstanceId": "i-3", "InstanceType": "p5.48xlarge", "NetworkNodes": ["nn-a", "nn-d", "nn-e"]}
]}"""


def test_instances_of_aws_are_a_tree():
    cluster = parse_cluster(AWS)
    assert cluster.hosts == ("i-1", "i-2", "i-3")
    assert Tiers(cluster).counts() == {"leaf": 2, "spine": 2, "core": 1}


def test_a_network_node_below_two_others_is_refused_with_its_line():
    with pytest.raises(TopologyError, match="below 'nn-b' and 'nn-d'") as fault:
        parse_cluster(AWS.replace("nn-e", "nn-c"), "a.json")
    assert fault.value.path == "a.json"
    assert fault.value.line == 4


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        read_cluster(tmp_path / "none")


def test_formats_have_names_of_their_own():
    assert len({each.name for each in FORMATS}) == len(FORMATS)


SAMPLES = [path.read_text() for path in sorted(FILES.iterdir()) if path.suffix != ".md"] + [
    LABELS,
    OLD_MODEL,
    AWS,
    LINK_BLOCKS,
    LINK_LINES,
]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_mutilated_file_is_read_or_refused(data):
    text = data.draw(st.sampled_from(SAMPLES))[:3000]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 30))
        text = (
            text[:at]
            + data.draw(st.text(alphabet='[]{}"=:,-#\n\t 0aSH\x00\x85', max_size=4))
            + text[at + cut :]
        )
    try:
        cluster = parse_cluster(text, "c")
        Tiers(cluster).counts()
    except TacclError as fault:
        assert fault.message
