"""Which calls a runtime gives to a file, and that it is judged for these calls and no others."""

from dataclasses import replace

import pytest
from fuzzing import modes_of, outcomes
from programs import (
    block,
    direct_alltoall,
    edit,
    program,
    ring_allgather,
    ring_allreduce,
    scratch_allreduce,
    step,
    with_steps,
)

from taccl.backend.msccl_xml import to_xml
from taccl.backend.program import Protocol
from taccl.backend.verify.msccl_xml import verify_program, verify_text
from taccl.backend.verify.msccl_xml.limits import RUNTIMES
from taccl.backend.verify.msccl_xml.unfold import modes_of as judged_modes

LATER = ("executor", "rccl")


def claiming(made, in_place, out_of_place):
    return replace(made, in_place=in_place, out_of_place=out_of_place)


def rules(report):
    return {finding.rule for finding in report.errors}


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("out_of_place", [False, True])
@pytest.mark.parametrize("made", [ring_allreduce(2), direct_alltoall(2)])
def test_the_calls_of_each_runtime(made, in_place, out_of_place):
    made = claiming(made, in_place, out_of_place)
    for runtime in RUNTIMES:
        words = {True: "in place", False: "out of place"}
        expected = {words[mode] for mode in modes_of(made, (runtime.name,))}
        assert set(judged_modes(made, runtime)) == expected


def test_a_file_without_any_mode_is_called_out_of_place_by_msccl():
    """The fused ring sums in its input, which is wrong out of place, and that is how msccl calls 0/0."""
    none = claiming(ring_allreduce(3), in_place=False, out_of_place=False)
    report = verify_program(none, targets="msccl")
    assert (report.facts.in_place, report.facts.out_of_place) == ("not claimed", "wrong")
    assert {"input-changed", "wrong-result"} & rules(report)
    assert outcomes(none, 3) == {"wrong"}
    fine = claiming(ring_allgather(3), in_place=False, out_of_place=False)
    assert verify_program(fine, targets="msccl").ok
    assert rules(verify_program(fine, targets=LATER)) == {"no-mode"}


def test_what_a_file_claims_for_calls_that_msccl_never_makes_does_not_count():
    both = claiming(ring_allreduce(3), in_place=True, out_of_place=True)
    report = verify_program(both, targets="msccl")
    assert report.ok
    assert (report.facts.in_place, report.facts.out_of_place) == ("right", "not used")
    assert outcomes(both, 3) == {"right"}
    assert "input-changed" in rules(verify_program(both, targets="executor"))


def test_a_finding_about_one_mode_names_the_runtimes_that_call_it_so():
    both = claiming(ring_allreduce(3), in_place=True, out_of_place=True)
    changed = [each for each in verify_program(both).errors if each.rule == "input-changed"]
    assert {each.runtimes for each in changed} == {LATER}


def test_msccl_has_no_alltoall_in_place():
    made = claiming(direct_alltoall(2), in_place=True, out_of_place=True)
    made = with_steps(made, 0, 0, lambda steps: ())
    report = verify_program(made, targets="msccl")
    (finding,) = [each for each in report.errors if each.rule == "never-selected"]
    assert "alltoall in place" in finding.message
    assert report.facts.readers["msccl"] == "never"
    assert verify_program(claiming(direct_alltoall(2), False, True), targets="msccl").ok


def test_an_unlimited_file_is_judged_for_the_runtimes_that_take_it():
    """maxBytes="0" is "no limit" for two runtimes and "for no call" for the third."""
    unlimited = replace(ring_allgather(3), max_bytes=0)
    report = verify_text(to_xml(unlimited), targets=None)
    assert report.ok, report.errors
    assert report.facts.readers == {"msccl": "never", "executor": "yes", "rccl": "yes"}
    assert rules(verify_program(unlimited, targets="msccl")) == {"never-selected"}
    wrong = edit(unlimited, 0, 0, 1, depends=None)
    assert "race" in rules(verify_program(wrong, targets=None))


def test_a_file_that_nobody_takes_is_judged_for_all():
    report = verify_program(replace(ring_allgather(3), collective="alltonext"), targets=None)
    assert "collective-name" in rules(report)
    assert not report.ok


def test_msccl_refuses_a_lower_limit_over_an_upper_one_of_zero():
    made = replace(ring_allgather(3), min_bytes=1, max_bytes=0)
    assert rules(verify_program(made, targets="msccl")) == {"size-range"}
    assert verify_program(made, targets="msccl").facts.readers["msccl"] == "no"
    assert verify_program(made, targets=LATER).ok


def reduce_through(buffer, root=0, **changes):
    """Out of place, rank 1 adds what rank 2 sends to its own, in a buffer of its own, for rank 0."""
    own = f"{buffer}0"
    ranks = (
        (block(0, -1, 1, step("cpy", "i0", "o0"), step("rrc", "o0")),),
        (block(0, 0, 2, step("cpy", "i0", own), step("rrc", own), step("s", own)),),
        (block(0, 1, -1, step("s", "i0")),),
    )
    return program("reduce", 1, *ranks, scratch=1, protocol=Protocol.LL, **changes)


def test_out_of_place_only_the_root_of_a_reduce_has_an_output():
    report = verify_program(reduce_through("o"), targets="executor")
    found = [each for each in report.errors if each.rule == "no-output"]
    assert [(each.rank, each.step) for each in found] == [(1, 0), (1, 1)]
    assert report.facts.out_of_place == "wrong"
    assert verify_program(reduce_through("s"), targets="executor").ok
    in_place = reduce_through("o", in_place=True, out_of_place=False)
    assert "no-output" not in rules(verify_program(in_place, targets="executor"))


def test_the_flag_of_a_send_with_ll_does_not_free_its_source_on_rccl():
    """In block 1 the copy over what block 0 sends waits for that send alone."""
    sending = (step("s", "i0", tells=True),)
    ranks = (
        (
            block(0, 1, -1, *sending),
            block(1, -1, 1, step("r", "s0"), step("cpy", "s0", "i0", wait=(0, 0))),
        ),
        (
            block(0, 0, -1, *sending),
            block(1, -1, 0, step("r", "s0"), step("cpy", "s0", "i0", wait=(0, 0))),
        ),
    )
    made = program("allreduce", 1, *ranks, scratch=1, in_place=True, protocol=Protocol.LL)
    found = [each for each in verify_program(made).errors if each.rule == "rccl-early-flag"]
    assert {each.runtimes for each in found} == {("rccl",)}
    assert "thread block 0, step 0 (s)" in found[0].message
    assert "rccl-early-flag" not in rules(verify_program(made, targets="executor"))
    assert "rccl-early-flag" not in rules(verify_program(replace(made, protocol=Protocol.LL128)))
    later = with_steps(made, 0, 0, lambda steps: (replace(steps[0], has_dependent=False),))
    later = with_steps(later, 0, 0, lambda steps: (*steps, step("cpy", "s1", "s1", tells=True)))
    later = edit(later, 0, 1, 1, depends=(0, 1))
    later = replace(later, ranks=tuple(replace(each, scratch_chunks=2) for each in later.ranks))
    reported = [each for each in verify_program(later).errors if each.rule == "rccl-early-flag"]
    assert {each.rank for each in reported} == {1}


def test_a_copy_onto_itself_overwrites_nothing():
    """In place i0 and o0 are one, and the copy of it waits for the send of it."""
    ranks = tuple(
        (
            block(0, 1 - rank, -1, step("s", "i0", tells=True)),
            block(1, -1, 1 - rank, step("r", "s0"), step("cpy", "i0", "o0", wait=(0, 0))),
        )
        for rank in range(2)
    )
    made = program("allreduce", 1, *ranks, scratch=1, in_place=True, protocol=Protocol.LL)
    assert "rccl-early-flag" not in rules(verify_program(made))


def test_all_of_scratch_allreduce_is_safe_with_ll():
    assert verify_program(scratch_allreduce(3, protocol=Protocol.LL), targets="executor").ok
