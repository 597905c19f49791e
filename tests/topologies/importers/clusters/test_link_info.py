"""iblinkinfo tells hosts, switches and cables as ibnetdiscover does."""

import pytest

from taccl.errors import TopologyError
from taccl.topologies.importers.clusters.imported import parse_cluster

BLOCKS = """\
CA: n01 mlx5_0:
    0xb8591 11 1[] ==( 4X 106.25 Gbps Active/ LinkUp)==> 1    1[] "MF0;leaf1:MQM9700/U1" ( )
Switch: 0x248a1 MF0;leaf1:MQM9700/U1:
    1    1[] ==( 4X 106.25 Gbps Active/ LinkUp)==> 11    1[] "n01 mlx5_0" ( )
    1    2[] ==( 4X 106.25 Gbps Active/ LinkUp)==> 12    1[] "n02 mlx5_0" ( )
    1    3[] ==(                Down/ Polling)==>  [] "" ( )
    1   33[] ==( 4X 106.25 Gbps Active/ LinkUp)==> 2    1[] "MF0;spine1:MQM9700/U1" ( )
    1   34[] ==( 4X 10.0 Gbps (FDR10) Active/ LinkUp)==> 145    1[] "Mellanox Aggregation Node" ( )
Switch: 0x248a2 MF0;spine1:MQM9700/U1:
    2    1[] ==( 4X 106.25 Gbps Active/ LinkUp)==> 1   33[] "MF0;leaf1:MQM9700/U1" ( )
"""
LINES = """\
0x248a1 "leaf1" 1 1[] ==( 4X 53.125 Gbps Active/LinkUp)==> 0xb8591 11 1[] "n01 HCA-1" ( )
0x248a1 "leaf1" 1 2[] ==( 4X 53.125 Gbps Active/LinkUp)==> 0xb8592 12 1[] "n02 HCA-1" ( )
0xb8592 "    n02 HCA-1" 12 1[] ==( 4X 53.125 Gbps Active/LinkUp)==> 0x248a1 1 2[] "leaf1" ( )
"""


def ports(cluster):
    return [(port.host, port.nic, port.switch, port.gbps) for port in cluster.ports]


def test_blocks_tell_each_cable_once():
    cluster = parse_cluster(BLOCKS, "links.txt")
    assert cluster.format == "iblinkinfo"
    assert ports(cluster) == [("n01", "mlx5_0", "leaf1", 50.0), ("n02", "mlx5_0", "leaf1", 50.0)]
    assert [(trunk.a, trunk.b, trunk.count, trunk.gbps) for trunk in cluster.trunks] == [
        ("leaf1", "spine1", 1, 50.0)
    ]
    assert [note[:2] for note in cluster.notes] == [("aggregation nodes (SHARP), left out", "1")]
    assert cluster.warnings == ()


def test_lines_of_a_link_are_read_too():
    cluster = parse_cluster(LINES, "links.txt")
    assert ports(cluster) == [("n01", "HCA-1", "leaf1", 25.0), ("n02", "HCA-1", "leaf1", 25.0)]


def test_a_line_that_cannot_be_read_is_left_out_with_a_warning():
    cluster = parse_cluster(BLOCKS + "   x 1[] ==( 4X )==> 3\n", "links.txt")
    assert cluster.warnings == ("links.txt:11: this line cannot be read, and is left out",)


@pytest.mark.parametrize("text", [BLOCKS, LINES], ids=["blocks", "lines"])
def test_lines_that_were_left_out_are_refused(text):
    first, rest = text.split("\n", 1)
    with pytest.raises(TopologyError, match="lines were left out here") as error:
        parse_cluster(f"{first}\n   ...\n{rest}", "links.txt")
    assert error.value.line == 2


def test_a_switch_that_has_no_block_is_one_by_its_name():
    cluster = parse_cluster(BLOCKS[: BLOCKS.index("Switch: 0x248a2")], "links.txt")
    assert set(cluster.switches) == {"leaf1", "spine1"}
    assert cluster.hosts == ("n01", "n02")
