"""explain(): the verdict agrees with what can be done, and the lines it names are the ones to change."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registered import greedy, reducing
from sketches_drawn import sketches, small_machine
from studies import examples

from taccl import explain
from taccl.analysis.explained import Conflict, Explanation
from taccl.analysis.explained.routes import number_of_demands, unmet_demands
from taccl.analysis.explained.symmetry import broken_without
from taccl.encoding.bounds import Proof
from taccl.encoding.core.options import SearchOptions
from taccl.errors import CollectiveError, InfeasibleError, SketchError, SolverError, UnitError
from taccl.model.collective import Placement
from taccl.model.collectives import COLLECTIVES, make_collective
from taccl.model.demand import Demand
from taccl.model.problem import Problem
from taccl.sketch import Sketch, apply_sketch, parse_sketch
from taccl.sketch.demands import demands_of, first_gap
from taccl.sketch.rules import TakenApart
from taccl.support.budget import Budget
from taccl.synthesis.inputs import Inputs, inputs_of
from taccl.synthesis.request import Request
from taccl.synthesis.search import Found, search
from taccl.topologies import build_topology, parse_topology

#: GPU 2 is behind no switch, and sends nothing to other nodes.
CUT_OFF = """\
intranode:
  strategy: switch
  switches:
    - gpus: [0, 1]
internode:
  strategy: relay
  relay:
    0: [1]
    1: [2]
"""
#: Each GPU's chunks leave through another GPU, which sends to its own peer only.
CROSSED = """\
intranode: {strategy: none}
internode:
  strategy: relay
  relay: {0: [0], 1: [1], 2: [2]}
  sender_for: {0: [1], 1: [2], 2: [0]}
"""
LOPSIDED = """\
intranode: {strategy: none}
internode:
  # GPU 2 is forgotten
  strategy: relay
  relay:
    0: [0]
    1: [1]
symmetry:
  - [1, node]
"""


def requested(text: str, collective: str = "allgather", **more: object) -> Explanation:
    return explain(collective, topology=small_machine(), sketch=parse_sketch(text), size=6 * 2**20, **more)


def lines_of(conflict: Conflict) -> list[int | None]:
    return [line.said.line for line in conflict.in_order]


def test_a_demand_that_cannot_be_met_has_the_minimal_set_of_lines_that_cut_it_off() -> None:
    explanation = requested(CUT_OFF, "scatter", root=2)
    assert (explanation.verdict, explanation.exit_code) == ("impossible", 3)
    (conflict,) = explanation.conflicts
    assert conflict.what == "chunk 0 (piece 0 of rank 2's part) cannot go from rank 2 to rank 0"
    assert (lines_of(conflict), conflict.is_minimal, conflict.demands) == ([2, 6], True, 5)
    assert [[said.line for said in lines] for lines in explanation.helps] == [[2], [6]]


def test_each_conflict_is_told_once_with_how_much_it_cuts_off() -> None:
    explanation = requested(CUT_OFF)
    assert explanation.unmet is not None
    assert explanation.unmet.unmet == sum(each.demands + each.images for each in explanation.conflicts)
    assert explanation.unmet.demands == 6 * 5
    assert len({tuple(lines_of(each)) for each in explanation.conflicts}) == len(explanation.conflicts)


def test_demands_that_a_symmetry_moves_onto_one_that_is_told_are_its_images() -> None:
    text = CUT_OFF + "  sender_for:\n    0: [0]\n    1: [1]\n"
    plain = requested(text, "alltoall")
    with_symmetry = requested(text + "symmetry: [[node, machine]]\n", "alltoall")
    assert sum(each.images for each in plain.conflicts) == 0
    assert plain.unmet is not None and with_symmetry.unmet is not None
    assert plain.unmet.unmet == with_symmetry.unmet.unmet
    for explanation in (plain, with_symmetry):
        reported = sum(each.demands + each.images for each in explanation.conflicts)
        assert reported + explanation.unmet.untold == explanation.unmet.unmet


def test_to_leave_out_a_line_is_to_leave_out_the_symmetries_that_need_it() -> None:
    text = """\
intranode:
  strategy: switch
  switches:
    - gpus: [0]
    - gpus: [1]
    - gpus: [2]
internode:
  strategy: relay
  relay:
    0: [0]
    1: [1]
    2: [2]
symmetry:
  - [1, node]
"""
    apart = TakenApart(parse_sketch(text), small_machine())
    assert [rule.said.line for rule in apart.rules] == [2, 10, 11, 12]
    assert [[said.line for said in broken_without(apart, {rule})] for rule in range(4)] == [
        [],
        [14],
        [14],
        [14],
    ]
    assert broken_without(apart, {1, 2, 3}) == ()


def test_where_no_single_line_is_enough_sets_of_which_all_have_to_go_are_named() -> None:
    explanation = requested(CROSSED, "alltoall", max_hops=1)
    one, *others = explanation.helps
    assert [said.text.split(":")[0] for said in one] == ["--max-hops 1"]
    assert others and all(len(lines) > 1 for lines in others)


def test_links_that_a_machine_does_not_have_are_blamed_on_no_line() -> None:
    islands = parse_topology(
        "name: islands\ngpus: 4\nlinks: [{pairs: [0-1, 2-3], alpha_us: 1, beta_us_per_mb: 1}]\n"
    )
    explanation = explain("broadcast", topology=islands, size="1MB")
    (conflict,) = explanation.conflicts
    assert conflict.machine == "islands has no links that lead there, only to ranks 0, 1"
    assert (conflict.lines, conflict.demands, explanation.helps) == ((), 2, ())
    assert "no line is to blame: islands has no links" in explanation.summary()


def test_without_a_sketch_it_is_said_that_a_sketch_could_allow_more() -> None:
    explanation = explain(topology=small_machine(), size="6MB", max_hops=1)
    assert [[said.text.split(":")[0] for said in lines] for lines in explanation.helps] == [
        ["--max-hops 1"],
        ["no sketch"],
    ]


def test_a_sum_has_to_reach_its_home() -> None:
    explanation = explain("reduce", topology=build_topology("ring-oneway:3"), size="1MB", max_hops=1)
    (conflict,) = explanation.conflicts
    assert conflict.what.startswith("the contribution of rank 1 to chunk 0")
    assert conflict.what.endswith("cannot go from rank 1 to rank 0 over at most 1 link")


def test_a_limit_on_links_is_part_of_a_conflict_only_where_it_has_to_be() -> None:
    explanation = explain("alltoall", sketch="dgx2-sk-1", size="32MB", max_hops=2)
    with_limit = [
        [line.said.text.startswith("--max-hops") for line in each.lines] for each in explanation.conflicts
    ]
    assert all(any(each) for each in with_limit)
    assert lines_of(explanation.conflicts[1]) == [19, 28, None]
    cut = requested(CUT_OFF, "scatter", root=2, max_hops=1)
    assert all(line.said.line for each in cut.conflicts[:1] for line in each.lines)


def test_taccls_own_sketch_has_a_third_hop_and_it_is_said_why_two_are_too_few() -> None:
    data = Path(__file__).parents[1] / "data" / "taccl"
    request = Request(
        "alltoall",
        topology="dgx2",
        sketch=data / "sketch" / "sk1-dgx2-n2.json",
        profile=data / "topo" / "topo-dgx2-1MB.json",
    )
    requested = inputs_of(request)
    apart = TakenApart(requested.sketch, requested.topology)
    two = unmet_demands(requested, apart, 2, Budget(60.0))
    assert (two.unmet, two.untold) == (480, 0)
    texts = [line.said.text.split(":")[0] for line in two.conflicts[1].lines]
    assert texts == ["relay 1", "sender_for 1", "--max-hops 2"]
    assert unmet_demands(requested, apart, 3, Budget(60.0)).unmet == 0


def test_a_symmetry_that_the_network_does_not_have_is_named_with_the_lines_against_it() -> None:
    explanation = requested(LOPSIDED)
    (conflict,) = explanation.conflicts
    assert (explanation.verdict, explanation.exit_code) == ("impossible", SketchError.exit_code)
    assert conflict.what.startswith("symmetry [1, node] is none of this network: link ")
    assert (lines_of(conflict), conflict.is_minimal) == ([4, 7, 9], True)
    assert "6MB: the sketch contradicts its network\n" in explanation.summary()


def test_a_symmetry_that_the_machine_does_not_have_is_alone() -> None:
    slower = "name: three\ngpus: 3\nlinks:\n  - {pairs: [0-1, 1-2], alpha_us: 1, beta_us_per_mb: 1}\n"
    machine = parse_topology(slower + "  - {pairs: [0-2], alpha_us: 3, beta_us_per_mb: 1}\n")
    sketch = parse_sketch("intranode: {strategy: none}\nsymmetry: [[1, 3]]\n")
    explanation = explain(topology=machine, sketch=sketch, size="3MB")
    (conflict,) = explanation.conflicts
    assert lines_of(conflict) == [2] and "alpha" in conflict.what
    assert "minimal: without it, there is nothing to break: the machine breaks it" in explanation.summary()


def test_switch_policies_that_are_not_alike_are_named() -> None:
    text = """\
intranode:
  strategy: switch
  switches:
    - {gpus: [0, 1, 2]}
    - {gpus: [0, 1], policy: uc-max}
internode: {strategy: fully-connected}
symmetry: [[1, node]]
"""
    (conflict,) = requested(text).conflicts
    assert (lines_of(conflict), conflict.is_minimal) == ([5, 7], True)
    (conflict,) = requested(text.replace("{gpus: [0, 1, 2]}", "{gpus: [1, 2], policy: uc-max}")).conflicts
    assert not conflict.lines[1].said.text.startswith("policy")


def test_a_permutation_that_is_none_is_the_usual_error() -> None:
    with pytest.raises(SketchError, match="do not divide"):
        requested("intranode: {strategy: none}\nsymmetry: [[1, 4]]\n")


def test_a_target_below_what_the_machine_can_do_is_blamed_on_no_line() -> None:
    explanation = explain("allgather", sketch="ndv2-sk-1", size="16MB", target_time="500us")
    (conflict,) = explanation.conflicts
    assert explanation.exit_code == 3
    assert conflict.lines == ()
    assert conflict.machine.startswith("the machine itself, with every link allowed")
    assert explanation.machine_bound is not None and explanation.machine_bound.value_us == pytest.approx(840)


def test_a_target_that_the_sketch_keeps_out_of_reach_has_minimal_lines() -> None:
    explanation = explain("allreduce", sketch="ndv2-sk-1", size="16MB", target_time=1827, time_limit=120)
    (conflict,) = explanation.conflicts
    assert (lines_of(conflict), conflict.is_minimal) == ([9, 15, 17], True)
    assert "1827.30 us" in conflict.what
    assert [[said.line for said in lines] for lines in explanation.helps] == [[15], [17], [9]]
    assert "-> 1680.00 us" in explanation.summary()


@pytest.mark.parametrize(("chunks", "said"), [(2, "--chunks 2"), (None, "1 chunk for each rank's part")])
def test_a_target_that_finer_chunks_could_meet_is_blamed_on_their_number(
    chunks: int | None, said: str
) -> None:
    explanation = explain("broadcast", topology="ring:5", size="8MB", target_time=100, chunks=chunks)
    assert explanation.verdict == "impossible"
    (conflict,) = explanation.conflicts
    assert [line.said.text.split(":")[0] for line in conflict.lines] == [said]
    assert f"it is enough to change {said}" in explanation.summary()


def test_static_sharing_of_nics_is_a_line_like_others() -> None:
    text = "intranode: {strategy: none}\ninternode:\n  strategy: fully-connected\n  nic_sharing: static\n"
    bound = requested(text).bound
    assert bound is not None
    relaxed = requested(text.replace("static", "port")).bound
    assert relaxed is not None and relaxed.value_us < bound.value_us
    target = (relaxed.value_us + bound.value_us) / 2
    (conflict,) = requested(text, target_time=target).conflicts
    assert 4 in lines_of(conflict)


def test_without_time_no_line_is_named_and_nothing_called_minimal() -> None:
    explanation = explain("allgather", sketch="ndv2-sk-1", size="16MB", target_time=900, time_limit=1e-9)
    (conflict,) = explanation.conflicts
    assert (conflict.lines, conflict.is_minimal) == ((), False)
    assert "which lines are to blame is not known" in explanation.summary()


def test_a_target_that_a_first_schedule_meets_is_possible() -> None:
    explanation = explain("allgather", topology="ring:4", size="4MB", target_time="1s")
    assert (explanation.verdict, explanation.exit_code) == ("possible", 0)
    assert explanation.found is not None and explanation.bound is not None
    assert explanation.found.schedule.makespan_us >= explanation.bound.value_us


def test_a_target_that_no_bound_excludes_and_no_schedule_meets_is_not_excluded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow(problem: Problem, options: SearchOptions, on_progress: object) -> Found:
        found = search(problem, replace(options, engine="greedy", time_limit_s=0.01))
        return replace(found, lower_bound_us=1.0)

    monkeypatch.setattr("taccl.analysis.explained.reasons.search", slow)
    monkeypatch.setattr(
        "taccl.analysis.explained.reasons.lower_bound", lambda *_: Proof(1.0, "a guess", "cut")
    )
    explanation = explain("allgather", topology="ring:4", size="4MB", target_time=2)
    assert (explanation.verdict, explanation.exit_code) == ("not excluded", 0)
    assert "nothing excludes a schedule within 2 us, and none was found" in explanation.summary()


def test_what_only_the_search_proves_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def proved(problem: Problem, options: SearchOptions, on_progress: object) -> Found:
        found = search(problem, replace(options, engine="greedy", time_limit_s=0.01))
        return replace(found, lower_bound_us=50.0, bound_source="a proof")

    monkeypatch.setattr("taccl.analysis.explained.reasons.search", proved)
    monkeypatch.setattr(
        "taccl.analysis.explained.reasons.lower_bound", lambda *_: Proof(1.0, "a guess", "cut")
    )
    explanation = explain("allgather", topology="ring:4", size="4MB", target_time=40)
    (conflict,) = explanation.conflicts
    assert explanation.verdict == "impossible"
    assert "50.00 us (a proof)" in conflict.what and not conflict.lines
    assert "which lines are to blame is not known" in explanation.summary()


def test_what_is_possible_comes_with_its_longest_way() -> None:
    explanation = explain("allgather", topology="ring:5", size="5MB")
    assert explanation.verdict == "possible"
    assert explanation.way is not None and explanation.way.num_links == 2
    assert "longest way: 2 links, 0 -> 1 -> 2" in explanation.summary()
    single = explain("alltoall", topology="ring:2", size="2MB")
    assert single.way is not None and "longest way: 1 link, " in single.summary()


def test_a_collective_in_which_nothing_moves_is_possible() -> None:
    stays = Placement(np.array([0]), np.array([1]), np.array([0]))
    nothing = replace(make_collective("broadcast", 3), inputs=stays, outputs=stays, owner=np.array([1]))
    explanation = explain(nothing, topology="ring:3", size=4)
    assert (explanation.verdict, explanation.way) == ("possible", None)


def test_wrong_requests_are_errors_and_no_explanations() -> None:
    with pytest.raises(UnitError, match="is not a time"):
        explain(topology="ring:3", size="3MB", target_time="soon")
    with pytest.raises(SolverError, match="time limit"):
        explain(topology="ring:3", size="3MB", time_limit=0)
    with pytest.raises(SolverError, match="at least one link"):
        explain(topology="ring:3", size="3MB", max_hops=0)
    with pytest.raises(CollectiveError, match="is for 4 ranks"):
        explain(make_collective("allgather", 4), topology=build_topology("ring:3"), size=4)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_demands_are_counted_without_listing_them(name: str) -> None:
    for collective in (make_collective(name, 5, 2), make_collective(name, 1)):
        listed = [each for chunk in range(collective.num_chunks) for each in demands_of(collective, chunk)]
        assert number_of_demands(collective) == len(listed)


@given(sketch=sketches(), name=st.sampled_from(COLLECTIVES), nodes=st.integers(1, 2))
@settings(max_examples=examples(20), deadline=None)
def test_what_is_impossible_is_what_cannot_be_applied_and_its_lines_are_minimal(
    sketch: Sketch, name: str, nodes: int
) -> None:
    machine = small_machine(nodes)
    apart = TakenApart(sketch, machine)
    collective = make_collective(name, machine.num_ranks)
    unmet = unmet_demands(Inputs(Demand(collective), machine, sketch, 1.0), apart, None, Budget(60.0))
    try:
        apply_sketch(sketch, machine, collective, 1.0)
        assert unmet.unmet == 0 and not unmet.conflicts and not unmet.helps
        return
    except InfeasibleError:
        assert unmet.unmet > 0
    position = {rule.said: number for number, rule in enumerate(apart.rules)}
    for conflict in unmet.conflicts:
        assert conflict.is_minimal
    for lines in unmet.helps:
        left = [number for said, number in position.items() if said not in lines]
        assert first_gap(collective, *apart.network(left)) is None
        for back in lines:
            more = [*left, position[back]]
            assert len(lines) == 1 or first_gap(collective, *apart.network(more)) is not None
    assert unmet.helps or first_gap(collective, *apart.network(())) is not None


@given(sketch=sketches(), name=st.sampled_from(COLLECTIVES), share=st.floats(0.5, 1.5))
@settings(max_examples=examples(8), deadline=None)
def test_no_schedule_meets_a_target_that_is_called_impossible(
    sketch: Sketch, name: str, share: float
) -> None:
    machine = small_machine()
    collective = make_collective(name, machine.num_ranks)
    try:
        problem = apply_sketch(sketch, machine, collective, 1.0).problem
    except InfeasibleError:
        return
    first = next(reducing(greedy)(problem, SearchOptions(), Budget(0.0), None)).schedule
    assert first is not None
    time_us = first.makespan_us
    explanation = explain(
        collective,
        topology=machine,
        sketch=sketch,
        size=problem.size_bytes,
        target_time=share * time_us,
        time_limit=1.0,
    )
    if share >= 1:
        assert explanation.verdict != "impossible"
    if explanation.verdict == "impossible":
        (conflict,) = explanation.conflicts
        reported = "which lines are to blame is not known" in explanation.summary()
        assert conflict.machine or conflict.lines or reported, "on a busy machine there may be no time to ask"
        assert explanation.bound is not None and explanation.bound.value_us > share * time_us
    if explanation.verdict == "possible":
        assert explanation.found is not None
        assert explanation.found.schedule.makespan_us <= share * time_us
