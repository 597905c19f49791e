import numpy as np
import pytest

from taccl.errors import SketchError
from taccl.model.collectives import make_collective
from taccl.model.problem import Problem
from taccl.sketch import apply_sketch, find_sketch, load_sketch, parse_sketch
from taccl.topologies import build_topology


def applied(text: str, machine: str = "ndv2", nodes: int = 2) -> Problem:
    topology = build_topology(machine, nodes=nodes)
    demand = make_collective("allgather", topology.num_ranks)
    return apply_sketch(parse_sketch(text), topology, demand, 1.0).problem


NONE = "intranode: {strategy: none}\n"


def test_chunks_leave_only_through_the_sender_for_their_owner() -> None:
    problem = applied(NONE + "internode: {strategy: direct-map, sender_for: {0: [0, 1], 3: [2, 3]}}")
    network, may_use = problem.topology, problem.limits.may_use
    assert may_use is not None
    through_0, through_3 = network.link_index[0, 8], network.link_index[3, 11]
    assert list(np.flatnonzero(may_use[:8, through_0])) == [0, 1, 4, 5, 6, 7]
    assert list(np.flatnonzero(may_use[:8, through_3])) == [2, 3, 4, 5, 6, 7]


def test_a_sender_rule_holds_on_every_node_by_local_index() -> None:
    problem = applied(NONE + "internode: {strategy: direct-map, sender_for: {0: [0, 1]}}")
    network, may_use = problem.topology, problem.limits.may_use
    assert may_use is not None
    there, back = network.link_index[0, 8], network.link_index[8, 0]
    assert may_use[9, back]
    assert may_use[9, there]
    assert not may_use[9, network.link_index[9, 1]]


def test_links_inside_a_node_are_open_to_all_chunks() -> None:
    problem = applied(NONE + "internode: {strategy: direct-map, sender_for: {0: [0, 1]}}")
    assert problem.limits.may_use is not None
    assert problem.limits.may_use[:, ~problem.topology.internode].all()


def test_without_senders_nothing_is_limited() -> None:
    limits = applied(NONE + "internode: {strategy: direct-map}").limits
    assert limits.may_use is None
    assert limits.own_first is None
    assert limits.link_preference is None
    assert not limits.spread_load


def test_on_one_node_what_is_said_of_other_nodes_limits_nothing() -> None:
    text = NONE + "internode: {strategy: relay, relay: {0: [1]}, sender_for: {0: [0]}, own_first: true}"
    limits = applied(text, nodes=1).limits
    assert limits.may_use is None
    assert limits.own_first is None


def test_own_chunks_go_first_on_links_between_nodes_only() -> None:
    problem = applied(NONE + "internode: {strategy: direct-map, own_first: true}")
    assert problem.limits.own_first is not None
    assert (problem.limits.own_first == problem.topology.internode).all()


@pytest.mark.parametrize(("policy", "preference"), [("uc-min", 1.0), ("uc-max", -1.0)])
def test_a_switch_policy_is_a_preference_on_the_links_of_the_switch(policy: str, preference: float) -> None:
    problem = applied(
        f"intranode: {{strategy: switch, switches: [{{gpus: all}}, {{gpus: [0, 1, 2], policy: {policy}}}]}}",
        "switch:4",
        nodes=1,
    )
    column, network = problem.limits.link_preference, problem.topology
    assert column is not None
    assert column[network.link_index[0, 2]] == preference
    assert column[network.link_index[0, 3]] == 0.0


def test_a_policy_does_not_touch_links_between_nodes() -> None:
    sketch = load_sketch(find_sketch("dgx2-sk-2"))
    problem = apply_sketch(sketch, build_topology("dgx2"), make_collective("allgather", 32), 1.0).problem
    assert problem.limits.link_preference is not None
    assert (problem.limits.link_preference == np.where(problem.topology.internode, 0.0, -1.0)).all()


def test_two_opposite_policies_for_a_link_are_an_error_with_its_line() -> None:
    text = """\
intranode:
  strategy: switch
  switches:
    - {gpus: [0, 1, 2, 3], policy: uc-min}
    - {gpus: [2, 3], policy: uc-max}
"""
    with pytest.raises(SketchError, match="GPUs 2 and 3 are behind two switches") as caught:
        applied(text, "switch:4", nodes=1)
    assert caught.value.line == 5


@pytest.mark.parametrize("strategy", ["minmax", "maxmin"])
def test_minmax_and_maxmin_spread_the_load(strategy: str) -> None:
    assert applied(f"intranode: {{strategy: {strategy}}}").limits.spread_load


def test_a_sender_without_a_relay_entry_is_an_error_with_its_line() -> None:
    text = NONE + "internode:\n  strategy: relay\n  relay: {0: [1]}\n  sender_for:\n    0: [0]\n    2: [2]\n"
    with pytest.raises(SketchError, match="no entry in `relay`") as caught:
        applied(text)
    assert caught.value.line == 7
