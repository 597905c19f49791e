"""Helpers of a machine's file: ranks without data, from the file through the network to a schedule."""

import numpy as np
import pytest

from taccl import synthesize
from taccl.errors import SketchError, TacclError, TopologyError
from taccl.sketch.apply import sketched
from taccl.sketch.model import Internode, Sketch
from taccl.topologies import parse_topology
from taccl.topologies.as_yaml import topology_text

STAR = """\
name: star
gpus: 4
helpers: [server]
links:
  - {from: gpus, to: server, alpha_us: 1, bandwidth_gbps: 10}
"""


def test_helpers_are_the_last_ranks():
    machine = parse_topology(STAR.replace("gpus: 4\nhelpers: [server]", "helpers: [server]\ngpus: 4"))
    assert [device.name for device in machine.gpus] == ["gpu0", "gpu1", "gpu2", "gpu3", "server"]
    assert (machine.num_ranks, machine.num_members, machine.num_helpers) == (5, 4, 1)


def test_a_prompt_shows_helpers():
    assert repr(parse_topology(STAR)) == "<star: 1 node, 4 GPUs, 1 helper, 8 links, serial>"


def test_no_path_passes_a_helper():
    machine = parse_topology(STAR)
    assert machine.path(0, 1) is None
    assert machine.path(0, 4) is not None


def test_helpers_of_nodes_come_behind_all_gpus():
    node = "\n".join("  " + line for line in STAR.strip().split("\n")[1:])
    machine = parse_topology(
        f"name: two\nnodes: 2\nnode:\n  nics: 1\n{node}\nfabric: {{alpha_us: 1, bandwidth_gbps: 10}}\n"
    )
    assert [device.name for device in machine.gpus[-2:]] == ["node0.server", "node1.server"]


def test_what_a_helper_cannot_do_reaches_the_network():
    machine = parse_topology(STAR.replace("[server]", "[server, {name: relay, can: [store]}]"))
    network = sketched(None, machine).topology
    assert network.num_helpers == 2
    assert network.may_sum.tolist() == network.may_copy.tolist() == [True] * 5 + [False]
    assert sketched(None, parse_topology(STAR)).topology.may_sum is None


@pytest.mark.parametrize("helpers", ["[server]", "1", "[server, {name: relay, can: [copy], memory_mb: 8}]"])
def test_a_machine_with_helpers_is_written_and_read_back(helpers):
    text = STAR.replace("[server]", helpers).replace("to: server", "to: helpers")
    machine = parse_topology(text)
    back = parse_topology(topology_text(machine))
    assert set(back.devices) == set(machine.devices)
    assert set(back.links) == set(machine.links)


def test_an_allreduce_through_a_server_takes_each_byte_once_each_way():
    result = synthesize(
        "allreduce", topology=parse_topology(STAR), size="1MB", chunks=1, effort=500, file=False
    )
    assert result.collective.counted_ranks == "4 ranks and 1 helper"
    assert result.schedule.problem.topology.num_helpers == 1
    sums_at_server = np.count_nonzero(result.schedule.dst == 4)
    assert sums_at_server == 4 * result.collective.num_chunks
    assert 104.86 < result.time_us < 140


def test_the_first_schedules_make_sums_at_the_server_one_after_another():
    """In two parts each: 1 + 8 * 13.1 us into the server, 8 alphas, and one more hop for the last sum."""
    result = synthesize("allreduce", topology=parse_topology(STAR), size="1MB", effort=300, file=False)
    assert result.time_us < 127


RELAY = """\
name: relayed
gpus: 3
helpers: [{name: relay, can: CAN}]
links:
  - {from: gpus, to: relay, alpha_us: 1, bandwidth_gbps: 10}
"""


@pytest.mark.parametrize("can", ["[copy]", "[reduce]", "[store]"])
def test_an_allreduce_through_a_relay_whatever_it_can_do(can):
    machine = parse_topology(RELAY.replace("CAN", can))
    result = synthesize("allreduce", topology=machine, size="1MB", chunks=1, effort=200, file=False)
    result.schedule.check()
    assert result.time_us < 216


@pytest.mark.parametrize("target", ["all", "msccl", "executor", "rccl", "json"])
def test_targets_refuse_helpers_with_the_reason_and_say_how_to_leave_them_out(target):
    with pytest.raises(TacclError, match="its ranks all hold data, sum and copy") as caught:
        synthesize("allreduce", topology=parse_topology(STAR), size="1MB", target=target, effort=100)
    assert "--without nvswitch" in caught.value.hint


def test_a_sketch_that_chooses_links_is_refused():
    sketch = Sketch("s", internode=Internode("fully-connected"))
    with pytest.raises(SketchError, match="star has helpers"):
        sketched(sketch, parse_topology(STAR))


@pytest.mark.parametrize(
    ("helpers", "message"),
    [
        ("[{can: [copy]}]", "lacks the key 'name', or 'at'"),
        ("[{name: a, adds: true}]", "unknown key 'adds'"),
        ("[{name: a, can: [add]}]", "can.0. must be reduce, copy, store or reduce-to-one"),
        ("[{name: a, can: []}]", "can is empty"),
        ("[{name: a, can: [reduce, reduce-to-one]}]", "has both reduce and reduce-to-one"),
        ("[{name: a, can: [copy, reduce-to-one]}]", "only a switch is a sum face and a copy face"),
        ("[{name: a, at: gpu0, can: [copy]}]", "must name a switch"),
        ("[{name: a, at: hub}]", "lacks the key 'can'"),
        ("[{name: a, at: hub, can: [copy], count: 2}]", "is of servers, and this helper is part of a switch"),
        ("[{name: a, memory_mb: 1, slots_mb: 1}]", "are one thing"),
        ("[{name: a, memory_mb: 0}]", "must be positive"),
        ("[{name: a, bandwidth_gbps: 7}]", "lacks the key 'to'"),
        ("[{name: a, to: hub, bandwidth_gbps: 7}]", "lacks the key 'alpha_us'"),
        ("[{name: a, behind: {bandwidth_gbps: 7}}]", "needs the servers' link"),
        ("[gpu0]", "the name 'gpu0' is already given"),
    ],
)
def test_wrong_helpers_are_refused_with_their_line(helpers, message):
    with pytest.raises(TopologyError, match=message) as error:
        parse_topology(
            STAR.replace("[server]", helpers)
            .replace("to: server", "to: helpers")
            .replace("links:", "switches: [hub]\nlinks:")
        )
    assert error.value.line == 3


HGX = """\
name: hgx
occupancy: pipelined
nodes: 2
node:
  gpus: 4
  switches: [nvswitch]
  nics: 4
  links:
    - {from: gpus, to: nvswitch, alpha_us: 0.35, bandwidth_gbps: 370.8}
    - {from: gpus, to: nics, match: even, alpha_us: 0, bandwidth_gbps: 50}
  helpers: [{at: nvswitch, can: [reduce-to-one, copy], bandwidth_gbps: 309}]
fabric: {alpha_us: 3, bandwidth_gbps: 50}
"""


def gbps(beta_us_per_mb: float) -> float:
    return round(2**20 / 1000 / beta_us_per_mb, 6)


def test_a_switch_that_sums_to_one_rank_and_copies_is_a_sum_face_and_a_copy_face():
    network = sketched(None, parse_topology(HGX)).topology
    assert network.helper_names == (
        *("node0.nvswitch.sum", "node0.nvswitch.copy", "node1.nvswitch.sum", "node1.nvswitch.copy"),
    )
    assert network.may_sum[8:].tolist() == [True, False, True, False]
    assert network.may_copy[8:].tolist() == [False, True, False, True]
    assert network.rank_name(9) == "node0.nvswitch.copy (rank 9)"
    assert network.rank_name(7) == "rank 7"


def test_faces_use_the_ports_of_the_links_between_gpus_and_switch_at_a_rate_of_their_own():
    network = sketched(None, parse_topology(HGX)).topology
    into, between = (network.link_index[0, dst] for dst in (8, 1))
    assert network.port_names[network.ports[into][0]] == "node0.gpu0 -> node0.nvswitch"
    assert network.ports[into][0] == network.ports[between][0]
    assert (gbps(network.beta_us_per_mb[into]), gbps(network.beta_us_per_mb[between])) == (309.0, 370.8)
    assert network.alpha_us[into] == 0.35


def test_what_a_gpu_gets_of_the_sum_face_or_gives_to_the_copy_face_passes_its_link_both_ways():
    network = sketched(None, parse_topology(HGX)).topology
    both = {"node0.gpu0 -> node0.nvswitch", "node0.nvswitch -> node0.gpu0"}
    for ends in [(8, 0), (0, 9)]:
        link = network.link_index[ends]
        assert {network.port_names[port] for port in network.ports[link]} == both
        assert (gbps(network.beta_us_per_mb[link]), network.alpha_us[link]) == (309.0, 0.35)
    assert [len(network.ports[network.link_index[ends]]) for ends in [(0, 8), (9, 0)]] == [1, 1]


def test_faces_are_linked_to_the_gpus_of_their_node_and_not_to_each_other():
    network = sketched(None, parse_topology(HGX)).topology
    assert sorted(src for src, dst in network.link_index if dst == 8) == [0, 1, 2, 3]
    assert sorted(dst for src, dst in network.link_index if src == 11) == [4, 5, 6, 7]


def test_ways_of_gpus_are_as_without_helpers():
    machine = parse_topology(HGX)
    without = parse_topology(HGX.replace("helpers: [{at", "# helpers: [{at"))
    for src in range(8):
        for dst in range(8):
            assert machine.path(src, dst) == without.path(src, dst)


def test_a_switch_over_several_nodes_has_one_pair_of_faces():
    machine = parse_topology(HGX + "domain: {switch: nvswitch, nodes: 2}\n")
    assert [device.name for device in machine.gpus[8:]] == ["nvswitch0.sum", "nvswitch0.copy"]
    network = sketched(None, machine).topology
    assert sorted(src for src, dst in network.link_index if dst == 8) == list(range(8))


SHARP = """\
name: rack-sharp
nodes: 4
node: {gpus: 1, nics: 1, links: [{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 25}]}
fabric: {alpha_us: 4, bandwidth_gbps: 12.5}
helpers: [{at: fabric, can: [reduce, copy], slots_mb: 0.25}]
"""


def test_a_fabric_that_sums_and_copies_is_one_helper_at_the_rate_of_the_nics():
    network = sketched(None, parse_topology(SHARP)).topology
    assert network.helper_names == ("fabric.helper",)
    assert network.may_sum is network.may_copy is None
    link = network.link_index[0, 4]
    assert (gbps(network.beta_us_per_mb[link]), network.alpha_us[link]) == (12.5, 2.0)
    assert network.memory_mb.tolist() == [np.inf] * 4 + [0.25]


PBOX = """\
name: rack
nodes: 8
node: {gpus: 1, nics: 1, links: [{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 7}]}
fabric: {alpha_us: 5, bandwidth_gbps: 7}
helpers:
  - name: pbox
    count: 10
    can: [reduce, copy, store]
    bandwidth_gbps: 7
    memory_mb: 256
    behind: {bandwidth_gbps: 40}
"""


def test_servers_behind_one_memory_share_it_in_both_directions():
    network = sketched(None, parse_topology(PBOX)).topology
    assert network.num_nodes == 8
    assert network.helper_names == tuple(f"pbox{number}" for number in range(10))
    memory = network.port_names.index("pbox.bus -> pbox.memory")
    assert {network.link_index[ends] for ends in [(0, 8), (8, 0), (3, 17), (17, 3)]} <= {
        *network.port_links[memory]
    }
    link = network.link_index[0, 8]
    assert gbps(network.port_betas[link][network.ports[link].index(memory)]) == 40.0
    assert network.alpha_us[link] == 5.0


def test_a_leaf_hands_its_sums_to_the_spine():
    text = SHARP.replace(
        "bandwidth_gbps: 12.5}",
        "bandwidth_gbps: 12.5, levels: [{name: leaf, nodes: 2, oversubscription: 1}, {name: spine}]}",
    )
    text = text.replace(
        "helpers: [{at: fabric, can: [reduce, copy], slots_mb: 0.25}]",
        "helpers:\n  - {at: leaf0, can: [reduce]}\n  - {at: leaf1, can: [reduce]}\n"
        "  - {at: spine0, can: [reduce, copy], bandwidth_gbps: 5}",
    )
    network = sketched(None, parse_topology(text)).topology
    assert network.helper_names == ("leaf0.helper", "leaf1.helper", "spine0.helper")
    up = network.link_index[4, 6]
    assert gbps(network.beta_us_per_mb[up]) == 25.0
    assert (4, 5) not in network.link_index


@pytest.mark.parametrize(
    "text",
    [
        HGX,
        HGX.replace(", copy]", "]"),
        SHARP,
        PBOX,
        PBOX.replace("    behind: {bandwidth_gbps: 40}\n", "").replace("count: 10", "count: 2"),
    ],
)
def test_switches_that_sum_and_servers_are_written_and_read_back(text):
    machine = parse_topology(text)
    back = parse_topology(topology_text(machine))
    assert set(back.devices) == set(machine.devices)
    assert set(back.links) == set(machine.links)


def test_helpers_of_many_equal_nodes_move_on_with_them():
    """1,024 GPUs are too many for all pairs: paths of node 0 stand for those of all nodes."""
    network = sketched(None, parse_topology(HGX, nodes=256)).topology
    assert (network.num_members, network.num_helpers) == (1024, 512)
    assert (4, 1024) not in network.link_index
    assert sorted(src for src, dst in network.link_index if dst == 1026) == [4, 5, 6, 7]
    assert sorted(dst for src, dst in network.link_index if src == 1535) == [1020, 1021, 1022, 1023]


def test_servers_of_many_nodes_are_linked_to_all_of_them():
    text = PBOX.replace("nodes: 8", "nodes: 600").replace("count: 10", "count: 2")
    network = sketched(None, parse_topology(text)).topology
    assert sorted(src for src, dst in network.link_index if dst == 601) == list(range(600))


@pytest.mark.parametrize(
    ("helpers", "message"),
    [
        ("[{at: fabrik, can: [copy]}]", "must name a switch"),
        ("2", "must say what each helper can do"),
        ("[{name: a, can: [copy]}]", "lacks beta_us_per_mb or bandwidth_gbps"),
        ("[{name: fabric, bandwidth_gbps: 7}]", "the name 'fabric' is given twice"),
    ],
)
def test_wrong_helpers_of_a_machine_are_refused(helpers, message):
    with pytest.raises(TopologyError, match=message) as error:
        parse_topology(SHARP.replace("[{at: fabric, can: [reduce, copy], slots_mb: 0.25}]", helpers))
    assert error.value.line is not None


def test_helpers_at_the_fabric_of_one_node_are_refused():
    with pytest.raises(TopologyError, match="there is none between these nodes"):
        parse_topology(SHARP, nodes=1)


RACKS = """\
name: two-racks
occupancy: pipelined
nodes: 4
node: {gpus: 1, nics: 1, links: [{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: 12.5}]}
fabric:
  alpha_us: 5
  bandwidth_gbps: 12.5
  levels: [{name: rack, nodes: 2, oversubscription: 2, alpha_us: 1}, {name: spine}]
helpers:
  - {name: one, count: 2, to: rack0, alpha_us: 2.5, bandwidth_gbps: 40}
  - {name: two, to: rack1, alpha_us: 2.5, bandwidth_gbps: 40}
"""


def test_servers_of_two_racks_have_ways_to_each_other_and_those_of_one_switch_none():
    machine = parse_topology(RACKS)
    one, other, two = (machine.num_members + helper for helper in range(3))
    assert machine.path(one, two) is not None
    assert machine.path(two, other) is not None
    assert machine.path(one, other) is None


def test_servers_in_each_rack_make_its_sums_before_they_cross():
    """Every byte leaves a GPU once, and an uplink of two GPUs' half once: a ring takes half as long again."""
    machine = parse_topology(RACKS.replace("count: 2, ", ""))
    result = synthesize(
        "allreduce", topology=machine, size="16MB", chunks=4, engine="routes", effort=600, target="placement"
    )
    ring = synthesize(
        "allreduce", topology=machine, without=("one", "two"), size="16MB", chunks=4, effort=300
    )
    assert result.time_us < 0.9 * ring.time_us
    (file,) = result.files
    assert {at >= machine.num_members for at in file.program.at} == {True}
    across = {each.to for rank in file.program.ranks[4:] for each in rank.sums}
    assert across <= {4, 5}
