"""Allocations: read, told apart by what is left of the machine, and ranked."""

from itertools import combinations
from pathlib import Path

import networkx as nx
import pytest
from networkx.algorithms.isomorphism import DiGraphMatcher

from taccl.analysis.training.allocations import AllocationReader, compact, load_allocations, shape_of
from taccl.analysis.training.isomorphism import Isomorphisms
from taccl.analysis.training.placements import rank_placements, seconds_of
from taccl.analysis.training.policy import load_waits, policy_of
from taccl.analysis.training.workload import Layer, Workload
from taccl.errors import TacclError, UnitError
from taccl.topologies import PhysicalTopology, load_topology, parse_topology
from taccl.topologies.select import select

RACKS = """\
name: racks
nodes: 4
node:
  gpus: 3
  nics: 1
  switches: [s]
  links:
    - {from: gpus, to: s, alpha_us: 1, bandwidth_gbps: 100}
    - {from: s, to: nics, alpha_us: 0, bandwidth_gbps: 12}
fabric:
  alpha_us: 5
  bandwidth_gbps: 12
  levels: [{name: rack, nodes: 2, oversubscription: 4}, {name: spine}]
"""
JOB = Workload("job", 1, (Layer("a", 2**24, 100, 200), Layer("b", 2**22, 100, 200)))


def graph_of(machine: PhysicalTopology) -> "nx.DiGraph[str]":
    graph = nx.DiGraph()
    for device in machine.devices:
        graph.add_node(device.name, what=device.kind)
        if device.node >= 0:
            graph.add_node(f"node {device.node}", what="node")
            graph.add_edge(f"node {device.node}", device.name, what=None)
    for link in machine.links:
        graph.add_edge(link.src, link.dst, what=(link.alpha_us, link.beta_us_per_mb))
    return graph


def same(one: dict[str, object], other: dict[str, object]) -> bool:
    return one == other


@pytest.mark.parametrize("name", ["racks", "ring:6", "torus:2x4", "mesh"])
def test_allocations_are_alike_if_what_is_left_is_isomorphic(name: str) -> None:
    if name == "racks":
        machine, size = parse_topology(RACKS), 4
    elif name == "mesh":
        machine, size = (
            parse_topology(
                RACKS.replace("switches: [s]", "switches: [s, t]").replace(
                    "  links:\n", "  links:\n    - {pairs: [0-1, 0-t, 1-t], alpha_us: 2, bandwidth_gbps: 9}\n"
                )
            ),
            3,
        )
    else:
        machine, size = load_topology(name), 3
    isomorphisms, classes = Isomorphisms(machine), list[tuple[tuple[int, ...], "nx.DiGraph[str]"]]()
    chosen = list(combinations(range(machine.num_members), size))
    for ranks in chosen[:: max(1, len(chosen) // 40)]:
        graph = graph_of(select(machine, ranks))
        expected = next(
            (
                known
                for known, other in classes
                if DiGraphMatcher(graph, other, node_match=same, edge_match=same).is_isomorphic()
            ),
            None,
        )
        first = isomorphisms.representative(ranks)
        if expected is None:
            classes.append((first, graph))
            assert first == tuple(ranks)
        else:
            assert first == expected


def test_allocations_are_read_as_schedulers_write_them(tmp_path: Path) -> None:
    machine = parse_topology(RACKS)
    read = AllocationReader(machine).read
    assert read("n[0-1].gpu[0-1]").ranks == (0, 1, 3, 4)
    assert read("node3,n0.gpu2").ranks == (9, 10, 11, 2)
    assert shape_of(machine, read("n3,n0.gpu2").ranks) == "3+1"
    assert compact(machine, 4).ranks == (0, 1, 2, 3)
    path = tmp_path / "offers.txt"
    for text, said in (
        ("n0\nn0.gpu0,n0\n", r"offers.txt:2: .*named twice"),
        ("# none\n", "no allocation"),
        ("n9\n", r"offers.txt:1: racks has no GPU 'n9'"),
        ("n0.gpu[0\n", "no list of names"),
    ):
        path.write_text(text)
        with pytest.raises(TacclError, match=said):
            load_allocations(path, machine)


def test_offers_are_ranked_and_waiting_is_worth_what_the_best_loses() -> None:
    machine = parse_topology(RACKS)
    offers = ("n0.gpu0,n2.gpu[0-1]", "n[0-1].gpu0,n1.gpu1", "n2.gpu0,n3.gpu[1-2]", "n1.gpu0,n3.gpu[1-2]")
    found = rank_placements(JOB, offers, topology=machine, iterations=1000, wait="1s")
    assert found.num_classes == 2
    assert [each.allocation.text for each in found.rows] == [offers[1], offers[2], offers[0], offers[3]]
    assert found.rows[0].step_us == found.rows[1].step_us <= found.rows[2].step_us == found.rows[3].step_us
    assert all(each.bound_us <= each.step_us for each in found.rows)
    assert found.ideal.shape == "3"
    lost_us = found.rows[0].step_us - found.ideal.step_us
    assert found.worth_waiting_s == pytest.approx(lost_us * 1000 * 1e-6)
    assert found.advice.endswith("wait")
    with pytest.raises(TacclError, match="compare allocations of one size"):
        rank_placements(JOB, ("n0", "n1.gpu0"), topology=machine)


def test_times_to_wait() -> None:
    assert (seconds_of("40min"), seconds_of("1.5h"), seconds_of(3)) == (2400.0, 5400.0, 3.0)
    for wrong in ("40", "-1s", "soon"):
        with pytest.raises(UnitError):
            seconds_of(wrong)


def test_the_tuner_is_that_of_dally(tmp_path: Path) -> None:
    (tmp_path / "waits.txt").write_text("# leases\n10\n14 # of two racks\n\n12\n")
    waits = load_waits(tmp_path / "waits.txt")
    tuned = policy_of(waits, 100)
    assert (tuned.mean, tuned.rack_wait, tuned.any_wait) == (12, 16, 16)  # 12 + 2 x 1.63
    assert (policy_of((1.0,), 100).rack_wait, policy_of((1.0,), 100).any_wait) == (6, 12)
    assert (policy_of((500.0,), 100).rack_wait, policy_of((500.0,), 100).any_wait) == (80, 100)
    (tmp_path / "waits.txt").write_text("3\nlong\n")
    with pytest.raises(TacclError, match="no number of leases") as fault:
        load_waits(tmp_path / "waits.txt")
    assert fault.value.line == 2
    for wrong in ((), (-1.0,)):
        with pytest.raises(TacclError):
            policy_of(wrong, 100)


def test_on_nodes_with_a_switch_for_all_gpus_only_their_numbers_count() -> None:
    isomorphisms = Isomorphisms(load_topology("dgx-h100", nodes=8))
    first = isomorphisms.representative((0, 1, 2, 8, 9))
    assert isomorphisms.representative((7, 61, 5, 60, 3)) == first
    assert isomorphisms.representative((0, 1, 2, 3, 8)) != first
