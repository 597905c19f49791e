import numpy as np
import pytest

from taccl.errors import CollectiveError, SketchError
from taccl.model.collectives import make_collective
from taccl.model.engine_costs import Served
from taccl.model.network import LogicalTopology
from taccl.model.problem import Problem
from taccl.sketch import (
    Internode,
    Relay,
    Sketch,
    apply_sketch,
    find_sketch,
    load_sketch,
    parse_sketch,
    sketched,
)
from taccl.topologies import PhysicalTopology, build_topology, parse_topology


def applied(sketch: Sketch | str | None, machine: PhysicalTopology, collective: str = "allgather") -> Problem:
    design = parse_sketch(sketch) if isinstance(sketch, str) else sketch
    return apply_sketch(design, machine, make_collective(collective, machine.num_ranks), 1.0).problem


def internode(text: str) -> str:
    return f"intranode: {{strategy: none}}\ninternode: {text}"


def pairs_between(network: LogicalTopology) -> set[tuple[int, int]]:
    return {(int(network.src[link]), int(network.dst[link])) for link in np.flatnonzero(network.internode)}


def test_without_a_sketch_every_path_of_the_machine_is_a_link() -> None:
    network = applied(None, build_topology("ndv2", nodes=2)).topology
    assert network.num_links == 2 * 32 + 8
    assert pairs_between(network) == {(a, b) for a, b in _both_directions((0, 1), (8, 9))}


def _both_directions(here: tuple[int, ...], there: tuple[int, ...]) -> list[tuple[int, int]]:
    one_way = [(a, b) for a in here for b in there]
    return one_way + [(b, a) for a, b in one_way]


def test_links_cost_what_their_paths_cost() -> None:
    network = applied(None, build_topology("dgx2", nodes=2)).topology
    inside, between = network.link_index[0, 5], network.link_index[0, 21]
    assert (network.alpha_us[inside], network.beta_us_per_mb[inside]) == pytest.approx((0.3, 8.0))
    assert (network.alpha_us[between], network.beta_us_per_mb[between]) == pytest.approx((2.6, 105.0))


def test_a_plain_link_has_one_port_of_its_own() -> None:
    network = applied(None, build_topology("ndv2", nodes=1)).topology
    assert network.num_ports == network.num_links == 32
    assert all(len(ports) == 1 for ports in network.ports)


def test_a_gpu_behind_a_switch_has_one_port_out_and_one_in() -> None:
    network = applied(None, build_topology("dgx2", nodes=1)).topology
    assert network.num_ports == 2 * 16
    out, into = (set(network.ports[network.link_index[pair]]) for pair in ((3, 7), (7, 3)))
    assert len(out) == len(into) == 2
    assert out.isdisjoint(into)
    (shared,) = out & set(network.ports[network.link_index[3, 8]])
    assert "gpu3 -> " in network.port_names[shared]
    assert len(network.port_links[shared]) == 15


def test_a_nic_is_one_port_out_and_one_in() -> None:
    network = applied(None, build_topology("dgx2", nodes=2)).topology
    assert network.num_ports == 2 * (2 * 16 + 2 * 8)
    out = set(network.ports[network.link_index[0, 16]])
    assert out & set(network.ports[network.link_index[1, 18]])
    assert not out & set(network.ports[network.link_index[2, 18]])


def test_no_port_is_covered_by_another() -> None:
    for name in ("dgx2", "ndv2", "dgx2-teccl"):
        network = applied(None, build_topology(name, nodes=2)).topology
        links = [set(members) for members in network.port_links]
        assert not any(a <= b for i, a in enumerate(links) for j, b in enumerate(links) if i != j)


def test_occupancy_is_the_machines() -> None:
    machine = build_topology("ndv2", nodes=1)
    assert applied(None, machine).topology.occupancy == "serial"
    assert applied(None, machine.with_occupancy("pipelined")).topology.occupancy == "pipelined"


@pytest.mark.parametrize(
    ("between", "links"),
    [
        ("{strategy: relay, relay: {0: [1]}}", {(0, 9), (8, 1)}),
        ("{strategy: relay, relay: {0: [1], 1: [0, 5]}}", {(0, 9), (8, 1), (1, 8), (9, 0), (1, 13), (9, 5)}),
        ("{strategy: direct-map}", {(a, b) for i in range(8) for a, b in ((i, i + 8), (i + 8, i))}),
        ("{strategy: fully-connected}", set(_both_directions(tuple(range(8)), tuple(range(8, 16))))),
        ("{strategy: none}", set(_both_directions((0, 1), (8, 9)))),
    ],
)
def test_the_inter_node_strategy_chooses_the_links_between_nodes(
    between: str, links: set[tuple[int, int]]
) -> None:
    network = applied(internode(between), build_topology("ndv2", nodes=2)).topology
    assert pairs_between(network) == links


def test_gpus_away_from_the_nic_share_it_too() -> None:
    network = applied(internode("{strategy: fully-connected}"), build_topology("ndv2", nodes=2)).topology
    shared = set.intersection(
        *(set(network.ports[network.link_index[a, b]]) for a in range(8) for b in range(8, 16))
    )
    assert shared
    assert set(network.beta_us_per_mb[network.internode]) == {105.0}


def test_switch_groups_leave_out_the_links_across_them() -> None:
    text = """\
intranode:
  strategy: switch
  switches: [{gpus: [0, 1, 2]}, {gpus: [2, 3]}]
"""
    network = applied(text, build_topology("switch:4")).topology
    assert (0, 2) in network.link_index
    assert (2, 3) in network.link_index
    assert (0, 3) not in network.link_index


def test_a_switch_that_the_machine_does_not_have_is_an_error_with_its_line() -> None:
    with pytest.raises(SketchError, match="joins GPUs 0 and 5") as caught:
        applied(
            "intranode:\n  strategy: switch\n  switches:\n    - gpus: all", build_topology("ndv2", nodes=1)
        )
    assert caught.value.line == 4


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (internode("\n  strategy: relay\n  relay:\n    8: [0]"), 5),
        (internode("\n  strategy: relay\n  relay:\n    0: [1, 8]"), 5),
        (internode("\n  strategy: direct-map\n  sender_for:\n    0: [0]\n    1: [9]"), 6),
        ("intranode:\n  strategy: switch\n  switches:\n    - gpus: [0, 8]", 4),
    ],
)
def test_a_gpu_out_of_range_is_an_error_with_its_line(text: str, line: int) -> None:
    with pytest.raises(SketchError, match="out of range") as caught:
        applied(text, build_topology("ndv2", nodes=2))
    assert caught.value.line == line


def test_one_sketch_serves_any_number_of_nodes() -> None:
    sketch = load_sketch(find_sketch("dgx2-sk-1"))
    for nodes in (1, 2, 4):
        problem = applied(sketch, build_topology("dgx2", nodes=nodes))
        assert problem.topology.num_links == nodes * 16 * 15 + nodes * (nodes - 1) * 8
        assert len(problem.symmetry) == min(nodes, 2)


def test_nodes_that_no_fabric_joins_cannot_be_joined_by_a_relay() -> None:
    with pytest.raises(SketchError, match="no way from rank 0 to rank 16") as caught:
        applied(
            "intranode: {strategy: none}\ninternode:\n  strategy: direct-map",
            build_topology("dgx2-teccl", nodes=2),
        )
    assert caught.value.line == 3


def test_a_machine_without_nodes_is_one_node() -> None:
    machine = build_topology("hub:3")
    problem = applied("intranode: {strategy: minmax}", machine)
    assert problem.topology.num_links == 4
    assert problem.limits.spread_load


def test_a_collective_for_other_ranks_is_refused() -> None:
    with pytest.raises(CollectiveError, match="for 4 ranks, but ndv2 has 8"):
        apply_sketch(None, build_topology("ndv2", nodes=1), make_collective("allgather", 4), 1.0)


def test_a_sketch_made_in_code_may_name_a_pair_twice() -> None:
    sketch = Sketch("twice", internode=Internode("relay", (Relay(0, (1,)), Relay(0, (1, 2)))))
    network = applied(sketch, build_topology("ndv2", nodes=2)).topology
    assert pairs_between(network) == {(0, 9), (8, 1), (0, 10), (8, 2)}


def test_nodes_that_share_a_switch_reach_each_other_s_memory() -> None:
    machine = parse_topology("""
name: domains
nodes: 4
node:
  gpus: 2
  nics: 1
  switches: [nvs]
  links:
    - {from: gpus, to: nvs, alpha_us: 0.5, bandwidth_gbps: 400}
    - {from: gpus, to: nics, alpha_us: 0.5, bandwidth_gbps: 50}
fabric: {alpha_us: 2, bandwidth_gbps: 50}
domain: {switch: nvs, nodes: 2}
""")
    network = applied(None, machine).topology
    assert network.node_of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert network.memory_of.tolist() == [0, 0, 0, 0, 2, 2, 2, 2]
    alone = applied(None, build_topology("dgx2", nodes=2)).topology
    assert alone.domain_of is None and alone.memory_of is alone.node_of


EXECUTED = """\
name: executed
gpus: 2
links: [{pairs: [0-1], alpha_us: 1, bandwidth_gbps: 20}]
executor:
  reduce_us: 1
  reduce_gbps: 20
  protocols:
    LL: {launch_us: 5, hop_us: 0.5, slice_us: 0.25, block_gbps: 4, piece: 16KB}
"""


def test_a_network_under_costs_is_made_once_and_the_last_one_is_kept() -> None:
    network, one = sketched(None, parse_topology(EXECUTED)), Served("LL", 1)
    made = network.effective(one)
    assert network.effective(one) is made
    assert network.effective(Served("LL", 2)) is not made
    again = network.effective(one)
    assert again is not made
    assert (again.alpha_us == made.alpha_us).all()
    assert (made.alpha_us > network.topology.alpha_us).all()
