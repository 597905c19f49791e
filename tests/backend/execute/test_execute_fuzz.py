"""Random programs, whole and damaged: what verification says against what execution shows."""

import random

from fuzzing import outcomes, random_programs
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import mutate
from studies import examples

from taccl.backend.msccl_xml import to_xml
from taccl.backend.verify.msccl_xml import verify_program, verify_text

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=examples(6), deadline=None)
@given(seed=seeds)
def test_what_is_synthesized_passes_every_check_and_runs_in_any_order(seed: int) -> None:
    schedule, programs = random_programs(random.Random(seed))
    schedule.check()
    for lowered in programs:
        report = verify_text(to_xml(lowered.program), targets=lowered.readers)
        assert report.ok, report.findings
        root = schedule.problem.collective.root
        assert outcomes(lowered.program, 3, seed, lowered.readers, root) == {"right"}


@settings(max_examples=12, deadline=None)
@given(seed=seeds)
def test_no_damage_that_execution_ever_shows_passes_verification(seed: int) -> None:
    dice = random.Random(seed)
    schedule, programs = random_programs(dice)
    lowered, root = programs[0], schedule.problem.collective.root
    for _ in range(4):
        done, mutant = mutate(dice, lowered.program)
        if verify_program(mutant, targets=lowered.readers, root=root).ok:
            assert outcomes(mutant, 10, seed, lowered.readers, root) == {"right"}, done
