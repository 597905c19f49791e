"""A sketch taken apart: its rules say exactly what it takes away, together and one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sketches_drawn import sketches, small_machine
from studies import examples

from taccl.errors import InfeasibleError, SketchError
from taccl.model.collectives import make_collective
from taccl.model.network import LogicalTopology
from taccl.model.problem import RoutingLimits, Statement
from taccl.sketch import Sketch, apply_sketch, find_sketch, load_sketch, parse_sketch
from taccl.sketch.parts import in_short
from taccl.sketch.rules import TakenApart
from taccl.topologies import Device, Link, PhysicalTopology, build_topology

RELAYS = """\
intranode:
  strategy: switch
  switches:
    - gpus: [0, 1]
internode:
  strategy: relay
  relay:
    0: [1]
    2: [0, 2]
  sender_for:
    0: [0, 1]
    2: [1]
  nic_sharing: static
symmetry:
  - [node, machine]
  - [1, node]
"""


def apart(text: str, machine: PhysicalTopology | None = None) -> TakenApart:
    return TakenApart(parse_sketch(text), small_machine() if machine is None else machine)


def usable(logical: LogicalTopology, limits: RoutingLimits) -> set[tuple[int, int, int]]:
    """(owner, source, destination) of everything that may be used."""
    may = np.ones((logical.num_ranks, logical.num_links), dtype=np.bool_)
    if limits.may_use is not None:
        may = limits.may_use
    return {(int(h), int(logical.src[l]), int(logical.dst[l])) for h, l in np.argwhere(may)}


@given(sketch=sketches(), data=st.data(), nodes=st.integers(1, 3))
@settings(max_examples=examples(50), deadline=None)
def test_a_network_with_some_rules_lacks_exactly_what_they_forbid(
    sketch: Sketch, data: st.DataObject, nodes: int
) -> None:
    taken = TakenApart(sketch, small_machine(nodes))
    kept = data.draw(st.sets(st.sampled_from(range(len(taken.rules))))) if taken.rules else set()
    everything = taken.everything
    may = np.ones((everything.num_ranks, everything.num_links), dtype=np.bool_)
    for number in kept:
        rule = taken.rules[number]
        may[np.ix_(rule.owners, rule.forbids)] = False
    assert usable(*taken.network(kept)) == usable(everything, RoutingLimits(may_use=may))


@given(sketch=sketches())
@settings(max_examples=50, deadline=None)
def test_with_all_rules_it_is_the_network_of_the_sketch(sketch: Sketch) -> None:
    taken = TakenApart(sketch, small_machine())
    logical, limits = taken.network(range(len(taken.rules)))
    demand = make_collective("broadcast", 6)
    try:
        problem = apply_sketch(sketch, small_machine(), demand, 1.0).problem
    except InfeasibleError:  # it cuts the root off, which is no matter here
        return
    assert usable(problem.topology, problem.limits) == usable(logical, limits)
    assert np.array_equal(problem.topology.beta_us_per_mb, logical.beta_us_per_mb)
    assert problem.topology.ports == logical.ports


def test_each_rule_has_its_line_and_the_words_of_the_sketch() -> None:
    assert [(rule.said.line, rule.said.text) for rule in apart(RELAYS).rules] == [
        (2, "intranode strategy switch: inside a node, only GPUs of one switch are joined: [0, 1]"),
        (6, "relay: GPU 1 has no entry, so it sends nothing to other nodes"),
        (8, "relay 0: [1]: of other nodes, GPU 0 sends to GPU 1 only"),
        (9, "relay 2: [0, 2]: of other nodes, GPU 2 sends to GPUs 0 and 2 only"),
        (11, "sender_for 0: [0]: the chunks of GPU 0 leave a node only through GPU 0"),
        (11, "sender_for 0, 2: [1]: the chunks of GPU 1 leave a node only through GPUs 0 or 2"),
    ]


def test_without_any_rule_every_gpu_is_linked_to_every_other() -> None:
    taken = apart(RELAYS)
    assert taken.everything.num_links == 6 * 5
    assert usable(*taken.network(())) == {
        (owner, a, b) for owner in range(6) for a in range(6) for b in range(6) if a != b
    }


def test_rules_that_take_nothing_away_are_none() -> None:
    assert apart("intranode: {strategy: none}\ninternode: {strategy: fully-connected}\n").rules == ()
    assert (
        apart("intranode: {strategy: switch, switches: [{gpus: all}]}\n", build_topology("switch:4")).rules
        == ()
    )
    assert TakenApart(None, build_topology("ring:4")).rules == ()


@pytest.mark.parametrize(
    ("between", "text"),
    [
        (
            "internode: {strategy: direct-map}\n",
            "internode strategy direct-map: of other nodes, GPU i sends to GPU i only",
        ),
        (
            "internode: {strategy: none}\n",
            "internode strategy none: GPUs of two nodes are linked only where no host",
        ),
        ("", "no internode strategy: GPUs of two nodes are linked only where no host"),
    ],
)
def test_a_strategy_without_entries_is_one_rule(between: str, text: str) -> None:
    (rule,) = apart("intranode: {strategy: none}\n" + between).rules
    assert rule.said.text.startswith(text)
    assert rule.owners.all()


def test_without_a_sketch_there_may_still_be_ways_that_only_a_sketch_allows() -> None:
    (rule,) = TakenApart(None, small_machine()).rules
    assert rule.said.text.startswith("no sketch: ")
    assert rule.said.place == ""


def test_a_machine_without_nics_is_relaxed_to_the_links_that_it_has() -> None:
    text = "intranode: {strategy: none}\ninternode: {strategy: relay, relay: {1: [0]}}\n"
    (rule,) = apart(text, build_topology("dgx2-teccl")).rules
    assert rule.said.text.startswith("internode strategy relay: ")
    assert rule.forbids.sum() == 2 * 7


def test_nodes_of_unequal_size_have_one_rule_for_all_relays() -> None:
    gpus = [Device(f"gpu{i}", "gpu", int(i == 2), i % 2) for i in range(3)]
    nics = [Device(f"nic{node}", "nic", node, 0) for node in range(2)]
    ends = [("gpu0", "gpu1"), ("gpu0", "nic0"), ("gpu2", "nic1"), ("nic0", "nic1")]
    links = tuple(Link(a, b, 1.0, 1.0) for pair in ends for a, b in (pair, pair[::-1]))
    machine = PhysicalTopology("two and one", (*gpus, *nics), links)
    text = "intranode: {strategy: none}\ninternode: {strategy: relay, relay: {0: [0]}}\n"
    (rule,) = apart(text, machine).rules
    assert rule.said.text.startswith("internode strategy relay: ")
    assert apart(text, machine).everything.num_links == 3 * 2


def test_rules_of_one_key_are_a_family() -> None:
    assert apart(RELAYS).families == (
        frozenset({0}),
        frozenset({1, 2, 3}),
        frozenset({4, 5}),
    )


def test_static_sharing_of_nics_can_be_left_out() -> None:
    taken = apart(RELAYS)
    assert taken.nics is not None and taken.nics.line == 13
    everything = range(len(taken.rules))
    static, _ = taken.network(everything)
    shared, _ = taken.network(everything, with_nics=False)
    assert static.beta_us_per_mb.max() == 3 * shared.beta_us_per_mb.max()
    assert apart(RELAYS.replace("static", "port")).nics is None


def test_policies_and_symmetries_are_said_with_their_lines() -> None:
    taken = apart(RELAYS.replace("gpus: [0, 1]", "gpus: [0, 1]\n      policy: uc-min"))
    assert taken.policies == (Statement("policy uc-min for GPUs [0, 1]", None, 4),)
    said = [(each.text, each.line, ranks.tolist()) for each, ranks in taken.symmetries]
    assert said == [
        ("symmetry [node, machine]", 16, [3, 4, 5, 0, 1, 2]),
        ("symmetry [1, node]", 17, [1, 2, 0, 4, 5, 3]),
    ]


def test_a_sketch_that_does_not_fit_the_machine_is_the_same_error_as_elsewhere() -> None:
    with pytest.raises(SketchError, match="GPU 7 is out of range"):
        apart("intranode: {strategy: none}\ninternode: {strategy: relay, relay: {7: [0]}}\n")


def test_published_sketches_have_a_rule_for_each_entry() -> None:
    design = load_sketch(find_sketch("dgx2-sk-1"))
    taken = TakenApart(design, build_topology("dgx2"))
    assert len(taken.rules) == 1 + 8 + 8
    assert taken.rules[1].said.place == f"{design.path}:19"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [({3}, "3"), ({0, 1}, "0, 1"), ({2, 0, 1, 7}, "0-2, 7"), ({4, 5, 6, 9, 8}, "4-6, 8, 9")],
)
def test_three_numbers_in_a_row_are_a_range(numbers: set[int], text: str) -> None:
    assert in_short(numbers) == text


def test_a_statement_has_a_place_as_far_as_it_is_known() -> None:
    assert Statement("a", "s.yaml", 3).place == "s.yaml:3"
    assert Statement("a", "s.yaml").place == "s.yaml"
    assert Statement("a", None, 3).place == "line 3"
    assert Statement("a").place == ""
