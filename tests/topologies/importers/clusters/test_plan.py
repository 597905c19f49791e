"""Levels of hosts of a cluster: rails, uplinks, order of the nodes, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taccl.errors import TopologyError
from taccl.support.lists import natural
from taccl.topologies.importers.clusters.hostlist import expanded, shortened
from taccl.topologies.importers.clusters.imported import parse_cluster
from taccl.topologies.importers.clusters.plan import plan


def network(hosts, leaf_of, spines=("s",), uplinks=1, crossed=()):
    """An ibnetdiscover -p text: NIC k of each host at `leaf_of(host, k)`, and each leaf at each spine."""
    lines, leaves, number = [], {}, {}
    for h in range(hosts):
        for k in range(2):
            leaf = leaf_of(h, 1 - k if h in crossed else k)
            leaves.setdefault(leaf, len(leaves) + 1)
            number[leaf] = number.get(leaf, 0) + 1
            lines.append(
                f"CA 1 1 0x{h + 16:x}{k} 4x NDR - SW 1 {number[leaf]} 0x{leaves[leaf]:x}aa "
                f"( 'n{h} mlx5_{k}' - '{leaf}' )"
            )
    for leaf, guid in leaves.items():
        for s, spine in enumerate(spines):
            lines += [
                f"SW 1 {50 + s * uplinks + u} 0x{guid:x}aa 4x NDR - SW 2 {guid * 10 + u} 0x{s}bb "
                f"( '{leaf}' - '{spine}' )"
                for u in range(uplinks)
            ]
    return parse_cluster("\n".join(lines), "net")


def test_nics_of_all_hosts_at_one_leaf_each_are_rails():
    (leaf, spine) = plan(network(4, lambda h, k: f"leaf{k}")).levels
    assert leaf.groups == ((0, 1, 2, 3),)
    assert leaf.rails == ((0,), (1,))
    assert len(spine.nic_groups) == 1


def test_all_nics_of_a_host_at_one_leaf_are_no_rails():
    (leaf, _) = plan(network(4, lambda h, k: f"leaf{h // 2}")).levels
    assert leaf.groups == ((0, 1), (2, 3))
    assert leaf.rails is None


def test_the_uplinks_of_a_leaf_are_counted_over_all_spines():
    (leaf, _) = plan(network(4, lambda h, k: f"leaf{h // 2}", spines=("s", "t", "u"), uplinks=2)).levels
    assert [each.number for each in leaf.uplinks] == [6, 6]
    assert leaf.uplinks[0].gbps(None) == 300


def test_a_switch_that_joins_all_needs_no_level_above_it():
    (leaf,) = plan(network(4, lambda h, k: "leaf")).levels
    assert leaf.uplinks is None


def test_nodes_are_in_the_order_of_their_leaves_and_names():
    planned = plan(network(12, lambda h, k: f"leaf{h % 2}"))
    assert planned.hosts == tuple(f"n{h}" for h in (0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11))


def test_hosts_that_are_named_keep_their_order():
    planned = plan(network(4, lambda h, k: f"leaf{h // 2}"), hosts=["n3", "n0", "n2"])
    assert planned.hosts == ("n3", "n0", "n2")
    assert planned.levels[0].groups == ((0, 2), (1,))


def test_only_some_nics_of_the_hosts_may_count():
    planned = plan(network(4, lambda h, k: f"leaf{k}"), nics=["mlx5_1"])
    assert planned.nics == ("mlx5_1",)
    assert len(planned.levels) == 1


def test_crossed_cables_make_groups_of_nics_and_a_warning():
    planned = plan(network(4, lambda h, k: f"leaf{k}", crossed=(2,)))
    leaf = planned.levels[0]
    assert leaf.groups is None
    assert leaf.nic_groups[0] == ((0, 0), (1, 0), (2, 1), (3, 0))
    assert "n2 mlx5_0 is at leaf1" in planned.warnings[0]


def test_hosts_with_few_nics_are_left_out_unless_they_are_named():
    text = network(4, lambda h, k: f"leaf{h // 2}")
    few = type(text)(
        **{**vars(text), "ports": tuple(p for p in text.ports if (p.host, p.nic) != ("n3", "mlx5_1"))}
    )
    planned = plan(few)
    assert planned.hosts == ("n0", "n1", "n2")
    assert "n3" in planned.warnings[0]
    assert plan(few, hosts=["n3"]).nics == ("mlx5_0",)
    with pytest.raises(TopologyError, match="n3 has 1 NICs in the file and n0 has 2"):
        plan(few, hosts=["n0", "n3"])


@pytest.mark.parametrize(
    ("requested", "says"),
    [
        ({"hosts": ["m0"]}, "no host 'm0' is in the file"),
        ({"hosts": ["n0", "n0"]}, "named twice"),
        ({"hosts": []}, "no host is named"),
        ({"nodes": 9}, "tells of 4 such hosts, not of 9"),
        ({"nics": ["mlx4_0"]}, "no host of the file has a NIC 'mlx4_0'"),
    ],
)
def test_what_the_file_does_not_have_is_told(requested, says):
    with pytest.raises(TopologyError, match=says):
        plan(network(4, lambda h, k: "leaf"), **requested)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[01-03,7]", ["n01", "n02", "n03", "n7"]),
        ("r[1-2]n[1-2],x", ["r1n1", "r1n2", "r2n1", "r2n2", "x"]),
        ("[8-10]-a", ["8-a", "9-a", "10-a"]),
        (" a , b ", ["a", "b"]),
    ],
)
def test_a_list_of_names_is_written_out(text, names):
    assert list(expanded(text)) == names


@given(
    st.lists(st.sampled_from([f"{a}{n}" for a in ("n", "rack-") for n in ("1", "2", "3", "07", "08", "10")]))
)
def test_a_shortened_list_stands_for_its_names(names):
    assert list(expanded(shortened(names))) == names


def test_numbers_in_names_sort_by_their_value():
    assert sorted(["n10", "n9", "m", "n09", ""], key=natural) == ["", "m", "n09", "n9", "n10"]


def test_a_fabric_whose_hosts_have_no_name_is_refused_with_its_line():
    text = (
        'Switch\t24 "S-a1"\t# "leaf" base port 0 lid 6 lmc 0\n'
        '[22]\t"H-b1"[1](b2)\t# "MT23108 InfiniHost Mellanox Technologies" lid 4 4xSDR\n'
    )
    with pytest.raises(TopologyError, match=r"net.txt:2: no host has a name: 1 port"):
        plan(parse_cluster(text, "net.txt"))


def test_a_file_that_names_no_host_is_refused():
    with pytest.raises(TopologyError, match="names no host"):
        plan(parse_cluster("blocks:\n- switch: a\n  nodes: []\n"))
