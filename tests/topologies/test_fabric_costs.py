"""Costs between nodes from a CSV file: `fabric: costs.csv`."""

import pytest

from taccl import make_problem
from taccl.errors import FileError, TopologyError
from taccl.topologies import load_topology_file

MACHINE = """
name: m
nodes: 3
node:
  gpus: 2
  nics: 2
  links:
    - {from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 50}
fabric: costs.csv
"""
COSTS = """from,to,alpha_us,bandwidth_gbps
0,1,2,50     # one leaf
0,2,3,25
1,2,3.5,25
2,1,4,20
"""


def machine(folder, costs=COSTS, nodes=None):
    (folder / "costs.csv").write_text(costs)
    (folder / "m.yaml").write_text(MACHINE)
    return load_topology_file(folder / "m.yaml", nodes)


def test_each_pair_of_nodes_has_the_cost_of_its_row(tmp_path):
    m = machine(tmp_path)
    assert (m.path(0, 2).alpha_us, m.path(0, 3).alpha_us, m.path(1, 4).alpha_us) == (2, 2, 3)
    assert m.path(0, 4).beta_us_per_mb == pytest.approx(1048.576 / 25)


def test_a_row_stands_for_both_ways_unless_the_way_back_has_its_own(tmp_path):
    m = machine(tmp_path)
    assert m.path(4, 0).alpha_us == 3
    assert (m.path(2, 4).alpha_us, m.path(4, 2).alpha_us) == (3.5, 4)


def test_rows_may_name_nics(tmp_path):
    rows = [
        f"node{a}.nic{i},node{b}.nic{j},{1 + (i != j)},50"
        for a, b in ((0, 1), (0, 2), (1, 2))
        for i in (0, 1)
        for j in (0, 1)
    ]
    m = machine(tmp_path, "\n".join(["from,to,alpha_us,bandwidth_gbps", *rows]))
    assert m.path(0, 2).alpha_us == 1
    assert m.path(0, 3).alpha_us == 2


def test_a_nic_serves_one_transfer_at_a_time_whatever_the_other_ends_are(tmp_path):
    network = make_problem("allgather", topology=machine(tmp_path), size="1MB").problem.topology
    shared = set(network.ports[network.link_index[0, 2]]) & set(network.ports[network.link_index[0, 4]])
    assert [network.port_names[port] for port in shared] == ["node0.gpu0 -> node0.nic0"]


def test_no_way_passes_the_nic_of_a_third_node(tmp_path):
    fast, slow = "0,1,1,50\n1,2,1,50\n", "0,2,1,1\n"
    m = machine(tmp_path, "from,to,alpha_us,bandwidth_gbps\n" + fast + slow)
    assert m.path(0, 4).beta_us_per_mb == pytest.approx(1048.576)


def test_rows_of_nodes_that_the_machine_lacks_and_of_a_node_to_itself_are_left_out(tmp_path):
    m = machine(tmp_path, COSTS + "0,0,0.1,100\n0,7,1,1\n", nodes=2)
    assert m.num_nodes == 2
    assert m.path(0, 2).alpha_us == 2


@pytest.mark.parametrize(
    ("costs", "line", "says"),
    [
        ("", 1, "empty"),
        ("a,b\n", 1, "the header must be"),
        ("from,to,alpha_us,bandwidth_gbps,beta_us_per_mb\n", 1, "the header must be"),
        ("from,to,alpha_us,bandwidth_gbps\n0,1,2\n", 2, "3 cells, not 4"),
        ("from,to,alpha_us,bandwidth_gbps\n\n0,x,2,3\n", 3, "no node and no NIC"),
        ("from,to,alpha_us,bandwidth_gbps\n0,node1.nic7,2,3\n", 2, "no NIC 'nic7'"),
        ("from,to,alpha_us,bandwidth_gbps\n0,1,two,3\n", 2, "alpha_us must be a number"),
        ("from,to,alpha_us,bandwidth_gbps\n0,1,2,0\n", 2, "must be positive"),
        ("from,to,alpha_us,bandwidth_gbps\n0,1,-2,1\n", 2, "cannot be"),
        ("from,to,alpha_us,bandwidth_gbps\n0,1,2,1\n0,1,2,1\n", 3, "already on line 2"),
        ("from,to,alpha_us,bandwidth_gbps\n0,1,2,1\n", None, "no row from node0.nic0 to node2.nic0"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_costs_is_told_with_its_line(tmp_path, costs, line, says):
    with pytest.raises(TopologyError, match=says) as fault:
        machine(tmp_path, costs)
    assert fault.value.line == line
    assert fault.value.path.endswith("costs.csv")


def test_a_file_of_costs_that_is_not_there_is_told(tmp_path):
    (tmp_path / "m.yaml").write_text(MACHINE)
    with pytest.raises(FileError, match="no such file"):
        load_topology_file(tmp_path / "m.yaml")


def test_bytes_that_are_no_text_are_told(tmp_path):
    (tmp_path / "costs.csv").write_bytes(b"from,to\n\xff\n")
    (tmp_path / "m.yaml").write_text(MACHINE)
    with pytest.raises(TopologyError, match="UTF-8"):
        load_topology_file(tmp_path / "m.yaml")
